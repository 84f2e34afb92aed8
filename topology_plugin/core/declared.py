"""A topology as a text or a model declares it, before anyone knows whether Slurm takes it: what the rules look at."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Literal, TypeAlias

from topology_plugin.core.topology import Blocks, Configuration, Tree

DeclaredKind: TypeAlias = Literal["tree", "block", "flat", "ring", "torus3d"]


@dataclass(frozen=True, slots=True)
class Unit:
    """A switch or block. None: not stated; (): stated, and empty. `name` None: none given. `readable` False: its lists
    can't be judged, and a finding says why."""

    name: str | None
    nodes: tuple[str, ...] | None = None
    children: tuple[str, ...] | None = None
    readable: bool = True

    @property
    def leaf(self) -> bool:
        """Slurm asks for nodes first; a switch with neither is an empty leaf (src: switch_record.c)."""
        return self.nodes is not None or self.children is None


@dataclass(frozen=True)
class Declared:
    """`kind` None: none that can be judged. `sizes` None: not stated. `where`: for messages."""

    where: str
    name: str
    kind: DeclaredKind | None
    default: bool
    units: tuple[Unit, ...] = ()
    sizes: tuple[int, ...] | None = None

    def nodes(self) -> Iterator[str]:
        return chain.from_iterable(unit.nodes for unit in self.units if unit.nodes)

    @cached_property
    def holds(self) -> frozenset[str]:
        """Its nodes, for looking them up."""
        return frozenset(self.nodes())


def declared(configuration: Configuration) -> tuple[Declared, ...]:
    """A model as what its text will declare."""
    result = []
    for topology in configuration.topologies:
        body = topology.body
        units: tuple[Unit, ...] = ()
        sizes: tuple[int, ...] | None = None
        if isinstance(body, Tree):
            units = tuple(Unit(s.name, s.nodes or None, s.children or None) for s in body.switches)
        elif isinstance(body, Blocks):
            units = tuple(Unit(b.name, b.nodes or None) for b in body.blocks)
            sizes = body.sizes
        where = f"topology {topology.name}"
        result.append(Declared(where, topology.name, topology.kind, topology.default, units, sizes))
    return tuple(result)
