"""Slurm 24.11: one topology.conf for the whole cluster, no words, and nothing that takes over after an upgrade."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters import GB, P5
from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room
from topology_plugin.core import topology_conf
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    cluster,
    in_tree,
    in_ultraservers,
    mixed,
)


def plugin(here: Room) -> str:
    shown = here.ctld.scontrol("show", "config").stdout
    return next(line.split("=")[1].strip() for line in shown.splitlines() if line.startswith("TopologyPlugin"))


ROWS = [
    pytest.param(cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16)), "tree", id="p5-with-a-login-node"),
    pytest.param(cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", [18, 18])), "block", id="full-ultraservers"),
    pytest.param(cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", [18, 17])), "tree", id="br-12-a-short-block-is-a-tree"),
    pytest.param(
        cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", [18, 17], with_layers=False)), "default", id="br-12-no-path-is-flat"
    ),
    pytest.param(mixed(p5=8, ultraservers=(18,), cpu=2), "default", id="a-group-without-network-data-is-flat"),
]  # fmt: skip


@pytest.mark.parametrize(("simulated", "expected"), ROWS)
def test_br_16_the_cluster_gets_one_topology_of_the_defaults_kind(
    room: NewRoom, slurm_bin_24: Path, simulated: SimulatedCluster, expected: str
) -> None:
    here = room(slurm_bin=slurm_bin_24)
    here.boot(simulated)
    outcome = here.merge()
    assert plugin(here) == f"topology/{expected}"
    assert not here.yaml.exists(), "a topology.yaml would take over after an upgrade"
    assert "Topology=" not in here.conf.read_text()
    assert any("different ones per partition need 25.05" in note for note in outcome.state.notes)
    if expected != "default":
        text = (here.conf.parent / "topology.conf").read_text()
        assert set(topology_conf.parse(text).body.nodes()) == {m.name for m in simulated.nodes}
        some = simulated.nodes[0].name
        assert here.runs_on("-w", some) == [some]
    again = here.merge()
    assert not again.plan
    assert again.state.last.result == "unchanged"


def test_a_cluster_that_becomes_flat_gets_the_word_back_before_the_file_goes(room: NewRoom, slurm_bin_24: Path) -> None:
    here = room(slurm_bin=slurm_bin_24)
    here.boot(cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16)))
    here.merge()
    assert plugin(here) == "topology/tree"
    here.change(mixed(p5=8, ultraservers=(18,), cpu=2))
    here.merge()
    assert plugin(here) == "topology/default"
    assert not (here.conf.parent / "topology.conf").exists()
    here.ctld.restart()


def test_what_is_in_force_is_known_there_too_and_a_hold_holds(room: NewRoom, slurm_bin_24: Path) -> None:
    here = room(slurm_bin=slurm_bin_24)
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 16)
    before = cluster(P5).with_machines(machines[:15])
    conf = here.conf.parent / "topology.conf"
    here.boot(before)
    assert here.on_controller("diff").returncode == 3
    here.merge()
    first = conf.read_text()
    assert here.on_controller("diff").returncode == 0, "in force is what is desired"
    assert "shown: in force" in here.on_controller("show", check=True).stdout
    assert " tree (16 nodes)" in here.on_controller("history", check=True).stdout.splitlines()[1]

    moved = before.with_changed(machines[0].name, label=machines[14].label)
    here.write(moved)
    here.merge()
    assert conf.read_text() != first
    assert here.on_controller("rollback").returncode == 0
    assert conf.read_text() == first
    assert here.merge().state.last.result == "unchanged", "on hold"
    assert conf.read_text() == first

    here.change(moved.with_machines(machines[15:]))
    here.merge()
    assert f"SwitchName=unplaced-{machines[15].name} Nodes={machines[15].name}\n" in conf.read_text()
    assert topology_conf.parse(first).body.nodes() != topology_conf.parse(conf.read_text()).body.nodes()
    here.on_controller("resume", check=True)
    here.merge()
    assert f"unplaced-{machines[15].name}" not in conf.read_text()
    assert here.on_controller("diff").returncode == 0
