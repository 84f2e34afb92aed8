"""What slurmctld refuses, or takes and does not run, changes nothing: on disk, in force, and in what is noted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.app.machine import CONF, FLAT, NODES, ONE, RENAMED, TWO, Machine, in_force, refuse, tree
from tests.fakes import FakeClock
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.core import topology_yaml
from topology_plugin.core.topology import Configuration


def time_out(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(1, "", "slurm_reconfigure error: Socket timed out on send/recv operation"))


def no_scontrol(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(None, "", "scontrol cannot be started: No such file or directory"))


def unreachable(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(1, "", "Unable to contact slurm controller (connect failure)"))


def lie(machine: Machine) -> None:
    def lies(text: str) -> str:
        return text.replace("n[1-2]", "n[1-3]") if "s2" in text else text

    machine.slurm.lies = lies


def die(machine: Machine) -> None:
    def dies() -> Answer:
        machine.slurm.up = False
        return Answer(0, "", "")

    machine.slurm.answers.append(dies)


def agent_writes(machine: Machine) -> None:
    """The agent puts its own slurm.conf there while slurmctld is reconfigured, and slurmctld refuses."""

    def writes() -> Answer:
        text = (machine.etc / "slurm.conf").read_text()
        (machine.etc / "slurm.conf").write_text(text + "PartitionName=new Nodes=n1\n")
        return Answer(1, "", "refused")

    machine.slurm.answers.append(writes)


REFUSALS: list[tuple[Callable[[Machine], None], str, str]] = [
    (refuse, "reconfigure", "fatal: no such luck"),
    (time_out, "read-back", "slurmctld runs something else"),
    (no_scontrol, "scontrol", "scontrol cannot be started: No such file or directory"),
    (unreachable, "reconfigure", "Unable to contact slurm controller"),
    (lie, "read-back", "s1 has nodes"),
    (die, "died", "slurmctld is not running any more"),
    (agent_writes, "reconfigure", "refused"),
]


@pytest.mark.parametrize(("wrong", "code", "says"), REFUSALS, ids=[wrong.__name__ for wrong, _, _ in REFUSALS])
@pytest.mark.parametrize("after", [RENAMED, Configuration((FLAT,), dict.fromkeys(ONE.words))], ids=["renamed", "flat"])
def test_a_refused_change_changes_nothing_says_why_and_succeeds_next_time(
    machine: Machine, wrong: Callable[[Machine], None], code: str, says: str, after: Configuration
) -> None:
    if wrong is lie:
        after = Configuration((FLAT, tree("tree", NODES[:2], NODES[2:3], NODES[3:4])), ONE.words)
    machine.apply(ONE if wrong is not lie else RENAMED)
    former, files = in_force(machine), machine.snapshot()
    if wrong is agent_writes:
        files["slurm.conf"] += b"PartitionName=new Nodes=n1\n"
    wrong(machine)
    with pytest.raises(ApplyFailed) as caught:
        machine.apply(after)
    assert caught.value.code == code and says in str(caught.value)
    assert caught.value.undone
    assert machine.snapshot() == files
    if machine.slurm.up:
        assert in_force(machine).topologies == former.topologies
        assert {p: w for p, w in machine.slurm.words.items() if p != "new"} == former.words
    assert machine.kept() == ["1", "current"]
    current = machine.generations.current()
    assert current is not None and current.number == 1

    machine.slurm.up, machine.slurm.lies = True, None
    assert machine.slurm.load() is None
    assert machine.apply(after).number == 2
    assert in_force(machine).topologies == after.topologies


def test_a_timeout_is_no_failure_as_long_as_slurmctld_gets_there(machine: Machine) -> None:
    """A big tree: scontrol gives up after 10 s, the former slurmctld answers for a while, then nobody, then the new."""
    slurm, clock = machine.slurm, machine.clock
    begin = clock.now()

    class Slow(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            slurm.up = not 100 < self.time - begin < 200
            if self.time - begin >= 200:
                slurm.load()

    machine.clock, slurm.process = Slow(begin), True
    time_out(machine)
    applied = machine.apply(ONE)
    assert applied.number == 1 and in_force(machine) == ONE
    assert 200 <= applied.seconds < 210


def test_patience_ends_after_five_minutes(machine: Machine) -> None:
    machine.apply(ONE)
    begin = machine.clock.now()
    time_out(machine)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert 300 <= machine.clock.now() - begin < 320
    assert in_force(machine) == ONE


def test_br_19_what_slurmctld_says_it_runs_is_compared_and_a_mismatch_reported(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(0, "", ""))  # says yes and loads nothing
    with pytest.raises(ApplyFailed, match="slurmctld runs something else: partition train has no") as caught:
        machine.apply(ONE)
    assert caught.value.code == "read-back"
    assert machine.generations.current() is None


def test_br_29_what_failed_is_not_noted_as_done_and_the_next_pass_tries_again(machine: Machine) -> None:
    machine.apply(ONE)
    refuse(machine)
    with pytest.raises(ApplyFailed):
        machine.apply(TWO)
    current = machine.generations.current()
    assert current is not None and current.words == ONE.words and in_force(machine) == ONE
    machine.apply(TWO)  # nothing new came in between
    assert in_force(machine) == TWO


def test_an_unhealthy_former_pair_is_not_restored_but_the_last_good_generation(machine: Machine) -> None:
    machine.apply(ONE)
    (machine.etc / "topology.yaml").write_text("[]\n")
    refuse(machine)
    with pytest.raises(ApplyFailed, match="generation 1: back on disk"):
        machine.apply(RENAMED)
    assert (machine.etc / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()
    assert machine.live.disk().words == ONE.words


def test_an_unhealthy_former_pair_without_any_good_generation_becomes_flat(machine: Machine) -> None:
    (machine.etc / "slurm.conf").write_text(CONF.replace("Default=YES", "Default=YES Topology=nothing"))
    refuse(machine)
    with pytest.raises(ApplyFailed, match="flat alone: back on disk"):
        machine.apply(ONE)
    assert not machine.live.disk().named and machine.slurm.load() is None


def test_under_plain_d_nothing_is_reconfigured_without_a_rehearsal(machine: Machine) -> None:
    machine.slurm.is_foreground = True
    files = machine.snapshot()
    with pytest.raises(ApplyFailed, match="plain -D") as caught:
        machine.apply(ONE)
    assert caught.value.code == "foreground"
    assert machine.snapshot() == files and machine.slurm.reconfigures == 0
    assert machine.apply(ONE, rehearsed=True).number == 1
