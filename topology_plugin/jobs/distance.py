"""How far nodes lie from each other: the switches between them, counted to the lowest one they share.

The unit is switches passed: 1 under one leaf, 3 under one spine of a three-layer network, 5 through its top. Layers
are counted along the real network path of each node, never along Slurm's tree: a tree may have folded top layers and
filler switches that no packet ever meets.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import TypeAlias

from topology_plugin.core.names import is_unplaced
from topology_plugin.core.position import LAST_KNOWN, SOURCES, SPACES, Position, space_of
from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Kind, Topology, Tree

Path: TypeAlias = tuple[str, ...]

# Switches of our own making that only level a tree (core/names.py).
_FILLER = re.compile(r"(.+)-l[0-9]+")


@dataclass(frozen=True)
class Network:
    """The nodes of one partition and where each lies.

    `nodes`: all of the partition's, in Slurm's order. `paths`: node → network ids from the top to its leaf; `blocks`:
    node → its UltraServer (NVLink: 1 switch between any two of its nodes). A node in neither is unplaced: it counts
    as far from everything. `layers_known`: `paths` start at the network's layer 1 (from what the nodes reported), so
    layers have their numbers; False: read from Slurm's tree, whose top layers may be folded.
    """

    nodes: tuple[str, ...]
    paths: Mapping[str, Path] = field(default_factory=dict)
    blocks: Mapping[str, str] = field(default_factory=dict)
    kind: Kind = "flat"
    topology: str = ""
    layers_known: bool = True

    @property
    def unplaced(self) -> tuple[str, ...]:
        return tuple(node for node in self.nodes if not self.placed(node))

    def placed(self, node: str) -> bool:
        return bool(self.paths.get(node) or self.blocks.get(node))

    @cached_property
    def members(self) -> frozenset[str]:
        return frozenset(self.nodes)

    @cached_property
    def depth(self) -> int:
        """The longest path; an unplaced node counts as at the end of one."""
        return max((len(path) for path in self.paths.values()), default=1) or 1

    def leaf(self, node: str) -> str:
        """One name for each leaf, also for the unknown one of an unplaced node. Without paths a block stands for it."""
        path = self.paths.get(node)
        return "/".join(path) if path else self.blocks.get(node) or f"?{node}"

    def spine(self, node: str) -> str:
        """The switch above the leaf; "" joins all leaves that have none above them, an unplaced node is alone."""
        path = self.paths.get(node)
        if path:
            return "/".join(path[:-1])
        return "" if node in self.blocks else f"?{node}"

    def block(self, node: str) -> str | None:
        return self.blocks.get(node)

    @cached_property
    def leaf_sizes(self) -> tuple[int, ...]:
        """Nodes of each leaf, largest first; once for all jobs of a large partition."""
        return self._sizes(self.leaf)

    @cached_property
    def spine_sizes(self) -> tuple[int, ...]:
        return self._sizes(self.spine)

    @cached_property
    def block_sizes(self) -> tuple[int, ...]:
        """Nodes of each UltraServer, a node in none as one; () where there are none."""
        return self._sizes(lambda node: self.blocks.get(node) or f"?{node}") if self.blocks else ()

    def _sizes(self, domain: Callable[[str], str]) -> tuple[int, ...]:
        return tuple(sorted(Counter(domain(node) for node in self.nodes).values(), reverse=True))

    def hops(self, first: str, second: str) -> int:
        """Switches between two nodes; 0 for one node. Nodes that share no network id meet one switch above all ids."""
        if first == second:
            return 0
        return self._between(self._place(first), self._place(second))

    def _place(self, node: str) -> tuple[Path | None, str | None]:
        path = self.paths.get(node)
        block = self.blocks.get(node)
        if path:
            return path, block
        return (None, None) if block is None else ((block,), block)

    def _between(self, first: tuple[Path | None, str | None], second: tuple[Path | None, str | None]) -> int:
        if first[0] is None or second[0] is None:
            return 2 * self.depth + 1
        if first[1] is not None and first[1] == second[1]:
            return 1
        shared = 0
        for one, other in zip(first[0], second[0], strict=False):
            if one != other:
                break
            shared += 1
        return len(first[0]) + len(second[0]) + 1 - 2 * shared

    def spread(self, nodes: Sequence[str]) -> Spread:
        """All pairs of `nodes` at once; pairs in one place are counted, not visited."""
        places = Counter(self._place(node) for node in nodes if self.placed(node))
        lost = sum(1 for node in nodes if not self.placed(node))
        pairs = total = near = 0
        worst = 0

        def add(count: int, hops: int, one_leaf: bool) -> None:
            nonlocal pairs, total, near, worst
            if not count:
                return
            pairs += count
            total += count * hops
            near += count if one_leaf else 0
            worst = max(worst, hops)

        for place, count in places.items():
            add(count * (count - 1) // 2, self._between(place, place), True)
        for (place, count), (other, more) in combinations(places.items(), 2):
            add(count * more, self._between(place, other), place[0] == other[0])
        known = len(nodes) - lost
        add(lost * known + lost * (lost - 1) // 2, 2 * self.depth + 1, False)
        return Spread(pairs, total / pairs if pairs else 0.0, worst, near / pairs if pairs else 1.0, lost)


@dataclass(frozen=True)
class Spread:
    """`mean_hops`, `worst_hops` over all `pairs` of nodes; `one_leaf`: share of pairs under one leaf, 0–1;
    `unplaced`: nodes whose place is unknown (their pairs count as the worst possible)."""

    pairs: int
    mean_hops: float
    worst_hops: int
    one_leaf: float
    unplaced: int


def of_state(state: State, partition: str) -> Network:
    """The partition's network from what the last pass knew. KeyError: no such partition."""
    nodes = state.inventory.partitions[partition].nodes
    configuration = state.in_force or state.desired
    topology = configuration.of_partition(partition)
    placement = state.decision.placements.get(topology.name) if topology else None
    positions = placement.placed if placement else {}
    if not any(node in positions for node in nodes):
        positions = _answers(state, nodes)
    if topology is not None and not any(node in positions for node in nodes):
        return of_topology(topology, nodes)
    return of_positions(nodes, positions, topology)


def of_positions(nodes: Sequence[str], positions: Mapping[str, Position], topology: Topology | None) -> Network:
    """From real positions, whatever of them Slurm was told: an UltraServer is near also in a tree."""
    kind: Kind = topology.kind if topology else "flat"
    paths = {node: positions[node].path for node in nodes if node in positions and positions[node].path}
    blocks = {node: us for node in nodes if node in positions and (us := positions[node].ultraserver)}
    return Network(tuple(nodes), paths, blocks, kind, topology.name if topology else "")


def of_topology(topology: Topology, nodes: Iterable[str] | None = None) -> Network:
    """From what Slurm has loaded, where nothing else is known. `nodes`: the partition's; None: the topology's."""
    wanted = tuple(nodes if nodes is not None else topology.body.nodes())
    if isinstance(topology.body, Tree):
        paths = tree_paths(topology.body)
        return Network(wanted, {n: paths[n] for n in wanted if paths.get(n)}, {}, "tree", topology.name, False)
    if isinstance(topology.body, Blocks):
        alone = {block.name for block in topology.body.blocks if is_unplaced(block.name)}
        inside = {n: block.name for block in topology.body.blocks for n in block.nodes if block.name not in alone}
        return Network(wanted, {}, {n: inside[n] for n in wanted if n in inside}, "block", topology.name, False)
    return Network(wanted, {}, {}, "flat", topology.name, False)


def tree_paths(tree: Tree) -> dict[str, Path]:
    """Node → switches from below the root to its leaf, without fillers; () for an unplaced one."""
    names = {switch.name for switch in tree.switches}
    parents = {child: switch.name for switch in tree.switches for child in switch.children}
    found: dict[str, Path] = {}
    for switch in tree.switches:
        if not switch.nodes:
            continue
        chain: list[str] = []
        name: str | None = switch.name
        while name is not None and len(chain) <= len(names):
            chain.append(name)
            name = parents.get(name)
        if len(chain) > 1:
            chain.pop()  # the root joins everything and tells nothing apart
        path: Path = ()
        if not any(is_unplaced(step) for step in chain):
            real = [_real(step, names) for step in reversed(chain)]
            path = tuple(step for i, step in enumerate(real) if i == 0 or step != real[i - 1])
        found.update(dict.fromkeys(switch.nodes, path))
    return found


def _real(switch: str, names: set[str]) -> str:
    """The switch that a filler stands for."""
    match = _FILLER.fullmatch(switch)
    return match[1] if match and match[1] in names else switch


def _answers(state: State, nodes: Sequence[str]) -> dict[str, Position]:
    """Positions that nodes reported although no topology used them (a flat partition): of the fullest id space."""
    spaces: dict[str, dict[str, Position]] = {}
    sources = [*SOURCES, *(f"{LAST_KNOWN}{space}" for space in dict.fromkeys(SPACES.values()))]
    for source in sources:
        for node in nodes:
            found = state.inventory.nodes[node].answers.get(source) if node in state.inventory.nodes else None
            if found:
                spaces.setdefault(space_of(source), {}).setdefault(node, found)
    return max(spaces.values(), key=len, default={})
