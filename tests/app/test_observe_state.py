"""What reading commands see on the controller: a pass in memory, and Slurm asked once for all of it."""

from __future__ import annotations

import re
from pathlib import Path

from benchmarks.large_cluster import large_cluster, write_scontrol
from tests.app.stage import Stage, small
from tests.clusters import P5
from topology_plugin.app.machine_room import MachineRoom
from topology_plugin.app.observe_state import load_live, see
from topology_plugin.app.reconcile import Wish
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.position import Position
from topology_plugin.core.topology_yaml import render
from topology_plugin.jobs.simulated_cluster import cluster, in_tree
from topology_plugin.views.document import document
from topology_plugin.views.scene import arrange


def test_what_a_pass_notes_is_shown_once(tmp_path: Path) -> None:
    simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 8))
    first, second = (machine.name for machine in simulated.members("worker-p5")[:2])
    for name, path in ((first, ("nn-1", "nn-2", "nn-9")), (second, ("nn-1", "nn-3", "nn-9"))):
        simulated = simulated.with_changed(name, label=Position(path))
    notes = document(arrange(see(Stage(tmp_path, simulated).wiring).state))["notes"]
    assert sum("nn-9 is reported below different switches" in note for note in notes) == 1
    assert len(set(notes)) == len(notes)


def test_files_that_say_something_else_than_slurmctld_runs_are_told_in_words(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.wiring.reconciler().run(Wish())
    assert see(stage.wiring).files == ()
    stage.yaml.write_text("[]\n")
    (told,) = see(stage.wiring).files
    assert re.fullmatch(r"replace topology\.yaml \(\d+ bytes\)", told)


def test_slurm_tells_its_nodes_once_for_the_topology_and_for_their_states(tmp_path: Path) -> None:
    simulated = large_cluster(16)
    room = MachineRoom(tmp_path, None)
    room.write(simulated)
    slurm = tmp_path / "bin"
    flags = {"slurm_conf": str(room.conf), "registry": str(room.registry), "slurm_bin": str(slurm)}
    wiring = Wiring.of(str(room.controller), flags, {})
    write_scontrol(slurm, simulated, "- topology: default\n  flat: {}\n", dict.fromkeys(("dev", "train")))
    desired = see(wiring).state.desired
    write_scontrol(slurm, simulated, render(desired), dict.fromkeys(("dev", "train"), "tree"))
    (slurm / "calls").unlink()
    seen = see(wiring)
    live = load_live(wiring, seen)
    assert live is not None and set(live.states.values()) == {"idle"} and live.jobs_known
    assert live.states.keys() == seen.state.inventory.nodes.keys()
    asked = [call for call in (slurm / "calls").read_text().splitlines() if call != "--version"]
    assert asked == [""], "more than one session of scontrol"
