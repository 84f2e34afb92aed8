"""Blocks from UltraServers: one each, in a stable order, with a base size that does not follow today's breakdowns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from topology_plugin.core.hostlists import node_order
from topology_plugin.core.names import block_name, unplaced_name
from topology_plugin.core.position import Position
from topology_plugin.core.settings import BlockSizes
from topology_plugin.core.topology import Block, Blocks

# UltraServers of p6e-gb200: u-p6e-gb200x72 has 18 instances, u-p6e-gb200x36 has 9 (AWS's documentation).
FULL, HALF = 18, 9


@dataclass(frozen=True)
class Stacked:
    blocks: Blocks
    notes: tuple[str, ...] = ()


def base_size(ultraserver_types: Iterable[str | None], most_nodes_seen: int, spares: int) -> int:
    """The base size for `block_sizes: auto`. `ultraserver_types`: of every UltraServer (None: not known)."""
    types = set(ultraserver_types)
    known = {t for t in types if t}
    if known:
        half = all(t.endswith("x36") for t in known) and None not in types
        half = half or (all(t.endswith("x36") for t in known) and most_nodes_seen <= HALF)
    else:
        half = most_nodes_seen <= HALF
    return max(1, (HALF if half else FULL) - spares)


def stack(
    positions: Mapping[str, Position],
    unplaced: Iterable[str],
    sizes: Sequence[int],
    former_order: Sequence[str] = (),
) -> Stacked:
    """Blocks of the placed nodes (`positions`: node → position with an UltraServer), then one for each unplaced node.

    Sorted by network path, then id. Larger levels form from neighbours in this order, so with several `sizes` the
    former order stays, new blocks append, and empty blocks pad to a multiple of the largest level: without that, large
    jobs never run (run; rule `blocks-unpadded`).
    """
    members: dict[str, list[str]] = defaultdict(list)
    for node, position in positions.items():
        if position.ultraserver is None:
            raise ValueError(f"{node} has no UltraServer")
        members[position.ultraserver].append(node)

    def key(ultraserver: str) -> tuple[tuple[str, ...], str]:
        return (min(positions[node].path for node in members[ultraserver]), ultraserver)

    ordered = sorted(members, key=key)
    if len(sizes) > 1 and former_order:
        place = {name: i for i, name in enumerate(former_order)}
        ordered.sort(key=lambda us: place.get(block_name(us), len(place)))
    blocks = [Block(block_name(us), tuple(sorted(members[us], key=node_order))) for us in ordered]
    group = sizes[-1] // sizes[0]
    padding = 0

    def pad() -> None:
        """An empty block keeps a position (run)."""
        nonlocal padding
        while len(blocks) % group:
            padding += 1
            blocks.append(Block(f"pad-{padding}"))

    pad()
    for node in sorted(unplaced, key=node_order):
        blocks.append(Block(unplaced_name(node), (node,)))
        pad()  # alone in its group too: an unplaced node never looks near to another
    notes = []
    over = [us for us in ordered if len(members[us]) > FULL]
    if over:
        notes.append(f"more than {FULL} nodes report one UltraServer: {', '.join(over)}")
    return Stacked(Blocks(tuple(sizes), tuple(blocks)), tuple(notes))


def sizes_for(setting: BlockSizes, auto_base: int) -> tuple[int, ...]:
    """The sizes to write: the setting's, or the one automatic size."""
    return (auto_base,) if setting == "auto" else setting
