"""In force against desired: who moves, joins and leaves and why, what shrinks, which sizes and jobs are concerned."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from topology_plugin.core.consequences import JobConcern, SizeChange, job_concerns, size_changes, some
from topology_plugin.core.hostlists import node_order
from topology_plugin.core.live import Job
from topology_plugin.core.position import LAST_KNOWN
from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Configuration, Topology, Tree

Way = tuple[str, ...]
"""Names of switches from the root to the leaf, or of the one block."""

_FILLER = re.compile(r".*-l[0-9]+")


@dataclass(frozen=True)
class Fact:
    """What the generation in force rests on for one node (facts.json): the instance and the source behind its place."""

    instance_id: str | None = None
    source: str | None = None


@dataclass(frozen=True)
class Change:
    """A node that moves (`before` and `after`), joins (`before` None) or leaves (`after` None) a topology, and why."""

    topology: str
    node: str
    before: Way | None
    after: Way | None
    why: str

    @property
    def verb(self) -> str:
        return "joins" if self.before is None else "leaves" if self.after is None else "moves"


@dataclass(frozen=True)
class PartitionChange:
    """`before`/`after`: (topology, kind), None: the partition is not served there."""

    partition: str
    before: tuple[str, str] | None
    after: tuple[str, str] | None
    why: str


@dataclass(frozen=True)
class BlockChange:
    """A block that shrinks, grows, appears (`before` None) or disappears (`after` None); sizes in nodes."""

    topology: str
    block: str
    before: int | None
    after: int | None


@dataclass(frozen=True)
class Diff:
    """`other`: differences that concern no node (defaults, words, order, switches of levels), in sentences.

    `known` False: nothing is known to be in force, everything desired is new."""

    partitions: tuple[PartitionChange, ...] = ()
    nodes: tuple[Change, ...] = ()
    blocks: tuple[BlockChange, ...] = ()
    sizes: tuple[SizeChange, ...] = ()
    jobs: tuple[JobConcern, ...] = ()
    other: tuple[str, ...] = ()
    known: bool = True

    @property
    def pending(self) -> bool:
        """slurmctld would be given something else than it has. Sizes and jobs are consequences of the rest."""
        return bool(self.partitions or self.nodes or self.blocks or self.other)


def compare(state: State, jobs: Iterable[Job] = (), facts: Mapping[str, Fact] | None = None) -> Diff:
    """What a pass would change. `facts`: of the generation in force; without them reasons come from today's answers."""
    if state.in_force is None:
        return between(state, Configuration(()), state.desired, jobs, facts or {}, known=False)
    return between(state, state.in_force, state.desired, jobs, facts or {})


def between(
    state: State,
    before: Configuration,
    after: Configuration,
    jobs: Iterable[Job] = (),
    facts: Mapping[str, Fact] | None = None,
    known: bool = True,
) -> Diff:
    """As `compare`, for any two configurations of the same cluster."""
    diff = replace(places(state, before, after, facts), known=known)
    sizes = tuple(size_changes(state, before, after))
    moved = {change.node: change.after is None for change in diff.nodes}
    return replace(diff, sizes=sizes, jobs=tuple(job_concerns(state, before, after, sizes, moved, jobs)))


def places(state: State, before: Configuration, after: Configuration, facts: Mapping[str, Fact] | None = None) -> Diff:
    """Of `between` only what changes place, not what that means for sizes and jobs."""
    partitions = tuple(_partitions(state, before, after))
    reasons = _Reasons(state, facts or {})
    changes: list[Change] = []
    blocks: list[BlockChange] = []
    other: list[str] = []
    for topology in after.topologies:
        former = before.topology(topology.name)
        if former is None or former.body == topology.body:
            continue
        changes.extend(_nodes(former, topology, reasons))
        blocks.extend(_blocks(former, topology))
        other.extend(_levels(former, topology))
    other.extend(_rest(before, after, {change.partition for change in partitions}))
    return Diff(partitions, tuple(changes), tuple(blocks), other=tuple(other))


def ways(topology: Topology) -> dict[str, Way]:
    """Node → where it stands; of a node that stands twice the first place counts (as slurmctld warns)."""
    return {node: way for way, nodes in reversed(_stands(topology)) for node in nodes}


def _stands(topology: Topology) -> list[tuple[Way, tuple[str, ...]]]:
    """(way, nodes) of every leaf or block, in order."""
    body = topology.body
    if isinstance(body, Blocks):
        return [((block.name,), block.nodes) for block in body.blocks]
    found: list[tuple[Way, tuple[str, ...]]] = []
    if isinstance(body, Tree):
        parent = {child: switch.name for switch in body.switches for child in switch.children}
        for switch in body.switches:
            if not switch.nodes:
                continue
            way = [switch.name]
            while way[-1] in parent and parent[way[-1]] not in way:
                way.append(parent[way[-1]])
            found.append((tuple(reversed(way)), switch.nodes))
    return found


def _partitions(state: State, before: Configuration, after: Configuration) -> Iterator[PartitionChange]:
    for partition in state.inventory.partitions:
        old = before.of_partition(partition) if before.topologies else None
        new = after.of_partition(partition)
        left = (old.name, old.kind) if old else None
        right = (new.name, new.kind) if new else None
        if left != right:
            decision = state.decision.partitions.get(partition)
            yield PartitionChange(partition, left, right, decision.rule if decision else "")


@dataclass(frozen=True)
class _Reasons:
    state: State
    facts: Mapping[str, Fact]

    def of(self, topology: str, node: str, before: Way | None, after: Way | None) -> str:
        inventory = self.state.inventory
        placement = self.state.decision.placements.get(topology)
        known = inventory.nodes.get(node)
        if after is None:
            if any(node in partition.nodes for partition in inventory.partitions.values()):
                return f"no partition that {topology} serves has it any more"
            return "slurm.conf no longer lists it"
        unplaced = placement.unplaced.get(node) if placement else None
        source = placement.source.get(node) if placement else None
        if before is None:
            return f"new; unplaced: {unplaced}" if unplaced else f"new; {_says(source)}"
        if unplaced:
            return f"its position is no longer known: {unplaced}" if not _apart(before) else unplaced
        fact = self.facts.get(node)
        now = known.instance_id if known else None
        if fact and fact.instance_id and now and fact.instance_id != now:
            return f"{fact.instance_id} was replaced by {now}; {_says(source)}"
        if _apart(before):
            return f"its position is now known ({source})" if source else "its position is now known"
        if fact and fact.source and source and fact.source != source:
            return f"{source} is believed now, before it was {fact.source}"
        return _says(source)


def _says(source: str | None) -> str:
    if source is None:
        return "placed by nobody we know"
    if source.startswith(LAST_KNOWN):
        return "its last known position"
    return f"{source} says so"


def _apart(way: Way) -> bool:
    return any(name == "unplaced" or name.startswith("unplaced-") for name in way)


def _bare(way: Way) -> Way:
    """Without fillers: levels that come and go with others' depth move nobody."""
    kept = tuple(name for name in way[:-1] if not _FILLER.fullmatch(name))
    return (*kept, re.sub(r"-l[0-9]+$", "", way[-1]))


def _nodes(before: Topology, after: Topology, reasons: _Reasons) -> Iterator[Change]:
    if before.kind != after.kind:
        return
    left_stands, right_stands = _stands(before), _stands(after)
    # A leaf that is as it was concerns nobody, and nearly all are.
    touched = {node for _, nodes in {*left_stands} ^ {*right_stands} for node in nodes}
    old, new = (
        {node: way for way, nodes in reversed(stands) for node in nodes if node in touched}
        for stands in (left_stands, right_stands)
    )
    concerned = [node for node in touched if old.get(node) != new.get(node)]
    for node in sorted(concerned, key=node_order):
        left, right = old.get(node), new.get(node)
        if left is None or right is None or _bare(left) != _bare(right):
            yield Change(after.name, node, left, right, reasons.of(after.name, node, left, right))


def _blocks(before: Topology, after: Topology) -> Iterator[BlockChange]:
    if not isinstance(before.body, Blocks) or not isinstance(after.body, Blocks):
        return
    old = {block.name: len(block.nodes) for block in before.body.blocks}
    new = {block.name: len(block.nodes) for block in after.body.blocks}
    for name in dict.fromkeys((*old, *new)):
        if old.get(name) != new.get(name):
            yield BlockChange(after.name, name, old.get(name), new.get(name))


def _levels(before: Topology, after: Topology) -> Iterator[str]:
    """What differs between two topologies of one name and kind although no node moves."""
    left, right = before.body, after.body
    if before.kind != after.kind:
        yield f"topology {after.name} becomes {after.kind}, it is {before.kind}"
    elif isinstance(left, Blocks) and isinstance(right, Blocks):
        if left.sizes != right.sizes:
            yield f"topology {after.name}: block sizes become {_comma(right.sizes)}, they are {_comma(left.sizes)}"
        if [b.name for b in left.blocks if b.nodes] != [b.name for b in right.blocks if b.nodes] and {
            b.name for b in left.blocks
        } == {b.name for b in right.blocks}:
            yield f"topology {after.name}: the blocks change their order"
    elif isinstance(left, Tree) and isinstance(right, Tree):
        old = {s.name: frozenset(s.children) for s in left.switches}
        new = {s.name: frozenset(s.children) for s in right.switches}
        gone = [s.name for s in left.switches if s.name not in new and not _apart((s.name,))]
        come = [s.name for s in right.switches if s.name not in old and not _apart((s.name,))]
        if gone:
            yield f"topology {after.name}: {some(gone, 'switch')} disappear{'s' if len(gone) == 1 else ''}"
        if come:
            yield f"topology {after.name}: {some(come, 'switch')} appear{'s' if len(come) == 1 else ''}"
        before_all, after_all = frozenset(old), frozenset(new)
        moved = [n for n in new if n in old and old[n] & after_all != new[n] & before_all and n not in come]
        if moved and not gone and not come:
            yield f"topology {after.name}: other switches below {some(moved, 'switch')}"


def _rest(before: Configuration, after: Configuration, told: set[str]) -> Iterator[str]:
    if not before.topologies:
        return
    if before.default.name != after.default.name:
        yield f"the cluster default: {before.default.name} → {after.default.name}"
    for topology in before.topologies:
        if after.topology(topology.name) is None:
            yield f"topology {topology.name} ({topology.kind}) is no longer defined"
    for topology in after.topologies:
        if before.topology(topology.name) is None:
            yield f"topology {topology.name} ({topology.kind}) becomes defined"
    for partition in sorted(after.words.keys() | before.words.keys()):
        old, new = before.words.get(partition), after.words.get(partition)
        if old != new and partition not in told:
            yield f"partition {partition}: Topology={new or '(none)'} instead of {old or '(none)'}"


def _comma(values: Iterable[object]) -> str:
    return ", ".join(map(str, values))
