"""A real slurmctld that refuses, hangs, dies or runs something else: the former state stays, the next pass succeeds."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.change import BEFORE, SET_AFTER, before_the_change, files
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import Counted, CountedSlurm, leftovers, passed, reconciler
from tests.slurm.room import Room, same
from topology_plugin.adapters.clock import SystemClock
from topology_plugin.adapters.slurm import SlurmCommands
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.doors import Doors
from topology_plugin.app.reconcile import Outcome, Wish


class Impatient(SystemClock):
    """Five minutes pass in three seconds."""

    def monotonic(self) -> float:
        return super().monotonic() * 100

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds / 100)


class Interfering:
    """Something happens to the cluster right before, or right after, `scontrol reconfigure`."""

    def __init__(self, room: Room, before: Callable[[Room], None] | None, after: Callable[[Room], None] | None) -> None:
        self.room, self.before, self.after = room, before, after
        self.happened = 0

    def at(self, operation: str, what: str) -> None:
        act = {"before reconfigure": self.before, "after reconfigure": self.after}.get(what)
        if operation == "scontrol" and act is not None and not self.happened:
            self.happened += 1
            act(self.room)

    def run(self, clock: Any = None, **settings: Any) -> Outcome:
        made = reconciler(self.room, Counted(lambda *_: None), lambda slurm: CountedSlurm(slurm, self.at), **settings)
        new_doors = made.new_doors

        def doors() -> Doors:
            return replace(new_doors(), clock=clock or SystemClock())

        return replace(made, new_doors=doors).run(Wish())


def append(room: Room, line: str) -> None:
    with room.conf.open("a") as file:
        file.write(line)


def breaks_slurm_conf(room: Room) -> None:
    """The agent leaves a line of which slurmctld dies, and which is no business of ours."""
    append(room, NONESUCH)


def adds_a_partition(room: Room) -> None:
    """The agent writes while we are at it, and slurmctld does not like the rest."""
    append(room, PARTITION + NONESUCH)


def changes_a_word(room: Room) -> None:
    room.ctld.scontrol("update", "PartitionName=train", "Topology=flat")


def dies(room: Room) -> None:
    room.ctld.kill()


def hangs(room: Room) -> None:
    pid = room.ctld.pid
    assert pid is not None
    os.kill(pid, signal.SIGSTOP)


PARTITION = "PartitionName=new Nodes=ALL\n"
NONESUCH = "SchedulerType=sched/nonesuch\n"
TABLE = [
    pytest.param(breaks_slurm_conf, None, "reconfigure", "nonesuch", NONESUCH, id="refused"),
    pytest.param(adds_a_partition, None, "reconfigure", "nonesuch", PARTITION + NONESUCH, id="agent"),
    pytest.param(None, changes_a_word, "read-back", "partition train has Topology=flat", "", id="read-back-different"),
    pytest.param(dies, None, "reconfigure", "Unable to contact slurm controller", "", id="dies-right-before"),
    pytest.param(None, dies, "died", "slurmctld is not running any more", "", id="dies-right-after"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "after", "code", "says", "added"), TABLE)
def test_the_former_state_stays_and_the_next_pass_converges(
    room: NewRoom,
    before: Callable[[Room], None] | None,
    after: Callable[[Room], None] | None,
    code: str,
    says: str,
    added: str,
) -> None:
    here = room()
    former_files = before_the_change(here)
    former = here.in_force()
    with pytest.raises(ApplyFailed) as failed:
        Interfering(here, before, after).run(**SET_AFTER)
    assert failed.value.code == code and says in str(failed.value), "in slurmctld's own words"
    assert files(here) == {**former_files, "slurm.conf": former_files["slurm.conf"] + added.encode()}
    assert leftovers(here) == []
    here.conf.write_text(here.conf.read_text().replace(NONESUCH, ""))
    if not here.ctld.alive():
        here.ctld.start()
    elif before is not adds_a_partition:
        assert same(here.in_force(), former)
    state = here.wiring().doors().generations.load_state()
    assert state is not None and state["last"]["result"] == "failed" and says in state["last"]["error"]
    assert state["last"]["next_try"] > state["last"]["time"] and state["generation"] == 1
    outcome = passed(here, **SET_AFTER)
    assert outcome.state.last.result == "applied" and outcome.state.generation == 2
    assert same(here.in_force(), outcome.state.desired)
    assert not passed(here, **SET_AFTER).plan


def test_scontrol_is_missing(room: NewRoom, tmp_path: Path) -> None:
    here = room()
    former_files, former = before_the_change(here), here.in_force()
    made = reconciler(here, Counted(lambda *_: None), lambda slurm: SlurmCommands(tmp_path, here.conf), **SET_AFTER)
    with pytest.raises(ApplyFailed, match="scontrol cannot be started: No such file") as failed:
        made.run(Wish())
    assert failed.value.code == "no-answer"
    assert files(here) == former_files and same(here.in_force(), former)
    assert passed(here, **SET_AFTER).state.last.result == "applied"


def test_a_slurmctld_that_hangs_for_good_is_given_up_and_reads_the_former_files_when_it_wakes(room: NewRoom) -> None:
    here = room(extra="MessageTimeout=1")
    former_files, former = before_the_change(here), here.in_force()
    pid = here.ctld.pid
    assert pid is not None
    try:
        with pytest.raises(ApplyFailed) as failed:
            Interfering(here, hangs, None).run(Impatient(), **SET_AFTER)
    finally:
        os.kill(pid, signal.SIGCONT)
    assert failed.value.code == "no-answer" and "300 s" in str(failed.value)
    assert files(here) == former_files
    deadline = time.monotonic() + 20
    while not (here.ctld.scontrol("ping", check=False).returncode == 0 and same(here.in_force(), former)):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    assert passed(here, **SET_AFTER).state.last.result == "applied"


def test_a_timeout_is_no_failure_when_slurmctld_gets_there_later(room: NewRoom) -> None:
    here = room(extra="MessageTimeout=1")
    before_the_change(here)

    def hangs_for_a_while(room: Room) -> None:
        pid = room.ctld.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(4, os.kill, (pid, signal.SIGCONT)).start()

    outcome = Interfering(here, hangs_for_a_while, None).run(**SET_AFTER)
    assert outcome.applied is not None and outcome.applied.seconds > 3
    assert same(here.in_force(), outcome.state.desired)


def test_the_command_exits_1_and_says_why(room: NewRoom) -> None:
    here = room()
    former_files = before_the_change(here)
    here.ctld.kill()
    done = here.on_controller("merge", "--set", f"partitions={SET_AFTER['partitions']}", "--rehearse", "never")
    assert done.returncode == 1 and done.stdout == ""
    assert "slurmctld" in done.stderr and "Traceback" not in done.stderr
    assert files(here) == former_files


def test_plain_d_is_not_reconfigured_without_a_rehearsal(room: NewRoom) -> None:
    here = room()
    here.ctld.foreground = True
    here.registry.mkdir(parents=True)
    here.boot(BEFORE)
    former_files = files(here)
    with pytest.raises(ApplyFailed, match="plain -D") as failed:
        passed(here, **SET_AFTER)
    assert failed.value.code == "foreground"
    assert files(here) == former_files and here.ctld.alive()
    assert passed(here, **SET_AFTER, rehearse="auto").state.last.result == "applied"
    assert here.ctld.alive()


def test_what_is_taken_back_is_not_left_in_force_although_the_words_are_as_before(room: NewRoom) -> None:
    """The first topology.yaml of a cluster whose slurmctld keeps its partitions' words: it loads the one, not the other."""
    here = room(extra="ReconfigFlags=KeepPartInfo")
    here.registry.mkdir(parents=True)
    here.boot(BEFORE)
    former_files, former = files(here), here.ctld.topoconf()
    with pytest.raises(ApplyFailed, match=r"train has no Topology=.*KeepPartInfo") as failed:
        passed(here)
    assert failed.value.code == "read-back" and failed.value.undone
    assert files(here) == former_files and leftovers(here) == []
    assert here.ctld.topoconf() == former
