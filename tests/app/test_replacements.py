"""Field cases of machines that are replaced, go, or get new software, each to the quiet at its end."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.stage import Stage, labelled, small
from tests.app.upkeep import settled
from tests.clusters import GB, P5, unlabelled
from topology_plugin.core import state_json
from topology_plugin.jobs.simulated_cluster import SimulatedCluster, cluster, in_tree, in_ultraservers


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
