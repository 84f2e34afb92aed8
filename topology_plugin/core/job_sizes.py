"""Which job sizes a topology refuses although the same nodes without one could run them, all of them idle.

The rules of Slurm's block and tree selection, restated as arithmetic on ranges so that 16,384 nodes take milliseconds
(src: eval_nodes_block.c; run: equal to `sbatch --test-only` for every size of the shapes in
tests/slurm/test_job_sizes_real.py). Nodes of equal weight and CPUs are assumed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, TypeAlias

from topology_plugin.core.hostlists import node_order
from topology_plugin.core.topology import Blocks, Flat, Topology, Tree

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""Ascending inclusive ranges that neither touch nor overlap."""


def refused(topology: Topology, partition_nodes: Collection[str], topo_optional: bool = False) -> Ranges:
    """Job sizes (nodes) from 1 to the partition's size that `topology` refuses with every node idle.

    `topo_optional`: TopologyParam=TopoOptional, with which a tree refuses only jobs with `--switches` (run).
    """
    nodes = frozenset(partition_nodes)
    body = topology.body
    if isinstance(body, Flat) or not nodes or (topo_optional and isinstance(body, Tree)):
        return ()
    if isinstance(body, Tree):
        return _refused_by_tree(body, nodes)
    return _refused_by_blocks(body, nodes)


def topo_optional(parameter: str | None) -> bool:
    """Whether slurm.conf's `TopologyParam` holds TopoOptional."""
    return "topooptional" in (word.strip().lower() for word in (parameter or "").split(","))


def segments(blocks: Blocks, nodes: Collection[str], size: int) -> int:
    """How many segments of `size` nodes the blocks hold of `nodes`; up to the base size each lies in one (run)."""
    own = frozenset(nodes)
    return sum(len(own.intersection(block.nodes)) // size for block in blocks.blocks)


def accepts(ranges: Ranges, size: int) -> bool:
    """Whether `size` lies in none of the refused `ranges`."""
    return not any(low <= size <= high for low, high in ranges)


def next_accepted(ranges: Ranges, size: int, most: int) -> int | None:
    """The smallest size from `size` to `most` (the partition's size) outside `ranges`; None: there is none."""
    for low, high in ranges:
        if low <= size <= high:
            size = high + 1
    return size if size <= most else None


def lost(before: Ranges, after: Ranges) -> Ranges:
    """Sizes refused by `after` that `before` accepted."""
    result: list[tuple[int, int]] = []
    for low, high in after:
        for taken_low, taken_high in before:
            if taken_high < low:
                continue
            if taken_low > high:
                break
            if taken_low > low:
                result.append((low, taken_low - 1))
            low = taken_high + 1
            if low > high:
                break
        if low <= high:
            result.append((low, high))
    return tuple(result)


def told(ranges: Ranges) -> str:
    """`19-36, 40` for people."""
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in ranges)


def _joined(ranges: Iterable[tuple[int, int]]) -> Ranges:
    result: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if low > high:
            continue
        if result and low <= result[-1][1] + 1:
            result[-1] = (result[-1][0], max(high, result[-1][1]))
        else:
            result.append((low, high))
    return tuple(result)


def _refused_by_tree(tree: Tree, nodes: frozenset[str]) -> Ranges:
    """A job never spans two roots, and never takes a node under no switch."""
    largest = max((len(nodes.intersection(tree.nodes_below(root))) for root in tree.roots()), default=0)
    if not largest:
        return ()  # no switch reaches any of them: Slurm then chooses as if flat
    return _joined([(largest + 1, len(nodes))])


TRIES = 500
"""So often at most we go on as Slurm does without one node more. Real clusters need a few; what is open after that is
called refused, rather than keep a pass waiting."""

_Members: TypeAlias = list[Sequence[Any]]
"""For each base block its nodes; where Slurm may leave some out, as `node_order` has them, its own order (run)."""


@dataclass(frozen=True)
class _Block:
    """A block of some level. `total`: nodes in it. `gains[m]`: nodes of its m fullest lower blocks. `reached`: how many
    nodes Slurm's choice gets at, and `first`, the base block with the first of them, which it then leaves out."""

    total: int
    gains: Sequence[int]
    reached: int
    first: int


def _refused_by_blocks(body: Blocks, nodes: frozenset[str]) -> Ranges:
    members: _Members = [[node for node in block.nodes if node in nodes] for block in body.blocks]
    if not all(members):  # only then its search can stall
        members = [sorted(map(node_order, own)) for own in members]
    covered = sum(map(len, members))
    if not covered:
        return ()  # Slurm then chooses as if flat
    base = body.sizes[0]
    levels = sorted({(size // base).bit_length() - 1 for size in body.sizes})
    result = [(covered + 1, len(nodes))]
    low = 1
    step = 0  # sizes that need at most 2^step base blocks
    tries = iter(range(TRIES))
    while low <= covered:
        high = min(covered, base << step)
        lower = max((level for level in levels if level < step), default=0)
        level = next((level for level in levels if level >= step), None)
        result.extend(_refused_at(members, base, level, lower, low, high, tries))
        low = high + 1
        step += 1
    return _joined(result)


def _refused_at(
    members: _Members, base: int, level: int | None, lower: int, low: int, high: int, tries: Iterator[int]
) -> Iterable[tuple[int, int]]:
    """Refused sizes between `low` and `high`, which must lie in one block of `level` (None: all blocks as one) and take
    no more blocks of level `lower` than full ones would need."""
    width = len(members) if level is None else 1 << level
    lower_width = 1 << lower
    starts = range(0, len(members), width)
    blocks = [_block(members, at, width, lower_width) for at in starts]
    size = base * lower_width
    for most in range(-(-low // size), -(-high // size) + 1):
        first, last = max(low, (most - 1) * size + 1), min(high, most * size)
        if width == most * lower_width:  # all lower blocks may be used: only the total counts
            yield max(first, max(block.total for block in blocks) + 1), last
        else:
            yield from _refused_by_choice(members, blocks, (width, lower_width), most, first, last, tries)


def _block(members: _Members, start: int, width: int, lower_width: int) -> _Block:
    """The block of `width` base blocks from `start` on; the last one may have fewer."""
    own = range(start, min(start + width, len(members)))
    counts = [len(members[at]) for at in own]
    lower = [counts[at : at + lower_width] for at in range(0, len(counts), lower_width)]
    # How many nodes there seem to be: Slurm divides by the full width, so what is left of an odd one is not seen.
    seen = sorted((sum(c) for c in lower[: width // lower_width]), reverse=True)
    # Slurm takes the fullest first, of equals the one with the largest base block that stands last.
    order = sorted(((sum(c), max(c), at, 0 in c) for at, c in enumerate(lower)), reverse=True)
    # A base block without nodes in a lower block that is not the last one needed ends the search (run).
    stall = next((at + 1 for at, (_, _, _, empty) in enumerate(order) if empty), len(order))
    taken = [own[i] for _, _, at, _ in order[:stall] for i in range(at * lower_width, (at + 1) * lower_width)
             if i < len(own) and members[own[i]]]  # fmt: skip
    reached = sum(total for total, _, _, _ in order[:stall])
    first = min(taken, key=lambda i: members[i][0], default=start)
    return _Block(sum(counts), list(accumulate(seen, initial=0)), reached, first)


def _refused_by_choice(
    members: _Members,
    blocks: list[_Block],
    widths: tuple[int, int],
    most: int,
    first: int,
    last: int,
    tries: Iterator[int],
) -> Iterable[tuple[int, int]]:
    """Sizes first…last with at most `most` lower blocks. Slurm takes, of the blocks that seem large enough, the one
    with the fewest nodes (of equals the last). If that one stalls it tries again without the first of the nodes that it
    had got at, until no block seems large enough (run: SelectType's log)."""

    def promised(block: _Block) -> int:
        return block.gains[min(most, len(block.gains) - 1)]

    pending = [(members, blocks, first, last)]
    while pending:
        members, blocks, low, last = pending.pop()
        for promise in sorted({promised(block) for block in blocks}):
            high = min(last, promise)
            if low > high:
                continue
            seeming = [at for at, block in enumerate(blocks) if promised(block) >= high]
            chosen = min(reversed(seeming), key=[block.total for block in blocks].__getitem__)
            stalled = max(low, blocks[chosen].reached + 1)
            if stalled <= high and next(tries, None) is None:
                yield stalled, high
            elif stalled <= high:
                left, again = list(members), list(blocks)
                left[blocks[chosen].first] = left[blocks[chosen].first][1:]
                again[chosen] = _block(left, chosen * widths[0], *widths)
                pending.append((left, again, stalled, high))
            low = high + 1
        yield low, last
