"""Topologies as Slurm knows them, and the configuration of a whole cluster: topologies plus one word per partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["tree", "block", "flat"]
KINDS: tuple[Kind, ...] = ("tree", "block", "flat")


@dataclass(frozen=True, slots=True)
class Switch:
    """A leaf switch has `nodes`, any other has `children` (names of switches); never both."""

    name: str
    nodes: tuple[str, ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tree:
    """`switches`: leaves first, every child before its parent (above 20 levels listed top-down it dies: run)."""

    switches: tuple[Switch, ...]

    def nodes(self) -> Iterator[str]:
        return chain.from_iterable(switch.nodes for switch in self.switches)

    def roots(self) -> tuple[Switch, ...]:
        below = {child for switch in self.switches for child in switch.children}
        return tuple(switch for switch in self.switches if switch.name not in below)

    def nodes_below(self, switch: Switch) -> Iterator[str]:
        """Its nodes and those of all switches below it, each switch once: a loop must not be walked for ever."""
        left = {other.name: other for other in self.switches if other.name != switch.name}
        reached = [switch]
        for one in reached:  # grows as it is walked
            reached.extend(left.pop(child) for child in one.children if child in left)
        return chain.from_iterable(one.nodes for one in reached)


@dataclass(frozen=True, slots=True)
class Block:
    name: str
    nodes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Blocks:
    """`sizes`: base first, each later one base x 2^k, ascending; `blocks` in the order in which larger levels form."""

    sizes: tuple[int, ...]
    blocks: tuple[Block, ...]

    def nodes(self) -> Iterator[str]:
        return chain.from_iterable(block.nodes for block in self.blocks)


@dataclass(frozen=True)
class Flat:
    """No structure; holds every node implicitly."""

    def nodes(self) -> Iterator[str]:
        return iter(())


Body: TypeAlias = Tree | Blocks | Flat


@dataclass(frozen=True)
class Topology:
    name: str
    body: Body
    default: bool = False

    @property
    def kind(self) -> Kind:
        if isinstance(self.body, Tree):
            return "tree"
        return "block" if isinstance(self.body, Blocks) else "flat"


@dataclass(frozen=True)
class Configuration:
    """What slurmctld is to have loaded: `topologies` (default first, exactly one default), and each partition's
    `Topology=` word (None: no word, the cluster default holds)."""

    topologies: tuple[Topology, ...]
    words: Mapping[str, str | None] = field(default_factory=dict)

    def topology(self, name: str) -> Topology | None:
        return next((topology for topology in self.topologies if topology.name == name), None)

    @property
    def default(self) -> Topology:
        return next((topology for topology in self.topologies if topology.default), self.topologies[0])

    def of_partition(self, partition: str) -> Topology | None:
        word = self.words.get(partition)
        return self.default if word is None else self.topology(word)


FLAT_ONLY = Configuration((Topology("flat", Flat(), default=True),))
