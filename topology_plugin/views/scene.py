"""A State arranged for looking at it: each topology as nested units, with what is known of its nodes and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from topology_plugin.core.consequences import refused
from topology_plugin.core.hostlists import node_order
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.job_sizes import Ranges
from topology_plugin.core.live import Live
from topology_plugin.core.names import is_unplaced
from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Configuration, Kind, Topology, Tree

Which = Literal["in force", "desired"]
Role = Literal["switch", "leaf", "block", "pad"]


@dataclass(frozen=True)
class Unit:
    """A switch with `children`, or a leaf or block with `nodes`; `pad`: an empty block that only keeps a position.

    `unplaced`: it holds nodes whose position is not known (named by us). `size`: nodes in it and below.
    """

    name: str
    role: Role
    nodes: tuple[str, ...] = ()
    children: tuple[Unit, ...] = ()
    unplaced: bool = False
    size: int = 0

    def all_nodes(self) -> Iterator[str]:
        yield from self.nodes
        for child in self.children:
            yield from child.all_nodes()

    def walk(self, depth: int = 0) -> Iterator[tuple[int, Unit]]:
        yield depth, self
        for child in self.children:
            yield from child.walk(depth + 1)


@dataclass(frozen=True)
class View:
    """One topology. `nodes`: all that it holds, a flat one those of its partitions. `sizes`: block sizes, base first.

    `refused`: partition → job sizes that it can't run although flat could. `unplaced`: node → why. `uncovered`: its
    partitions that are in no unit. `others`: how many nodes a partition filter left out.
    """

    name: str
    kind: Kind
    default: bool
    partitions: tuple[str, ...]
    units: tuple[Unit, ...] = ()
    nodes: tuple[str, ...] = ()
    sizes: tuple[int, ...] = ()
    refused: Mapping[str, Ranges] = field(default_factory=dict)
    unplaced: Mapping[str, str] = field(default_factory=dict)
    uncovered: tuple[str, ...] = ()
    others: int = 0


@dataclass(frozen=True)
class Scene:
    """`views` default first; `which` configuration it shows; `partition`: the one it is limited to."""

    state: State
    which: Which
    configuration: Configuration
    views: tuple[View, ...]
    live: Live | None = None
    partition: str | None = None

    @property
    def cluster(self) -> str:
        """The cluster's own part of its ARN."""
        return (self.state.cluster_arn or "").rsplit("/", 1)[-1] or "cluster"

    @cached_property
    def knows_idle(self) -> bool:
        """Which nodes are idle is known: Slurm was asked. (A ready Kubernetes node may be busy.)"""
        return self.live is not None and "ready" not in self.live.states.values()

    def free(self, unit: Unit) -> int | None:
        """Nodes of a unit that a job could get now; None where that is not known."""
        return self.live.free(unit.all_nodes()) if self.live is not None and self.knows_idle else None


def arrange(state: State, live: Live | None = None, *, desired: bool = False, partition: str | None = None) -> Scene:
    """The scene of what is in force (or `desired`); of one partition's topology with only its nodes if `partition`.

    Falls back to desired where nothing is known to be in force. Raises InputError for an unknown partition.
    """
    which: Which = "desired" if desired or state.in_force is None else "in force"
    configuration = state.desired if which == "desired" or state.in_force is None else state.in_force
    if partition is not None and partition not in state.inventory.partitions:
        known = ", ".join(state.inventory.partitions) or "none"
        raise InputError(
            Issue(f"partition {partition or repr(partition)}", "there is no such partition", f"known are {known}")
        )
    served = partitions_by_topology(state, configuration)
    views = [
        _view(state, configuration, topology, served.get(topology.name, ())) for topology in configuration.topologies
    ]
    if partition is not None:
        views = [_limited(view, state, partition) for view in views if partition in view.partitions]
    return Scene(state, which, configuration, tuple(views), live, partition)


def partitions_by_topology(state: State, configuration: Configuration) -> dict[str, tuple[str, ...]]:
    """Topology name → partitions that it serves, by word or as the default, in slurm.conf's order."""
    served: dict[str, list[str]] = {}
    for name in state.inventory.partitions:
        topology = configuration.of_partition(name)
        if topology is not None:
            served.setdefault(topology.name, []).append(name)
    return {name: tuple(partitions) for name, partitions in served.items()}


def _view(state: State, configuration: Configuration, topology: Topology, partitions: tuple[str, ...]) -> View:
    units = units_of(topology)
    members = list(dict.fromkeys(n for p in partitions for n in state.inventory.partitions[p].nodes))
    held = list(dict.fromkeys(topology.body.nodes()))
    holds = set(held)
    placement = state.decision.placements.get(topology.name)
    whys = placement.unplaced if placement else {}
    apart = {n for unit in units for _, u in unit.walk() if u.unplaced for n in u.nodes}
    structured = topology.kind != "flat"
    return View(
        name=topology.name,
        kind=topology.kind,
        default=topology.default,
        partitions=partitions,
        units=units,
        nodes=tuple(sorted(held if structured else members, key=node_order)),
        sizes=topology.body.sizes if isinstance(topology.body, Blocks) and state.of_slurm else (),
        refused={
            p: found
            for p in (partitions if state.of_slurm else ())
            if (found := refused(configuration, p, state.inventory.partitions[p].nodes, state.topo_optional))
        },
        unplaced={n: whys.get(n, "its position is not known") for n in sorted(apart, key=node_order)},
        uncovered=tuple(n for n in members if n not in holds) if structured else (),
    )


def units_of(topology: Topology) -> tuple[Unit, ...]:
    """Roots of a tree (a switch with two parents stands below both, as Slurm reads it), or the blocks in file order."""
    body = topology.body
    if isinstance(body, Blocks):
        return tuple(
            Unit(b.name, "block" if b.nodes else "pad", b.nodes, (), is_unplaced(b.name), len(b.nodes))
            for b in body.blocks
        )
    if not isinstance(body, Tree):
        return ()
    named = {switch.name: switch for switch in body.switches}
    made: dict[str, Unit] = {}

    def unit(name: str, above: frozenset[str]) -> Unit:
        if name not in made:
            switch = named[name]
            below = above | {name}
            children = tuple(unit(child, below) for child in switch.children if child in named and child not in below)
            size = len(switch.nodes) + sum(child.size for child in children)
            role: Role = "switch" if children else "leaf"
            made[name] = Unit(name, role, switch.nodes, children, is_unplaced(name), size)
        return made[name]

    return tuple(unit(root.name, frozenset()) for root in body.roots())


def _limited(view: View, state: State, partition: str) -> View:
    anywhere = {n for p in state.inventory.partitions.values() for n in p.nodes}
    # Nodes that slurm.conf no longer lists are still in force: they belong to whoever looks.
    members = set(state.inventory.partitions[partition].nodes) | {n for n in view.nodes if n not in anywhere}
    units = tuple(found for unit in view.units if (found := _cut(unit, members)) is not None)
    nodes = tuple(n for n in view.nodes if n in members)
    return View(
        view.name, view.kind, view.default, view.partitions, units, nodes, view.sizes,
        {name: found for name, found in view.refused.items() if name == partition},
        {n: why for n, why in view.unplaced.items() if n in members},
        tuple(n for n in view.uncovered if n in members), len(view.nodes) - len(nodes),
    )  # fmt: skip


def _cut(unit: Unit, members: set[str]) -> Unit | None:
    nodes = tuple(n for n in unit.nodes if n in members)
    children = tuple(found for child in unit.children if (found := _cut(child, members)) is not None)
    if not nodes and not children and unit.role != "pad":
        return None
    return Unit(unit.name, unit.role, nodes, children, unit.unplaced, len(nodes) + sum(c.size for c in children))
