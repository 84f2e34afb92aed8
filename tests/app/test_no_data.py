"""No data is not "no nodes": a config that is cut off or names what is not there is said, and takes nothing away."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.stage import Stage
from topology_plugin.app.reconcile import Wish
from topology_plugin.core.issues import InputError
from topology_plugin.jobs.simulated_cluster import SimulatedGroup, cluster, in_tree

P5 = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train",))
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
