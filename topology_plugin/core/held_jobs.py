"""Pending jobs that Slurm holds for good because a change of ours made them, for a time, never runnable.

Slurm gives such a job Priority=0 and Reason=BadConstraints and does not look at it again when the topology is repaired,
until `scontrol release` (run). A job held by a person has another reason; one held before our change is not ours.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from topology_plugin.core.topology import Configuration

HELD_BY_SLURM = "BadConstraints"
ASK = ("squeue", "-h", "-t", "PD", "-o", "%A|%i|%Q|%P|%r")


@dataclass(frozen=True)
class Pending:
    """`id`: unique also within an array; `shown`: what scontrol takes (`12_[3-9]`); `partitions`: where it may run."""

    id: int
    shown: str
    priority: int
    partitions: tuple[str, ...]
    reason: str

    @property
    def held_by_slurm(self) -> bool:
        return self.priority == 0 and self.reason == HELD_BY_SLURM


@dataclass(frozen=True)
class HeldJobs:
    """`candidates`: waited without being held when our last change began; `held`: of those, what Slurm held since."""

    candidates: frozenset[int] = frozenset()
    held: frozenset[int] = frozenset()

    @classmethod
    def from_json(cls, note: Mapping[str, Any] | None) -> HeldJobs:
        def ids(key: str) -> frozenset[int]:
            found = note.get(key) if note else None
            return frozenset(i for i in found if isinstance(i, int)) if isinstance(found, list) else frozenset()

        return cls(ids("candidates"), ids("held"))

    def to_json(self) -> dict[str, list[int]]:
        return {"candidates": sorted(self.candidates), "held": sorted(self.held)}

    def before_change(self, pending: Iterable[Pending], concerned: Collection[str]) -> HeldJobs:
        """What waits now without being held, in a partition that the change concerns, may be held by what comes."""
        at_risk = (job for job in pending if job.priority > 0 and not set(concerned).isdisjoint(job.partitions))
        return HeldJobs(frozenset(job.id for job in at_risk), self.held)

    def seen(self, pending: Iterable[Pending]) -> HeldJobs:
        """Candidates that Slurm holds now are held because of us; what no longer waits, or is held by a person, is
        forgotten. What was released stays a candidate: Slurm may hold it again."""
        jobs = list(pending)
        ours = self.candidates | self.held
        held = frozenset(job.id for job in jobs if job.id in ours and job.held_by_slurm)
        return HeldJobs(frozenset(job.id for job in jobs if job.id in ours and job.priority > 0), held)


def parse(text: str) -> list[Pending]:
    """The answer to ASK; lines of another form are left out."""
    jobs = []
    for line in text.splitlines():
        fields = line.strip().split("|", 4)
        if len(fields) == 5 and fields[0].isdigit() and fields[2].isdigit():
            jobs.append(Pending(int(fields[0]), fields[1], int(fields[2]), tuple(fields[3].split(",")), fields[4]))
    return jobs


def concerned(before: Configuration | None, after: Configuration | None, partitions: Iterable[str]) -> frozenset[str]:
    """The partitions whose jobs get another topology; all of them where one of the two is not known."""
    if before is None or after is None:
        return frozenset(partitions)
    return frozenset(p for p in partitions if _served(before, p) != _served(after, p))


def _served(configuration: Configuration, partition: str) -> object:
    topology = configuration.of_partition(partition)
    return None if topology is None else topology.body
