"""The cluster as a pass sees it: Slurm's nodes with the instances behind them, groups and partitions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from topology_plugin.core.issues import Issue
from topology_plugin.core.position import Position

Role = Literal["compute", "controller", "login", "unknown"]


@dataclass(frozen=True, slots=True)
class Node:
    """A Slurm node and what is known of the instance behind it (None: unknown).

    `answers`: source → position, only sources that gave one; `silent`: source → why it gave none. Nodes of which the
    sources say the same share both (see Inventory.alike).
    """

    name: str
    instance_id: str | None = None
    instance_name: str | None = None
    group: str | None = None
    instance_type: str | None = None
    zone: str | None = None
    answers: Mapping[str, Position] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    addresses: tuple[str, ...] = ()
    dynamic: bool = False


@dataclass(frozen=True)
class Group:
    """An instance group. `partitions`: named for it by worker_groups or the API. Counts for kinds also at zero size."""

    name: str
    instance_type: str | None
    role: Role = "unknown"
    partitions: tuple[str, ...] = ()
    ultraserver_type: str | None = None


@dataclass(frozen=True)
class Partition:
    """`nodes` in slurm.conf's order; `all_nodes`: declared with `Nodes=ALL`; `word`: its `Topology=` in slurm.conf."""

    name: str
    nodes: tuple[str, ...]
    all_nodes: bool = False
    word: str | None = None


@dataclass(frozen=True)
class Inventory:
    """`issues`: what did not fit together (instances behind no node, nodes behind no instance, two for one)."""

    nodes: Mapping[str, Node]
    groups: Mapping[str, Group]
    partitions: Mapping[str, Partition]
    issues: tuple[Issue, ...] = ()
    roles_known: bool = False

    @cached_property
    def alike(self) -> Sequence[Sequence[Node]]:
        """The nodes, together those that differ only in who they are: what they have in common is worked out once for
        all of them, a leaf at a time. (Equal answers in mappings of their own are taken for different ones.)"""
        found: dict[tuple[object, ...], list[Node]] = {}
        for node in self.nodes.values():
            behind = node.group, node.instance_type, node.zone, node.instance_id is None
            found.setdefault((behind, id(node.answers), id(node.silent)), []).append(node)
        return tuple(found.values())
