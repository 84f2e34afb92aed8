"""No data is not "no nodes": a config that is cut off or names what is not there is said, and takes nothing away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.stage import Stage
from tests.clusters import P5
from topology_plugin.app import ownership
from topology_plugin.app.observe_state import facts_in_force
from topology_plugin.app.reconcile import Wish
from topology_plugin.app.rollback import Rollback
from topology_plugin.core import state_json
from topology_plugin.core.decision import Memory
from topology_plugin.core.issues import InputError
from topology_plugin.core.resource_config import WrongOrchestrator
from topology_plugin.core.sources import ApiGroup
from topology_plugin.jobs.simulated_cluster import SimulatedGroup, cluster, in_tree

SMALL = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 8))


@pytest.mark.parametrize(
    ("damage", "told"),
    [
        pytest.param(lambda text: "", "lists neither nodes nor partitions", id="empty"),
        pytest.param(lambda text: "ClusterName=c1\n", "lists neither nodes nor partitions", id="cut-off"),
        pytest.param(lambda text: text + "Include nodes.conf\n", "an Include cannot be read", id="include-gone"),
    ],
)
def test_a_slurm_conf_that_is_cut_off_takes_no_topology_away(tmp_path: Path, damage, told: str) -> None:  # type: ignore[no-untyped-def]
    stage = Stage(tmp_path, SMALL)
    reconciler = stage.wiring.reconciler()
    reconciler.run(Wish())
    before = stage.yaml.read_bytes()
    assert b"tree" in before
    stage.room.conf.write_text(damage(stage.room.conf.read_text()))
    with pytest.raises(InputError, match=told):
        reconciler.run(Wish(offline=True))
    with pytest.raises(InputError, match=told):
        reconciler.run(Wish())
    assert stage.yaml.read_bytes() == before


def test_with_an_include_gone_nobody_waits_for_slurms_commands_and_nothing_is_rolled_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SMALL)
    reconciler = stage.wiring.reconciler()
    reconciler.run(Wish())
    stage.room.conf.write_text(stage.room.conf.read_text() + "Include nodes.conf\n")
    asked = stage.ctld.asked
    with pytest.raises(InputError, match="an Include cannot be read"):
        reconciler.run(Wish())
    assert stage.ctld.asked == asked
    for dry_run in (True, False):
        with pytest.raises(InputError, match="an Include cannot be read"):
            Rollback.of(stage.fresh_wiring(), stage.said.append).run(1, dry_run=dry_run)
    assert not ownership.on_hold(reconciler.doors)


def test_a_kubernetes_cluster_is_refused_whatever_is_remembered(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SMALL)
    stage.wiring.reconciler().run(Wish())
    before = stage.yaml.read_bytes(), stage.room.conf.read_bytes(), stage.ctld.reconfigures
    stage.document("resource_config.json", {**SMALL.resource_config(), "ClusterType": "Kubernetes"})
    stage.room.conf.write_text(stage.room.conf.read_text())
    for wish in (Wish(), Wish(offline=True), Wish(dry_run=True)):
        with pytest.raises(WrongOrchestrator, match=r"ClusterType.*Kubernetes cluster.*nothing was changed"):
            stage.fresh_wiring().reconciler().run(wish)
    with pytest.raises(WrongOrchestrator):
        Rollback.of(stage.fresh_wiring(), stage.said.append)
    assert (stage.yaml.read_bytes(), stage.room.conf.read_bytes(), stage.ctld.reconfigures) == before


@pytest.mark.parametrize("head", ["", "TopologyParam=SwitchAsNodeRank,TopoOptional\n"], ids=["plain", "TopoOptional"])
def test_a_pass_reads_from_slurm_conf_whether_a_tree_may_be_left_aside(tmp_path: Path, head: str) -> None:
    stage = Stage(tmp_path, SMALL, head=head)
    assert stage.wiring.reconciler().run(Wish()).state.topo_optional == bool(head)


@pytest.mark.parametrize("text", ["[" * 100_000, "{", "[]", '{"ip-10-1-1-1": 3}'])
def test_facts_of_a_generation_that_cannot_be_read_are_none(tmp_path: Path, text: str) -> None:
    stage = Stage(tmp_path, SMALL)
    state = stage.wiring.reconciler().run(Wish()).state
    assert facts_in_force(stage.wiring, state)
    for path in tmp_path.rglob("facts.json"):
        path.write_text(text)
    assert facts_in_force(stage.wiring, state) == {}


def test_a_hold_says_since_when_and_by_what_and_how_it_ends(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SMALL)
    stage.clock.time = 1_796_038_936.0
    reconciler = stage.wiring.reconciler()
    reconciler.run(Wish())
    ownership.hold(reconciler.doors, "a training run ends first")
    outcome = reconciler.run(Wish())
    assert outcome.state.hold_note == "since 2026-11-30 11:42:16 UTC by `hold` (a training run ends first)"
    [told] = [note for note in outcome.notes if note.startswith("on hold since")]
    assert "by `hold`" in told and told.endswith("until `hyperpod-topology resume`")
    assert outcome.state == state_json.load(state_json.dump(outcome.state))
    ownership.hold(reconciler.doors, "to generation 1", by="rollback")
    assert "by `rollback` (to generation 1)" in reconciler.run(Wish()).state.hold_note
    (stage.wiring.places.state_dir / "hold.json").write_text('{"time": "yesterday"}')
    (stage.room.registry / "hold.json").write_text('{"time": "yesterday"}')
    assert reconciler.run(Wish()).state.hold


def test_roles_are_asked_of_the_api_again_after_a_failure_but_not_soon_and_for_new_groups(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SMALL, sources="resource-config,records,sagemaker")
    (stage.room.controller / "opt/ml/config/provisioning_parameters.json").unlink()
    names = [group.name for group in SMALL.groups]
    asked: list[int] = []

    def groups() -> dict[str, ApiGroup]:
        asked.append(len(asked))
        return {} if len(asked) == 1 else {**dict.fromkeys(names, ApiGroup()), "login-group": ApiGroup("login")}

    reconciler = stage.wiring.reconciler()
    observer = replace(reconciler.observer, apis={}, api_groups=groups)
    conf = reconciler.doors.live.disk().conf

    def role() -> str:
        return observer.look(conf, [], Memory()).inventory.groups["login-group"].role

    assert (role(), role(), len(asked)) == ("unknown", "unknown", 1)
    stage.clock.time += 601
    assert (role(), role(), len(asked)) == ("login", "login", 2)
    names.append("new")
    stage.lists(replace(SMALL, groups=(*SMALL.groups, SimulatedGroup("new", "ml.p5.48xlarge"))))
    assert (role(), role(), len(asked)) == ("login", "login", 3)


@pytest.mark.parametrize("name", ["worker-p5 ", "Worker-P5"])
def test_br_02c_a_group_that_does_not_exist_is_named_with_the_known_ones(tmp_path: Path, name: str) -> None:
    stage = Stage(tmp_path, SMALL)
    document = SMALL.provisioning_parameters()
    document["worker_groups"].append({"instance_group_name": name, "partition_name": "train"})
    stage.room._document(stage.room.controller, "provisioning_parameters.json", document)
    outcome = stage.wiring.reconciler().run(Wish(dry_run=True))
    [said] = [str(i) for i in outcome.state.inventory.issues if "there is no instance group" in i.what]
    assert "known are controller-machine, login-group, worker-p5" in said
    assert "write 'worker-p5', exactly so" in said


def test_a_pass_on_a_machine_that_is_no_controller_leaves_the_clusters_state_alone(tmp_path: Path) -> None:
    stage = Stage(tmp_path, SMALL)
    stage.room.registry.mkdir(parents=True)
    stage.wiring.reconciler().run(Wish())
    shared = stage.room.registry / "state.json"
    before = shared.read_bytes()
    (stage.wiring.places.state_dir / "state.json").unlink()  # as on a worker: same registry, a disk of its own
    stage.room.conf.unlink()
    with pytest.raises(InputError):
        stage.wiring.reconciler().run(Wish())
    assert shared.read_bytes() == before
