"""Field cases of facts that come late or not at once, each from the first event to the quiet at its end."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.app.stage import Stage, labelled, small
from tests.app.upkeep import asks, entry, settled
from tests.clusters import GB, P5, record_of, unlabelled
from tests.fake_aws import Failure
from topology_plugin.core import state_json
from topology_plugin.jobs.simulated_cluster import cluster, in_tree, in_ultraservers


def test_br_06_what_a_throttled_ec2_did_not_answer_is_pending_and_completed_without_an_operator(tmp_path: Path) -> None:
    simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 180, per_leaf=16))
    stage = Stage(tmp_path, unlabelled(simulated), sources="resource-config,records,ec2")
    entries = {m.instance_id: entry(m.instance_id, m.label) for m in labelled(simulated) if m.label}
    start, calls = stage.clock.time, [0]

    def ec2(operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Nine of ten calls are throttled for three minutes; never more than 100 ids are taken."""
        ids = parameters["InstanceIds"]
        if len(ids) > 100:
            raise Failure("InvalidParameterValue", "instance-ids cannot contain over 100 values.")
        calls[0] += 1
        if stage.clock.time - start < 50 + 180 and calls[0] % 10:
            raise Failure("RequestLimitExceeded", "Request limit exceeded.", 503)
        return {"Instances": [entries[i] for i in ids if i in entries]}

    service = asks(stage, ec2)
    stage.go(130)
    silent = [node.silent.get("ec2", "") for node in state_json.load(stage.state()).inventory.nodes.values()]
    assert any("RequestLimitExceeded" in why for why in silent), "the pass tells what is owed"
    assert any("the next pass goes on" in said for said in stage.said)
    assert service.asked
    stage.go(600)
    assert sum(len(nodes) for leaf, nodes in stage.leaves("tree").items() if leaf.startswith("nn-")) == 180
    assert max(len(parameters["InstanceIds"]) for parameters in service.asked) <= 100
    asked = len(service.asked)
    settled(stage)
    assert len(service.asked) == asked, "what is known is not asked for again"
    assert stage.ctld.reconfigures <= 4


@pytest.mark.parametrize("nothing", [None, "null"], ids=["absent", "the-word-null"])
def test_br_08_no_block_is_made_of_nothing_and_the_fill_in_is_one_update(tmp_path: Path, nothing: str | None) -> None:
    simulated = cluster(GB).with_machines(in_ultraservers("worker-gb", [6]))
    stage = Stage(tmp_path, unlabelled(simulated), sources="resource-config,records,ec2")
    machines = labelled(simulated)
    start = stage.clock.time

    def ec2(operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Half of them without a block for the first two minutes."""
        late = stage.clock.time - start < 120
        found = []
        for number, one in enumerate(machines):
            assert one.label is not None
            found.append(entry(one.instance_id, one.label, nothing if late and number % 2 else "cb-0aaaaaaaaaaaaaaa1"))
        return {"Instances": [e for e in found if e["InstanceId"] in parameters["InstanceIds"]]}

    asks(stage, ec2)
    stage.go(100)
    blocks = stage.leaves("block")
    assert set(blocks) & {"null", "None", ""} == set()
    assert len(blocks["cb-0aaaaaaaaaaaaaaa1"]) == 3
    lonely = {nodes for name, nodes in blocks.items() if name != "cb-0aaaaaaaaaaaaaaa1"}
    assert all(len(nodes) <= 1 for nodes in lonely), "those without an id share nothing"
    before = stage.ctld.reconfigures
    stage.go(400)
    assert {n: len(nodes) for n, nodes in stage.leaves("block").items() if nodes}["cb-0aaaaaaaaaaaaaaa1"] == 6
    assert stage.ctld.reconfigures - before == 1
    settled(stage)


def test_br_22_nodes_register_as_soon_as_the_file_system_lets_them_and_a_later_pass_heals(tmp_path: Path) -> None:
    simulated = small(16)
    stage = Stage(tmp_path, unlabelled(simulated))
    nodes = stage.room.registry / "nodes"
    start = stage.clock.time

    def sixteen_at_once(now: float) -> None:
        if now - start == 20:
            nodes.mkdir(parents=True)  # mounted, not yet writable
        if now - start == 60:
            for machine in labelled(simulated):
                stage.record(machine)

    assert stage.go(60, sixteen_at_once) == []
    stage.go(200)
    assert {leaf: len(n) for leaf, n in stage.leaves("tree").items() if leaf.startswith("nn-")} == {
        "nn-la0": 8,
        "nn-la1": 8,
    }
    settled(stage)


def test_br_23_a_listing_that_lags_removes_nobody_and_ends_in_one_update(tmp_path: Path) -> None:
    """Eight nodes register within 5 s; the reader's view of the directory is a copy refreshed every 30 s."""
    simulated = small(8)
    stage = Stage(tmp_path, unlabelled(simulated))
    stage.go(100)  # the cluster is up, nobody has registered
    before = stage.ctld.reconfigures
    real, view = Stage(tmp_path / "server", simulated).registry, stage.room.registry / "nodes"
    for machine in labelled(simulated)[:3]:  # what the first refresh happens to see
        stage.record(machine)
    for machine in labelled(simulated):
        real.write(record_of(machine))
    placed: list[int] = []
    start = stage.clock.time

    def refresh(now: float) -> None:
        if int(now - start) % 30 == 0:
            for path in real.nodes.iterdir():
                if not (view / path.name).exists():
                    (view / path.name).write_bytes(path.read_bytes())
        if "tree" in {t.name for t in stage.loaded().topologies}:
            placed.append(sum(len(n) for leaf, n in stage.leaves("tree").items() if leaf.startswith("nn-")))

    stage.go(180, refresh)
    assert stage.ctld.reconfigures - before == 1, "one settled update"
    assert placed == sorted(placed), "nobody was placed and lost again"
    assert placed[-1] == 8
    settled(stage)


def test_br_23_an_absence_of_minutes_is_no_leaving(tmp_path: Path) -> None:
    """A record that is not to be seen for a while (a cache, a server that failed over) takes nobody out."""
    simulated = small(8)
    stage = Stage(tmp_path, unlabelled(simulated))
    for machine in labelled(simulated):
        stage.record(machine)
    stage.go(200)
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    path = stage.room.registry / "nodes" / f"{labelled(simulated)[0].instance_id}.json"
    data = path.read_bytes()
    path.unlink()
    stage.go(180)
    path.write_bytes(data)
    stage.go(180)
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)


def test_br_26_stamps_of_other_clocks_decide_nothing(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, unlabelled(simulated))
    for skew, machine in zip([-646, 646] * 8, labelled(simulated), strict=True):
        stage.record(machine)
        path = stage.room.registry / "nodes" / f"{machine.instance_id}.json"
        os.utime(path, (stage.clock.time + skew, stage.clock.time + skew))
    stage.go(200)
    plain = Stage(tmp_path / "plain", simulated)
    plain.go(200)
    assert stage.hash() == plain.hash()
    for machine in labelled(simulated):  # and the server's clock goes back in the middle
        path = stage.room.registry / "nodes" / f"{machine.instance_id}.json"
        os.utime(path, (0, 0))
    settled(stage)
