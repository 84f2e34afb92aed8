"""Which constraint of the topology holds a pending job, and what would let it run.

Slurm's rules restated (docs/safety-rules.md; run). What is not the topology's doing is said to be Slurm's own reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from topology_plugin.core import job_sizes
from topology_plugin.core.consequences import refused, spread
from topology_plugin.core.diff import ways
from topology_plugin.core.job_sizes import Ranges
from topology_plugin.core.live import Job, Live
from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Configuration, Topology, Tree

REQUIRED = "hyperpod-topology: required="  # so begins the comment that `submit --required` leaves in a job


@dataclass(frozen=True)
class Hold:
    """One constraint. `for_good`: no free node changes it, only what `remedy` says; else it passes by itself."""

    what: str
    remedy: str = ""
    for_good: bool = False


@dataclass(frozen=True)
class Lies:
    """How a running job lies in a topology: `units` leaves or blocks (name → its nodes there), `least`: as few as they
    could be with every node idle."""

    topology: str
    unit: str
    units: tuple[tuple[str, int], ...]
    least: int


@dataclass(frozen=True)
class JobWhy:
    """`holds`: topology's constraints on a pending job, first the decisive one; empty: the topology does not hold it.

    `ours`: Slurm holds it because of a change of ours; it is released by itself."""

    job: Job
    topologies: tuple[str, ...]
    holds: tuple[Hold, ...] = ()
    lies: tuple[Lies, ...] = ()
    ours: bool = False
    notes: tuple[str, ...] = ()


def explain_job(state: State, live: Live, job: Job) -> JobWhy:
    """Against what is in force (what is desired where that is not known)."""
    configuration = state.in_force if state.in_force and state.in_force.topologies else state.desired
    names = [p for p in job.partitions if p in state.inventory.partitions]
    topologies = tuple(dict.fromkeys(t.name for p in names if (t := configuration.of_partition(p))))
    ours = job.id in state.held
    if not job.pending:
        return JobWhy(job, topologies, lies=tuple(_lies(configuration, names, job)), ours=ours)
    holds: list[Hold] = []
    for partition in names:
        found = list(_holds(state, live, job, configuration, partition))
        if not found:
            holds = []  # one partition of several that can run it is enough
            break
        holds.extend(found)
    notes = []
    unknown = [p for p in job.partitions if p not in state.inventory.partitions]
    if unknown:
        notes.append(f"partition {', '.join(unknown)} is not in slurm.conf")
    if job.priority == 0 and job.reason == "BadConstraints" and not any(hold.for_good for hold in holds):
        holds.insert(0, _stale(job, ours))
    holds.sort(key=lambda hold: not hold.for_good)
    return JobWhy(job, topologies, tuple(holds), (), ours, tuple(notes))


def _stale(job: Job, ours: bool) -> Hold:
    what = "Slurm once found it never runnable and holds it since (Priority=0); the topology in force could run it"
    if ours:
        return Hold(what, "it is released by the next pass", for_good=True)
    return Hold(what, f"scontrol release {job.label}", for_good=True)


def _holds(state: State, live: Live, job: Job, configuration: Configuration, partition: str) -> Iterator[Hold]:
    topology = configuration.of_partition(partition)
    if topology is None:
        return
    members = state.inventory.partitions[partition].nodes
    if state.topo_optional and not job.switches and isinstance(topology.body, Tree):
        yield from _size((), partition, members, job, None)  # Slurm leaves the tree aside (run)
        return
    ranges = refused(configuration, partition, members, topo_optional=False)
    if job.segment and isinstance(topology.body, Blocks):
        # Each piece is placed by itself: the whole may be a size that is refused without segments (run).
        if job.segment > topology.body.sizes[0] and not job_sizes.accepts(ranges, job.segment):
            what = f"segments of {job.segment} nodes are a size that {partition} cannot run"
            yield Hold(f"{what} (refused: {job_sizes.told(ranges)})", "another --segment", for_good=True)
        ranges = ()
    yield from _size(ranges, partition, members, job, topology)
    yield from _required(topology, job)
    allowed = [n for n in members if n not in job.excluded]
    yield from _excluded(topology, members, allowed, job, live)
    if isinstance(topology.body, Blocks):
        yield from _in_blocks(topology.body, job, live, set(allowed))
    elif isinstance(topology.body, Tree):
        yield from _in_tree(topology.body, job, live, set(allowed))


def _size(
    ranges: Ranges, partition: str, members: Sequence[str], job: Job, topology: Topology | None
) -> Iterator[Hold]:
    wanted = job.nodes_wanted
    if wanted > len(members):
        yield Hold(f"asks for {wanted} nodes, {partition} has {len(members)}", "ask for fewer", for_good=True)
    elif not job_sizes.accepts(ranges, wanted):
        above = job_sizes.next_accepted(ranges, wanted, len(members))
        below = next((n for n in range(wanted - 1, 0, -1) if job_sizes.accepts(ranges, n)), None)
        sizes = " or ".join(f"-N{n}" for n in (below, above) if n is not None)
        ways_out = [f"ask for {sizes}, or a range of sizes"] if sizes else []
        if topology is not None and topology.kind == "block":
            ways_out += [f"a --segment (`advise -p {partition} -N {wanted}` names one)", "a node more in a short block"]
        remedy = "; or ".join(ways_out) or "see `explain` of the partition"
        told = job_sizes.told(ranges)
        yield Hold(f"{wanted} nodes is a size that {partition} cannot run (refused: {told})", remedy, for_good=True)


def _excluded(
    topology: Topology, members: Sequence[str], allowed: Sequence[str], job: Job, live: Live
) -> Iterator[Hold]:
    """`submit --required` keeps a job in one domain by excluding all other nodes."""
    wanted = max(job.nodes_wanted, 1)
    if len(allowed) == len(members) or wanted > len(members):
        return
    found = ways(topology)
    places = [found[node] for node in allowed if node in found]
    shared = [step for step, *others in zip(*places, strict=False) if all(step == other for other in others)]
    where = f" (all in {shared[-1]})" if len(places) > 1 and shared else ""
    left = f"-x leaves it {len(allowed)} of {len(members)} nodes{where}"
    ours = REQUIRED in job.submit_line
    again = f"`submit --again {job.label}` chooses the domain anew" if ours else "exclude fewer nodes"
    idle = sum(1 for node in allowed if live.states.get(node) == "idle")
    if wanted > len(allowed):
        yield Hold(f"{left}, it asks for {wanted}", again, for_good=True)
    elif idle < wanted <= sum(1 for node in members if live.states.get(node) == "idle"):
        yield Hold(f"{left}, {idle} of them idle", f"wait, or {again}")


def _required(topology: Topology, job: Job) -> Iterator[Hold]:
    if not job.required:
        return
    found = ways(topology)
    bare = [node for node in job.required if node not in found]
    if bare:
        yield Hold(f"requires {', '.join(bare)}, in no switch or block of {topology.name}", "merge, see `doctor`", True)
    elif places := spread(topology, job):
        if isinstance(topology.body, Blocks):
            what = f"requires nodes (-w) of {len(places)} blocks, which Slurm refuses at this size: {', '.join(places)}"
            yield Hold(what, "require nodes of fewer blocks, or none, or ask for more nodes", for_good=True)
        else:
            yield Hold(f"requires nodes below different roots: {', '.join(places)}", "stay below one root", True)


def _in_blocks(body: Blocks, job: Job, live: Live, allowed: set[str]) -> Iterator[Hold]:
    base, wanted = body.sizes[0], max(job.nodes_wanted, 1)
    if job.segment and wanted % job.segment:
        near = [n for n in (wanted // job.segment * job.segment, -(-wanted // job.segment) * job.segment) if n]
        sizes = " or ".join(f"-N{n}" for n in dict.fromkeys(near))
        yield Hold(f"--segment={job.segment} does not divide {wanted} nodes", f"ask for {sizes}", for_good=True)
        return
    idle = [sum(1 for n in b.nodes if n in allowed and live.states.get(n) == "idle") for b in body.blocks]
    if job.segment:
        pieces = wanted // job.segment
        ever, now = job_sizes.segments(body, allowed, job.segment), sum(count // job.segment for count in idle)
        if job.segment <= base and ever < pieces:
            what = (
                f"needs {_segments(pieces)} of {job.segment} nodes, each in one block; all blocks together hold {ever}"
            )
            fewer = f", or at most {ever * job.segment} nodes" if ever else ""
            yield Hold(what, f"a smaller --segment{fewer}", for_good=True)
        elif job.segment <= base and now < pieces:
            yield Hold(f"needs {_segments(pieces)} of {job.segment} idle nodes, each in one block; now: {now}")
        return
    most = -(-wanted // base)
    level = next((size for size in body.sizes if size >= wanted), None)
    together = (
        len(idle) if level is None else level // base
    )  # a job lies in one block of the smallest level that holds it
    groups = [idle[at : at + together] for at in range(0, len(idle), together)]
    best = max((sum(sorted(group, reverse=True)[:most]) for group in groups), default=0)
    if best < wanted <= sum(idle):
        blocks = "one block" if most == 1 else f"{most} blocks"
        where = f" of one level of {level}" if together > 1 and level is not None else ""
        room = f"{best} idle nodes in the {blocks if most > 1 else 'block'} with most room, {sum(idle)} in all"
        what = f"{wanted} nodes may use at most {blocks}{where} (base size {base}): {room}"
        yield Hold(what, "wait, or a --segment that fits the room there is")


def _segments(count: int) -> str:
    return "1 segment" if count == 1 else f"{count} segments"


def _in_tree(body: Tree, job: Job, live: Live, allowed: set[str]) -> Iterator[Hold]:
    idle = {n for n in allowed if live.states.get(n) == "idle"}
    wanted = max(job.nodes_wanted, 1)
    roots = body.roots()
    if len(roots) > 1:
        free = max(len(idle.intersection(body.nodes_below(root))) for root in roots)
        if free < wanted <= len(idle):
            yield Hold(f"cannot span roots; the one with most room has {free} idle nodes, {len(idle)} are idle in all")
    if job.switches:
        leaves = sorted((len(allowed.intersection(s.nodes)) for s in body.switches if s.nodes), reverse=True)
        room = sorted((len(idle.intersection(s.nodes)) for s in body.switches if s.nodes), reverse=True)
        asks = f"--switches={job.switches}"
        wait = f"after {f'{job.switch_wait} s' if job.switch_wait else 'max_switch_wait'} it starts anyway"
        if sum(leaves[: job.switches]) < wanted:
            largest = "largest leaf has" if job.switches == 1 else f"largest {job.switches} leaves have"
            have = f"the {largest} {sum(leaves[: job.switches])} nodes"
            yield Hold(f"{asks} can never be met for {wanted} nodes: {have}", f"{wait}; or ask for more switches")
        elif sum(room[: job.switches]) < wanted <= len(idle):
            yield Hold(f"{asks}: not enough idle nodes under so few leaf switches now", wait)


def _lies(configuration: Configuration, partitions: Sequence[str], job: Job) -> Iterator[Lies]:
    for name in dict.fromkeys(t.name for p in partitions if (t := configuration.of_partition(p))):
        topology = configuration.topology(name)
        if topology is None or not job.nodes or topology.kind == "flat":
            continue
        found = ways(topology)
        counts: dict[str, int] = {}
        for node in job.nodes:
            if node in found:
                counts[found[node][-1]] = counts.get(found[node][-1], 0) + 1
        body = topology.body
        units = [b.nodes for b in body.blocks] if isinstance(body, Blocks) else []
        units = [s.nodes for s in body.switches] if isinstance(body, Tree) else units
        left, least = len(job.nodes), 0
        for size in sorted((len(nodes) for nodes in units), reverse=True):
            if left <= 0:
                break
            left, least = left - size, least + 1
        unit = "block" if isinstance(body, Blocks) else "leaf"
        yield Lies(name, unit, tuple(sorted(counts.items(), key=lambda c: (-c[1], c[0]))), least)
