"""What a change of topology means for jobs: sizes that become possible or impossible, and the jobs concerned."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from topology_plugin.core import job_sizes
from topology_plugin.core.job_sizes import Ranges
from topology_plugin.core.live import Job
from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Body, Configuration, Topology, Tree


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
        gone = _gone(state, former)
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


def _gone(state: State, former: Topology | None) -> list[str]:
    return [n for n in former.body.nodes() if n not in state.inventory.nodes] if former else []


def refused(configuration: Configuration, partition: str, nodes: Sequence[str], topo_optional: bool) -> Ranges:
    """Job sizes that a partition can't run under `configuration` although flat could. `topo_optional`: see State."""
    topology = configuration.of_partition(partition) if configuration.topologies else None
    return job_sizes.refused(topology, nodes, topo_optional) if topology else ()


def spread(topology: Topology, job: Job) -> tuple[str, ...]:
    """Blocks, or roots of a tree, over which the nodes of `-w` lie too far for a job of this size; (): they don't.

    N nodes may lie in ceil(N / base size) blocks at most, whatever requires them, and below one root (run).
    """
    if len(job.required) < 2:
        return ()
    required = set(job.required)
    places = tuple(name for name, nodes in _places(topology.body) if not required.isdisjoint(nodes))
    sizes = topology.body.sizes if isinstance(topology.body, Blocks) else ()
    most = -(-max(job.nodes_wanted, len(required)) // sizes[0]) if sizes else 1
    return tuple(sorted(places)) if len(places) > most else ()


def _places(body: Body) -> Iterator[tuple[str, Iterable[str]]]:
    if isinstance(body, Blocks):
        yield from ((block.name, block.nodes) for block in body.blocks)
    elif isinstance(body, Tree) and len(roots := body.roots()) > 1:
        yield from ((root.name, body.nodes_below(root)) for root in roots)


def job_concerns(
    state: State,
    before: Configuration,
    after: Configuration,
    sizes: Sequence[SizeChange],
    moved: Mapping[str, bool],
    jobs: Iterable[Job],
) -> Iterator[JobConcern]:
    """Jobs that a change concerns. `moved`: node → True if it leaves its topology, False if it only changes place."""
    sized = {change.partition: change for change in sizes}
    for job in jobs:
        if job.pending:
            lost = {p: asks for p in job.partitions if (asks := _too_much(state, before, after, sized.get(p), p, job))}
            won = [p for p in job.partitions if p in sized and _within(sized[p].possible, job.nodes_wanted)]
            if lost and len(lost) == len(job.partitions):
                asks = ", ".join(dict.fromkeys(lost.values()))
                yield JobConcern(job, True, f"{asks}: {', '.join(lost)} could no longer run that, Slurm would hold it")
            elif won:
                asks = f"asks for {job.nodes_wanted} nodes"
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


def _too_much(
    state: State, before: Configuration, after: Configuration, sizes: SizeChange | None, partition: str, job: Job
) -> str:
    """What the job asks for that the change makes impossible in this partition; "": nothing."""
    former = before.of_partition(partition) if before.topologies else None
    now = after.of_partition(partition)
    if job.segment and now is not None and isinstance(now.body, Blocks):
        # Each piece is placed by itself: the whole may be a size that is refused without segments (run).
        if job.segment > now.body.sizes[0] and sizes is not None and _within(sizes.impossible, job.segment):
            return f"asks for segments of {job.segment} nodes"
        nodes = state.inventory.partitions[partition].nodes
        pieces, size = -(-job.nodes_wanted // job.segment), job.segment
        held = pieces
        if former and isinstance(former.body, Blocks):
            held = job_sizes.segments(former.body, (*nodes, *_gone(state, former)), size)
        if size <= now.body.sizes[0] and job_sizes.segments(now.body, nodes, size) < pieces <= held:
            return f"asks for {pieces} {'segment' if pieces == 1 else 'segments'} of {size} nodes"
    elif sizes is not None and _within(sizes.impossible, job.nodes_wanted):
        return f"asks for {job.nodes_wanted} nodes"
    if now is None or (state.topo_optional and isinstance(now.body, Tree) and not job.switches):
        return ""
    if (places := spread(now, job)) and not (former and spread(former, job)):
        return f"requires nodes (-w) of {some(places, 'block' if isinstance(now.body, Blocks) else 'root')}"
    return ""


def _within(ranges: Ranges, size: int) -> bool:
    return not job_sizes.accepts(ranges, size)


def some(names: Sequence[str], noun: str) -> str:
    """`switch a`, or `5 switches (a, b, c, …)`."""
    if len(names) == 1:
        return f"{noun} {names[0]}"
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{len(names)} {plural} ({', '.join(names[:3])}{', …' if len(names) > 3 else ''})"
