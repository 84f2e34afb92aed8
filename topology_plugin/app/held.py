"""The jobs that a change of ours got held: noted before it, looked for after it, released when it is their turn."""

from __future__ import annotations

import contextlib
from collections.abc import Collection

from topology_plugin.adapters.files import FileError
from topology_plugin.adapters.notes import JOBS
from topology_plugin.app.doors import Doors
from topology_plugin.core import held_jobs
from topology_plugin.core.held_jobs import HeldJobs


def note_jobs(doors: Doors, partitions: Collection[str]) -> None:
    """Before a change that concerns `partitions`, so that a killed pass still tells which jobs it got held."""
    answer = doors.slurm.run(*held_jobs.ASK)
    if not answer.ok:
        return
    known = HeldJobs.from_json(doors.generations.note(JOBS))
    pending = held_jobs.parse(answer.out)
    jobs = known.seen(pending).before_change(pending, partitions)
    if jobs != known:
        with contextlib.suppress(FileError):
            doors.generations.save_note(JOBS, jobs.to_json())


def settle_jobs(doors: Doors, release: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(ids of the jobs that Slurm holds because of us, ids just released). Once each pass, and after every change.

    `release`: the configuration in force changed, so those jobs get another chance; what can still never run is held
    by Slurm again, and stays remembered.
    """
    known = HeldJobs.from_json(doors.generations.note(JOBS))
    if not known.candidates and not known.held:
        return (), ()
    answer = doors.slurm.run(*held_jobs.ASK)
    if not answer.ok:
        return tuple(sorted(known.held)), ()
    pending = held_jobs.parse(answer.out)
    jobs = known.seen(pending)
    released: list[int] = []
    for job in pending if release else ():
        if job.id in jobs.held and doors.slurm.run("scontrol", "release", job.shown).ok:
            released.append(job.id)
    jobs = HeldJobs(jobs.candidates | frozenset(released), jobs.held - frozenset(released))
    if jobs != known:
        with contextlib.suppress(FileError):
            doors.generations.save_note(JOBS, jobs.to_json())
    return tuple(sorted(jobs.held)), tuple(released)
