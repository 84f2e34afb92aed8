"""rollback and uninstall: changes like any other, validated, read back, undone when they fail."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.machine import (
    CONF,
    FLAT,
    MORE,
    NODES,
    ONE,
    RENAMED,
    TWO,
    Machine,
    in_force,
    refuse,
    tree,
)  # fmt: skip
from tests.fakes import FakeSlurmctld
from topology_plugin.adapters.notes import HOLD
from topology_plugin.app import ownership
from topology_plugin.app.apply import ApplyFailed, execute
from topology_plugin.app.rollback import Rollback
from topology_plugin.app.uninstall import uninstall
from topology_plugin.core import plan as planning
from topology_plugin.core import target, topology_conf, topology_yaml
from topology_plugin.core.disk import Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.history import entries
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.topology import Configuration

NOW = [Issue("partition train", "n9 is in no leaf")]


def as_it_is(configuration: Configuration, disk: Disk) -> Configuration:
    return configuration


def fine(configuration: Configuration, after: Disk) -> list[Issue]:
    return []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    machine = Machine(tmp_path)
    for configuration in (ONE, TWO, RENAMED):
        machine.apply(configuration)
    return machine


@pytest.mark.parametrize(
    ("number", "of", "then"), [(None, 2, TWO), (1, 1, ONE), (2, 2, TWO)], ids=["the one before", "1", "2"]
)
def test_an_earlier_generation_is_in_force_again_as_a_new_one_and_held(
    machine: Machine, number: int | None, of: int, then: Configuration
) -> None:
    before = machine.slurm.reconfigures
    done = Rollback(machine.doors, as_it_is, fine).run(number)
    assert (done.of, done.applied and done.applied.number) == (of, 4)
    assert in_force(machine) == then and machine.slurm.reconfigures == before + 1
    assert machine.generations.note(HOLD) == {
        "by": "rollback",
        "reason": f"to generation {of}",
        "time": machine.clock.now(),
    }
    found = list(entries(machine.generations.all(), machine.generations.current()))
    assert [(entry.number, entry.status, entry.by) for entry in found][:2] == [
        (4, "current", f"rollback to {of}"),
        (3, "finished", "merge"),
    ]
    assert ownership.resume(machine.doors) == ("the hold is over",)
    assert machine.generations.note(HOLD) is None


def test_with_slurmctld_down_nothing_is_said_to_be_in_force(machine: Machine) -> None:
    machine.slurm.up = False
    done = Rollback(machine.doors, as_it_is, fine).run(3)
    assert not done.plan and not done.answered
    machine.slurm.up = True
    assert Rollback(machine.doors, as_it_is, fine).run(3).answered


def test_twice_goes_back_and_forth_and_a_rollback_to_what_is_in_force_only_holds(machine: Machine) -> None:
    Rollback(machine.doors, as_it_is, fine).run(None)
    assert in_force(machine) == TWO
    Rollback(machine.doors, as_it_is, fine).run(None)
    assert in_force(machine) == RENAMED
    before = machine.slurm.reconfigures
    done = Rollback(machine.doors, as_it_is, fine).run(3)
    assert not done.plan and machine.slurm.reconfigures == before
    assert machine.generations.note(HOLD) is not None


def test_joiners_are_added_before_it_is_judged(machine: Machine) -> None:
    wider = Configuration((FLAT, tree("tree", NODES[:2], NODES[2:4], NODES[4:])), ONE.words)
    judged: list[Configuration] = []

    def judge(configuration: Configuration, after: Disk) -> list[Issue]:
        judged.append(configuration)
        return []

    Rollback(machine.doors, lambda configuration, disk: wider, judge).run(1)
    assert judged == [wider] and in_force(machine) == wider


@pytest.mark.parametrize("number", [0, 4, -1, 99])
def test_a_number_that_never_was_in_force_is_refused_with_those_that_were(machine: Machine, number: int) -> None:
    with pytest.raises(InputError, match="kept are 1, 2, 3"):
        Rollback(machine.doors, as_it_is, fine).run(number)
    assert machine.generations.note(HOLD) is None


def test_without_an_earlier_one_there_is_nothing_to_go_back_to(tmp_path: Path) -> None:
    machine = Machine(tmp_path)
    with pytest.raises(InputError, match="no earlier generation"):
        Rollback(machine.doors, as_it_is, fine).run(None)


def test_one_that_no_longer_fits_is_refused_and_nothing_held(machine: Machine) -> None:
    files = machine.snapshot()
    with pytest.raises(ApplyFailed, match="generation 1 no longer fits: partition train: n9 is in no leaf") as caught:
        Rollback(machine.doors, as_it_is, lambda configuration, after: NOW).run(1)
    assert caught.value.code == "validation"
    assert machine.snapshot() == files and machine.generations.note(HOLD) is None


def test_one_that_the_rehearsal_refuses_is_refused(machine: Machine) -> None:
    with pytest.raises(ApplyFailed, match="the rehearsal refused generation 1: fatal: no"):
        Rollback(machine.doors, as_it_is, fine, lambda configuration, wanted, disk: "fatal: no").run(1)
    assert in_force(machine) == RENAMED


def test_a_failed_one_leaves_the_former_state_and_the_former_hold(machine: Machine) -> None:
    files = machine.snapshot()
    refuse(machine)
    with pytest.raises(ApplyFailed, match="no such luck"):
        Rollback(machine.doors, as_it_is, fine).run(1)
    assert machine.snapshot() == files and in_force(machine) == RENAMED
    assert machine.generations.note(HOLD) is None
    ownership.hold(machine.doors, "maintenance")
    refuse(machine)
    with pytest.raises(ApplyFailed):
        Rollback(machine.doors, as_it_is, fine).run(1)
    note = machine.generations.note(HOLD)
    assert note is not None and note["reason"] == "maintenance"


def test_a_dry_run_says_the_steps_and_does_none(machine: Machine) -> None:
    files = machine.snapshot()
    done = Rollback(machine.doors, as_it_is, fine).run(1, dry_run=True)
    assert done.applied is None
    assert any("partition train gets Topology=tree instead of fabric" in s for s in planning.sentences(done.plan))
    assert machine.snapshot() == files and machine.generations.note(HOLD) is None


def test_resume_says_when_there_is_nothing_to_end(machine: Machine) -> None:
    assert ownership.resume(machine.doors) == ()


# --- uninstall ---


def test_slurms_files_are_byte_for_byte_what_they_were_without_us(machine: Machine) -> None:
    machine.apply(TWO)
    done = uninstall(machine.doors)
    assert done.applied is not None and done.applied.reconfigured and done.stays == ()
    assert machine.snapshot() == {"slurm.conf": CONF.encode(), "more.conf": MORE.encode()}
    assert machine.slurm.loaded is None and not any(machine.slurm.words.values())
    assert not uninstall(machine.doors).plan


def test_what_is_not_ours_stays_and_is_said(machine: Machine) -> None:
    machine.apply(ONE)
    path = machine.etc / "more.conf"
    path.write_bytes(MORE.replace("State=UP", "State=UP Topology=tree").encode())
    done = uninstall(machine.doors)
    assert done.stays == (
        "partition other keeps Topology=tree, which is not ours",
        "topology.yaml stays: words that are not ours name its topologies",
    )
    assert machine.live.disk().words == {"train": None, "all": None, "other": "tree"}
    assert machine.slurm.load() is None


def test_a_topology_yaml_that_is_not_ours_stays(machine: Machine) -> None:
    theirs = topology_yaml.render(TWO).encode() + b"# edited\n"
    (machine.etc / "topology.yaml").write_bytes(theirs)
    assert "topology.yaml stays: it is not ours" in uninstall(machine.doors).stays
    assert (machine.etc / "topology.yaml").read_bytes() == theirs


def test_where_slurm_would_not_start_without_it_flat_alone_stays(machine: Machine) -> None:
    """TopologyPlugin=topology/tree and no topology.conf: what topology.yaml hid so far."""
    path = machine.etc / "slurm.conf"
    path.write_text("TopologyPlugin=topology/tree\n" + path.read_text())
    doors = machine.doors

    def check(disk: Disk) -> list[Issue]:
        dies = disk.topology_yaml is None and planning.needs_conf(disk.plugin) and disk.topology_conf is None
        return [Issue("", "no topology.conf")] if dies else []

    from dataclasses import replace

    done = uninstall(replace(doors, check=check))
    assert done.stays == ("topology.yaml stays with flat alone: without it slurmctld would not start",)
    assert machine.slurm.load() is None and not machine.live.disk().named


def test_a_dry_run_of_uninstall_does_nothing(machine: Machine) -> None:
    files = machine.snapshot()
    assert uninstall(machine.doors, dry_run=True).plan
    assert machine.snapshot() == files


@pytest.mark.parametrize("line", ["", "TopologyPlugin=topology/default\n", "TopologyPlugin=topology/flat\n"])
def test_on_24_11_the_plugin_line_is_what_it_was(tmp_path: Path, line: str) -> None:
    machine = Machine(tmp_path)
    (machine.etc / "slurm.conf").write_text(line + CONF)
    before = machine.snapshot()
    machine.slurm = FakeSlurmctld(machine.live, "24.11.5")
    for number, topology in enumerate((ONE.topologies[1], TWO.topologies[1]), 1):
        doors = replace(machine.doors, classic=True)
        disk = doors.live.disk()
        wanted = target.of_configuration(
            Configuration((replace(topology, default=True),), dict.fromkeys(disk.words)), disk, classic=True
        )
        made = Generation(number, None, wanted.topology_conf, dict.fromkeys(disk.words), wanted.plugin)
        change = planning.plan(disk, wanted, number=number, classic=True)
        assert execute(doors, disk, change, made).number == number
        assert machine.slurm.classic_topology is not None
        assert (machine.etc / "topology.conf").read_text() == topology_conf.render(topology)
        assert not (machine.etc / "topology.yaml").exists()
    done = uninstall(replace(machine.doors, classic=True))
    assert done.applied is not None
    assert machine.snapshot() == before


def test_on_24_11_the_plugin_does_not_go_on_asking_for_a_topology_conf_that_goes(tmp_path: Path) -> None:
    """The operator's own line, which asked for the operator's own topology.conf, until we took it over."""
    machine = Machine(tmp_path)
    (machine.etc / "slurm.conf").write_text("TopologyPlugin=topology/tree\n" + CONF)
    (machine.etc / "topology.conf").write_text("SwitchName=theirs Nodes=n[1-8]\n")
    machine.slurm = FakeSlurmctld(machine.live, "24.11.5")
    doors = replace(machine.doors, classic=True)
    disk = doors.live.disk()
    then = Configuration((replace(ONE.topologies[1], default=True),), dict.fromkeys(disk.words))
    wanted = target.of_configuration(then, disk, classic=True)
    made = Generation(1, None, wanted.topology_conf, dict.fromkeys(disk.words), wanted.plugin)
    execute(doors, disk, planning.plan(disk, wanted, number=1, classic=True), made)
    uninstall(replace(machine.doors, classic=True))
    assert (machine.etc / "slurm.conf").read_text() == "TopologyPlugin=topology/default\n" + CONF
    assert not (machine.etc / "topology.conf").exists()
