"""history, rollback, hold, resume and uninstall as commands beside a real slurmctld."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.slurm.change import BEFORE, SET_AFTER, SET_BEFORE, become, files, p5
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import passed
from tests.slurm.room import Room, same
from topology_plugin.jobs.simulated_cluster import SimulatedCluster


@pytest.fixture
def here(room: NewRoom) -> Room:
    made = room()
    made.registry.mkdir(parents=True)
    made.boot(BEFORE)
    return made


def test_back_on_hold_and_on_again(here: Room) -> None:
    first = passed(here, **SET_BEFORE).state.desired
    second = passed(here, **SET_AFTER).state.desired
    assert same(here.in_force(), second)
    done = here.on_controller("rollback")  # rehearsed, as nobody said otherwise
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "generation 1 is in force as generation 3; on hold until `hyperpod-topology resume`\n"
    assert same(here.in_force(), first)
    here.ctld.restart()
    assert same(here.in_force(), first)

    entries = json.loads(here.on_controller("history", "-o", "json", check=True).stdout)["generations"]
    assert [(e["number"], e["status"], e["by"]) for e in entries] == [
        (3, "current", "rollback to 1"),
        (2, "finished", "merge"),
        (1, "finished", "merge"),
    ]
    assert entries[0]["words"] == {p: w for p, w in first.words.items() if w is not None}
    table = here.on_controller("history", check=True).stdout.splitlines()
    assert len(table) == 4 and table[1].split()[:2] == ["3", "current"]

    assert passed(here, **SET_AFTER).state.last.result == "unchanged", "on hold"
    assert here.on_controller("resume", check=True).stdout == "the hold is over\n"
    assert same(passed(here, **SET_AFTER).state.desired, second) and same(here.in_force(), second)


def joined(simulated: SimulatedCluster) -> tuple[SimulatedCluster, set[str]]:
    more = p5[16:]
    return simulated.with_machines(more), {machine.name for machine in more}


@pytest.mark.parametrize("when", ["before", "after"])
def test_nodes_that_joined_since_are_added_as_unplaced(here: Room, when: str) -> None:
    passed(here, **SET_BEFORE)
    passed(here, **SET_AFTER)
    grown, names = joined(BEFORE)
    if when == "before":
        become(here, grown)
        passed(here, **SET_AFTER)
        assert here.on_controller("rollback", "1").returncode == 0
    else:
        assert here.on_controller("rollback", "1").returncode == 0
        become(here, grown)
        assert passed(here, **SET_AFTER).state.last.result == "applied"
    unplaced = {name for name in names if f"unplaced-{name}" in here.ctld.topoconf()}
    assert unplaced == names
    for name in sorted(names)[:2]:
        assert here.runs_on("-p", "train", "-N2", "-w", name)


def test_a_dry_run_changes_nothing_and_says_so_by_its_exit_code(here: Room) -> None:
    passed(here, **SET_BEFORE)
    passed(here, **SET_AFTER)
    before = files(here)
    done = here.on_controller("rollback", "--dry-run")
    assert done.returncode == 3 and "scontrol reconfigure, once" in done.stdout
    assert files(here) == before
    assert here.on_controller("resume").stdout == "nothing was on hold\n"


@pytest.mark.parametrize("number", ["99", "0"])
def test_a_generation_that_never_was_is_refused(here: Room, number: str) -> None:
    passed(here, **SET_BEFORE)
    done = here.on_controller("rollback", number)
    assert done.returncode == 2 and "kept are 1" in done.stderr and "Traceback" not in done.stderr


def test_hold_and_resume_by_hand(here: Room) -> None:
    first = passed(here, **SET_BEFORE).state.desired
    here.on_controller("hold", "maintenance", check=True)
    outcome = passed(here, **SET_AFTER)
    assert outcome.state.hold and outcome.state.last.result == "unchanged" and same(here.in_force(), first)
    here.on_controller("resume", check=True)
    assert passed(here, **SET_AFTER).state.last.result == "applied"


@pytest.mark.parametrize("times", [1, 2])
def test_uninstall_leaves_slurms_files_as_they_were_without_us(here: Room, times: int) -> None:
    before = files(here)
    passed(here, **SET_BEFORE)
    become(here, BEFORE)
    for _ in range(times - 1):
        passed(here, **SET_AFTER)
    dry = here.on_controller("uninstall", "--dry-run")
    assert dry.returncode == 3 and "remove topology.yaml" in dry.stdout
    done = here.on_controller("uninstall")
    assert (done.returncode, done.stderr) == (0, "")
    assert files(here) == before
    assert set(here.ctld.partitions().values()) == {None}
    here.ctld.restart()
    assert len(here.runs_on("-p", "train", "-N2")) == 2
    assert here.on_controller("uninstall").stdout == "nothing to do\n"
    assert "uninstalled: nothing is written" in here.on_controller("merge", check=True).stdout
    assert files(here) == before
    assert here.on_controller("resume").stdout == "no longer uninstalled\n"
    assert here.on_controller("merge", check=True).stdout.startswith("in force and read back")


def test_uninstall_offline_before_slurmctld_starts(here: Room) -> None:
    before = files(here)
    passed(here, **SET_BEFORE)
    here.ctld.kill()
    assert here.on_controller("uninstall", "--offline").returncode == 0
    assert files(here) == before
    here.ctld.start()


def test_what_the_operator_built_on_it_stays(here: Room) -> None:
    passed(here, **SET_BEFORE)
    text = here.conf.read_text().replace("PartitionName=cpu ", "PartitionName=cpu Topology=tree ")
    Path(here.conf).write_text(text)
    assert here.ctld.reconfigure()
    done = here.on_controller("uninstall")
    assert done.returncode == 0
    assert "partition cpu keeps Topology=tree, which is not ours" in done.stderr
    assert here.ctld.partitions()["cpu"] == "tree"
    here.ctld.restart()
