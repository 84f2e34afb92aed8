"""What a change of topology means for jobs: sizes that become possible or impossible, and the jobs concerned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from topology_plugin.core import job_sizes
from topology_plugin.core.job_sizes import Ranges
from topology_plugin.core.live import Job
from topology_plugin.core.state import State
from topology_plugin.core.topology import Configuration


@dataclass(frozen=True)
class SizeChange:
    """Job sizes of a partition that the change makes possible or impossible, as ascending inclusive ranges."""

    partition: str
    possible: Ranges = ()
    impossible: Ranges = ()


@dataclass(frozen=True)
class JobConcern:
    """A job that the change concerns. `lost`: pending, and never runnable afterwards (Slurm would hold it for good)."""

    job: Job
    lost: bool
    what: str


def size_changes(state: State, before: Configuration, after: Configuration) -> Iterator[SizeChange]:
    """Nodes that slurm.conf no longer lists still count before: slurmctld has them until it is reconfigured."""
    for name, partition in state.inventory.partitions.items():
        former = before.of_partition(name) if before.topologies else None
        gone = [n for n in former.body.nodes() if n not in state.inventory.nodes] if former else []
        later = after.of_partition(name)
        if former and later and former.body == later.body and not gone:
            continue
        old = refused(before, name, (*partition.nodes, *gone), state.topo_optional)
        new = refused(after, name, partition.nodes, state.topo_optional)
        most = len(partition.nodes)  # larger sizes are not made possible: there are no nodes for them
        possible = tuple((low, min(high, most)) for low, high in job_sizes.lost(new, old) if low <= most)
        impossible = job_sizes.lost(old, new)
        if possible or impossible:
            yield SizeChange(name, possible, impossible)


def refused(configuration: Configuration, partition: str, nodes: Sequence[str], topo_optional: bool) -> Ranges:
    """Job sizes that a partition can't run under `configuration` although flat could. `topo_optional`: see State."""
    topology = configuration.of_partition(partition) if configuration.topologies else None
    return job_sizes.refused(topology, nodes, topo_optional) if topology else ()


def job_concerns(sizes: Sequence[SizeChange], moved: Mapping[str, bool], jobs: Iterable[Job]) -> Iterator[JobConcern]:
    """Jobs that a change concerns. `moved`: node → True if it leaves its topology, False if it only changes place."""
    sized = {change.partition: change for change in sizes}
    for job in jobs:
        if job.pending:
            lost = [p for p in job.partitions if p in sized and _within(sized[p].impossible, job.nodes_wanted)]
            won = [p for p in job.partitions if p in sized and _within(sized[p].possible, job.nodes_wanted)]
            asks = f"asks for {job.nodes_wanted} nodes"
            if lost and len(lost) == len(job.partitions):
                yield JobConcern(job, True, f"{asks}: {', '.join(lost)} could no longer run that, Slurm would hold it")
            elif won:
                yield JobConcern(job, False, f"{asks}: {', '.join(won)} can run that afterwards")
            elif gone := [node for node in job.required if moved.get(node)]:
                leave = "leaves" if len(gone) == 1 else "leave"
                yield JobConcern(job, True, f"requires {some(gone, 'node')}, which {leave}")
        elif job.running and (on := [node for node in job.nodes if node in moved]):
            gone = [node for node in on if moved[node]]
            if gone:
                leave = "leaves" if len(gone) == 1 else "leave"
                yield JobConcern(job, False, f"runs on {some(gone, 'node')}, which {leave}")
            else:
                verb = "changes" if len(on) == 1 else "change"
                yield JobConcern(job, False, f"keeps running; {some(on, 'node')} of it {verb} place")


def _within(ranges: Ranges, size: int) -> bool:
    return not job_sizes.accepts(ranges, size)


def some(names: Sequence[str], noun: str) -> str:
    """`switch a`, or `5 switches (a, b, c, …)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{len(names)} {plural} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
