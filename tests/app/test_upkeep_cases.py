"""Field cases of upkeep, each from the first event to the quiet at its end, through the watch and its passes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.app.stage import Stage, labelled, small
from tests.clusters import GB, P5, record_of, unlabelled
from tests.fake_aws import Failure, Service
from topology_plugin.adapters.ec2 import Ec2Topology
from topology_plugin.app import ownership
from topology_plugin.app.observation import Api
from topology_plugin.app.reconcile import Reconciler
from topology_plugin.app.watch import DRIFT_SECONDS
from topology_plugin.core import state_json
from topology_plugin.core.position import Position
from topology_plugin.jobs.simulated_cluster import SimulatedCluster, cluster, in_tree, in_ultraservers

QUIET = 2 * DRIFT_SECONDS


def asks(stage: Stage, answer: Callable[[str, Mapping[str, Any]], dict[str, Any]]) -> Service:
    """From now on passes ask this EC2, behind boto3's real client."""
    service = Service("ec2", answer)
    api: Api = Ec2Topology(service.calls(stage.clock), stage.clock)
    passes = stage.watch.ground.passes
    assert isinstance(passes, Reconciler)
    passes.observer.apis = {"ec2": lambda: api}
    return service


def entry(machine_id: str, label: Position, block: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"InstanceId": machine_id, "InstanceType": "p5.48xlarge", "NetworkNodes": list(label.path)}
    if label.ultraserver is not None:
        found["InstanceType"] = "p6e-gb200.36xlarge"
        found |= {} if block is None else {"CapacityBlockId": block}
    return found


def settled(stage: Stage) -> None:
    """Quiet: the same bytes, nothing to do."""
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    assert set(stage.go(QUIET)) <= {"unchanged"}
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)


# --- BR-06: EC2 takes 100 ids a call, and throttles ---


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


# --- BR-08: UltraServers that are filled in later ---


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


# --- BR-22: a shared file system that is late ---


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


# --- BR-23: a listing that lags ---


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


# --- BR-24: two writers ---


@pytest.mark.parametrize("enabled", [True, False])
def test_br_24_an_agent_that_rewrites_ten_times_in_ten_minutes_makes_no_loop_of_two_writers(
    tmp_path: Path, enabled: bool
) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.document("cluster_agent.json", {"SlurmConfiguration": {"EnableTopology": enabled, "UseInstanceNames": False}})
    stage.go(200)
    agents = stage.room.conf.read_text().replace(" Topology=tree", "") + "# the agent's own line\n"
    before, start = stage.ctld.reconfigures, stage.clock.time

    def rewrite(now: float) -> None:
        if int(now - start) % 60 == 0:
            stage.room.conf.write_text(agents)
            stage.yaml.write_text("[]\n")

    stage.go(600, rewrite)
    assert stage.ctld.reconfigures - before == 6, "once per settled change, and then no more"
    assert stage.room.conf.read_text() == agents
    assert len([said for said in stage.said if "standing back" in said]) == 1
    assert set(stage.go(600)) == {"observed"}
    ownership.resume(stage.wiring.doors())
    assert stage.go(60) == ["applied"]
    assert "# the agent's own line" in stage.room.conf.read_text()
    settled(stage)


def test_br_24_with_enable_topology_a_healthy_file_of_the_agent_makes_us_stand_back_and_say_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.document("cluster_agent.json", {"SlurmConfiguration": {"EnableTopology": True}})
    stage.go(200)
    theirs = "- topology: theirs\n  cluster_default: true\n  flat: true\n"
    before = stage.ctld.reconfigures
    for _ in range(10):
        stage.agent(small())
        stage.yaml.write_text(theirs)
        stage.go(60)
    stage.go(300)
    assert stage.yaml.read_text() == theirs
    assert stage.ctld.reconfigures == before
    assert len([said for said in stage.said if "HyperPod's agent manages the topology" in said]) == 1


def test_br_24_words_that_the_agent_takes_out_come_back_once_per_settled_change(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(200)
    before = stage.ctld.reconfigures
    stage.agent(simulated)
    assert "Topology=" not in stage.room.conf.read_text()
    assert stage.go(400).count("applied") == 1
    assert "Topology=tree" in stage.room.conf.read_text()
    assert stage.ctld.reconfigures - before == 1


# --- BR-26: clocks ---


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


# --- BR-27: replacement ---


def test_br_27_a_replacement_on_another_leaf_costs_one_reconfigure_and_on_the_same_leaf_none(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(300)
    before = stage.ctld.reconfigures
    victim = labelled(simulated)[0]
    assert victim.label is not None
    same = simulated.with_changed(victim.name, instance_id="i-0fff0000000000001")
    stage.lists(same)
    stage.go(300)
    assert stage.ctld.reconfigures == before
    other = replace(victim.label, path=(*victim.label.path[:-1], "nn-la1"))
    stage.lists(same.with_changed(victim.name, instance_id="i-0fff0000000000002", label=other))
    stage.go(300)
    assert stage.ctld.reconfigures - before == 1
    assert stage.leaf_of(victim.name) == "nn-la1"
    nodes = state_json.load(stage.state()).inventory.nodes
    assert nodes[victim.name].instance_id == "i-0fff0000000000002"
    assert victim.instance_id not in json.dumps(stage.state()), "the old id is forgotten"
    settled(stage)


def test_br_27_the_record_of_the_replaced_instance_does_not_hold_its_node_back(tmp_path: Path) -> None:
    """It stays in the registry; the newer instance wins because the controller's copy names it."""
    simulated = small()
    stage = Stage(tmp_path, unlabelled(simulated))
    for machine in labelled(simulated):
        stage.record(machine)
    stage.go(300)
    victim = labelled(simulated)[0]
    assert victim.label is not None
    other = replace(victim.label, path=(*victim.label.path[:-1], "nn-la1"))
    fresh = replace(victim, instance_id="i-0fff0000000000002", label=other)
    before = stage.ctld.reconfigures
    stage.lists(unlabelled(simulated.with_changed(victim.name, instance_id=fresh.instance_id)))
    stage.record(fresh)
    stage.go(300)
    assert stage.leaf_of(victim.name) == "nn-la1"
    assert stage.ctld.reconfigures - before == 1
    settled(stage)


def test_br_27_a_replacement_at_another_address_takes_the_old_name_out(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(300)
    before = stage.ctld.reconfigures
    victim = labelled(simulated)[0]
    moved = replace(victim, address="10.1.1.113", instance_id="i-0fff0000000000003")
    stage.agent(simulated.without([victim.name]).with_machines([moved]))
    stage.go(300)
    assert stage.leaf_of("ip-10-1-1-113") == "nn-la0"
    assert stage.leaf_of(victim.name) is None
    assert stage.ctld.reconfigures - before == 1
    settled(stage)


# --- BR-28: scale-down ---


def test_br_28_ghosts_stay_while_slurm_conf_lists_them_and_then_go_without_empty_switches(tmp_path: Path) -> None:
    simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 8, per_leaf=2))
    stage = Stage(tmp_path, unlabelled(simulated))
    for machine in labelled(simulated):
        stage.record(machine)
    stage.go(300)
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    left = simulated.without([m.name for m in simulated.members("worker-p5")[1:]])
    stage.lists(unlabelled(left))
    stage.go(300)
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures), "not earlier than slurm.conf"
    stage.agent(unlabelled(left))
    stage.go(300)
    assert {leaf for leaf, nodes in stage.leaves("tree").items() if leaf.startswith("nn-")} == {"nn-la0"}
    assert "nn-la1" not in stage.yaml.read_text()
    assert stage.ctld.reconfigures - reconfigures == 1
    settled(stage)
    assert len(list((stage.room.registry / "nodes").iterdir())) == 8, "their records do no harm"
    first = stage.wiring.pruner().run(apply=True)
    assert first is not None
    assert first.removed == ()
    stage.clock.time += 3601
    pruned = stage.wiring.pruner().run(apply=True)
    assert pruned is not None
    assert len(pruned.removed) == 7
    settled(stage)


# --- BR-31: software updates ---


def test_br_31_a_rolling_software_update_and_a_re_imaged_controller_stay_bounded(tmp_path: Path) -> None:
    """64 nodes register again (one of them four times), the controller's own disk is new in the middle."""
    simulated = small(64)
    stage = Stage(tmp_path, unlabelled(simulated))
    nodes = labelled(simulated)
    for machine in nodes:
        stage.record(machine)
    stage.go(300)
    before, text = stage.ctld.reconfigures, stage.hash()
    again = iter([*nodes[:7], *[nodes[6]] * 3, *nodes[7:]])
    written = []
    stage.go(670, lambda now: written.append(stage.record(next(again, nodes[0]))))
    assert not any(written), "registering again is idempotent"
    assert stage.ctld.reconfigures == before, "same facts, nothing to do"
    fresh = re_imaged(stage, unlabelled(simulated))
    fresh.go(400)
    assert fresh.hash() == text
    assert stage.ctld.reconfigures - before <= 1
    assert fresh.state()["generation"] == 1, "generations go on where they were: the registry has them"
    settled(fresh)


def re_imaged(stage: Stage, simulated: SimulatedCluster) -> Stage:
    """A new root volume: no state directory, no topology.yaml, slurm.conf as the agent writes it, a new watch."""
    shutil.rmtree(stage.wiring.places.state_dir)
    stage.watch.ground.passes.leave()
    stage.yaml.unlink()
    stage.agent(simulated)
    return Stage(stage.room.directory, simulated, beside=stage)


@pytest.mark.parametrize(("version", "warned"), [("25.11.0", True), ("25.11.2", True), ("25.11.3", False)])
def test_br_31_versions_that_drop_powered_down_nodes_are_named(tmp_path: Path, version: str, warned: bool) -> None:
    stage = Stage(tmp_path, cluster(GB).with_machines(in_ultraservers("worker-gb", [4, 4])))
    stage.ctld.version_text = version
    stage.go(700)
    said = [sentence for sentence in stage.said if "drops powered-down CLOUD nodes" in sentence]
    assert len(said) == warned, "once, not in every pass"
    assert all(version in sentence for sentence in said)
    assert "block" in {t.name for t in stage.loaded().topologies}
