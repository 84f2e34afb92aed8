"""What fits now: the largest job in one leaf, spine or UltraServer, and idle segments by size."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topology_plugin.core.live import FREE, Live
from topology_plugin.jobs.distance import Network
from topology_plugin.jobs.levels import short

SEGMENTS = (1, 2, 4, 8, 9, 16, 18)


@dataclass(frozen=True)
class BlockRoom:
    """`size`: its nodes; `jobs`: how many jobs have nodes in it; `out`: nodes that no job can get."""

    name: str
    size: int
    idle: int
    jobs: int
    out: int

    @property
    def fragments(self) -> int:
        """Into how many pieces it is broken: one for each job in it, one for what is idle."""
        return self.jobs + (1 if self.idle else 0)


@dataclass(frozen=True)
class Room:
    """Room of one partition. `leaf`, `spine`, `block`: whole idle nodes in the one that has most (block None: none).

    `segments`: size → how many segments of so many idle nodes there are, each inside one UltraServer (one leaf where
    the partition has none). `mixed`: nodes that run something and have CPUs left; they count as not idle.
    """

    nodes: int
    idle: int
    mixed: int
    out: int
    leaf: int
    spine: int
    block: int | None
    segments: Mapping[int, int] = field(default_factory=dict)
    blocks: tuple[BlockRoom, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Stable keys, documented in docs/placement.md."""
        return {
            "nodes": self.nodes,
            "idle": self.idle,
            "mixed": self.mixed,
            "out": self.out,
            "largest_in_leaf": self.leaf,
            "largest_in_spine": self.spine,
            "largest_in_block": self.block,
            "segments": {str(size): count for size, count in self.segments.items()},
            "blocks": [{**vars(block), "fragments": block.fragments} for block in self.blocks],
        }


def room(network: Network, live: Live) -> Room:
    idle = idle_nodes(network, live)
    states = [live.states.get(node, "unknown") for node in network.nodes]
    in_leaf = _most(idle, network.leaf)
    placed = [node for node in idle if network.placed(node)]
    unit: Callable[[str], str | None] = network.block if network.blocks else network.leaf
    loose = [f"?{node}" for node in idle if unit(node) is None]
    units = Counter([found for node in idle if (found := unit(node)) is not None] + loose)
    return Room(
        nodes=len(network.nodes),
        idle=len(idle),
        mixed=states.count("mixed"),
        out=len(network.nodes) - len(idle) - sum(states.count(state) for state in ("mixed", "allocated")),
        leaf=in_leaf,
        spine=max(_most(placed, network.spine), min(1, len(idle))),
        block=max(units.values(), default=0) if network.blocks else None,
        segments={size: sum(count // size for count in units.values()) for size in SEGMENTS},
        blocks=_blocks(network, live, set(idle)),
    )


def idle_nodes(network: Network, live: Live) -> tuple[str, ...]:
    return tuple(node for node in network.nodes if live.states.get(node) in FREE)


def _most(nodes: tuple[str, ...] | list[str], domain: Callable[[str], str]) -> int:
    return max(Counter(domain(node) for node in nodes).values(), default=0)


def _blocks(network: Network, live: Live, idle: set[str]) -> tuple[BlockRoom, ...]:
    members: dict[str, list[str]] = {}
    for node in network.nodes:
        if node in network.blocks:
            members.setdefault(network.blocks[node], []).append(node)
    on = live.jobs_on()
    found = []
    for name, nodes in members.items():
        jobs = {job.id for node in nodes for job in on.get(node, ())}
        free = sum(1 for node in nodes if node in idle)
        out = sum(1 for node in nodes if node not in idle and not on.get(node))
        found.append(BlockRoom(name, len(nodes), free, len(jobs), out))
    return tuple(found)


def rows(partition: str, found: Room) -> list[list[str]]:
    """Cells for a table, under HEAD."""
    return [
        [
            partition,
            str(found.nodes),
            str(found.idle),
            str(found.leaf),
            str(found.spine),
            "-" if found.block is None else str(found.block),
            "  ".join(f"{size}:{count}" for size, count in found.segments.items()),
        ]
    ]


HEAD = ["partition", "nodes", "idle", "in one leaf", "in one spine", "in one block", "segments (size:count)"]


def block_rows(found: Room) -> list[list[str]]:
    """Cells for a table, under BLOCK_HEAD."""
    return [[short(b.name), str(b.size), str(b.idle), str(b.jobs), str(b.out), str(b.fragments)] for b in found.blocks]


BLOCK_HEAD = ["block", "nodes", "idle", "jobs", "out", "fragments"]
