"""The cluster as a pass sees it: Slurm's nodes with the instances behind them, groups and partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from topology_plugin.core.issues import Issue
from topology_plugin.core.position import Position

Role = Literal["compute", "controller", "login", "unknown"]


@dataclass(frozen=True, slots=True)
class Node:
    """A Slurm node and what is known of the instance behind it (None: unknown).

    `answers`: source → position, only sources that gave one; `silent`: source → why it gave none. Nodes of which the
    sources say the same share both, so that what follows from it is worked out once for all of them (by `id`).
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
