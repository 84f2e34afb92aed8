"""Jobs that Slurm holds because of a change are let go by the next one, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from tests.app.machine import FLAT, ONE, RENAMED, Killed, Machine
from topology_plugin.adapters.notes import JOBS
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.held import settle_jobs
from topology_plugin.core.topology import Configuration


def squeue(machine: Machine, *jobs: tuple[int, int, str], partition: str = "train") -> None:
    machine.slurm.jobs_text = "".join(
        f"{job}|{job}|{priority}|{partition}|{reason}\n" for job, priority, reason in jobs
    )


def test_exactly_the_jobs_that_our_change_got_held_are_released_by_the_next_change(machine: Machine) -> None:
    before = [
        (1, 10, "Resources"),
        (2, 10, "Priority"),
        (3, 0, "JobHeldUser"),
        (4, 0, "BadConstraints"),
        (5, 9, "None"),
    ]
    squeue(machine, *before)
    assert machine.apply(ONE).held == ()
    # Slurm looks at them some seconds later; 5 is held by its user meanwhile, 6 comes and is held by Slurm as well.
    now = [(1, 0, "BadConstraints"), *before[1:4], (5, 0, "JobHeldUser"), (6, 0, "BadConstraints")]
    squeue(machine, *now)
    assert settle_jobs(machine.doors) == ((1,), ())
    assert machine.slurm.released == []
    applied = machine.apply(RENAMED)
    assert applied.released == (1,) and machine.slurm.released == ["1"]
    assert settle_jobs(machine.doors) == ((1,), ()), "it could not run yet, was held again, and stays remembered"
    machine.apply(ONE)
    assert machine.slurm.released == ["1", "1"]
    squeue(machine, *now[1:])
    assert settle_jobs(machine.doors) == ((), ())


@pytest.mark.parametrize(
    ("partition", "candidates"), [("train", [1]), ("all", []), ("all,other", []), ("all,train", [1])]
)
def test_only_jobs_of_partitions_that_get_another_topology_can_be_held_by_the_change(
    machine: Machine, partition: str, candidates: list[int]
) -> None:
    machine.apply(Configuration((FLAT,), dict.fromkeys(ONE.words)))
    squeue(machine, (1, 10, "Resources"), partition=partition)
    machine.apply(ONE)
    assert (machine.generations.note(JOBS) or {"candidates": []})["candidates"] == candidates


def test_a_killed_pass_leaves_a_note_of_the_jobs_that_waited(machine: Machine) -> None:
    squeue(machine, (1, 10, "Resources"))

    def killed() -> Answer:
        raise Killed

    machine.slurm.answers.append(killed)
    with pytest.raises(Killed):
        machine.apply(ONE)
    squeue(machine, (1, 0, "BadConstraints"))
    assert settle_jobs(machine.doors) == ((1,), ())


def test_a_failed_change_releases_the_jobs_it_got_held(machine: Machine) -> None:
    machine.apply(ONE)
    squeue(machine, (1, 10, "Resources"))

    def held() -> Answer | None:
        squeue(machine, (1, 0, "BadConstraints"))
        return None

    machine.slurm.answers.append(held)
    machine.slurm.lies = lambda text: text.replace("fabric", "febric")
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert machine.slurm.released == ["1"]


def test_jobs_json_is_plain_and_sorted(machine: Machine) -> None:
    squeue(machine, (7, 10, "Resources"), (3, 10, "Resources"))
    machine.apply(ONE)
    note: dict[str, Any] | None = machine.generations.note(JOBS)
    assert note == {"candidates": [3, 7], "held": []}
