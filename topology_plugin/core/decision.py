"""What a merge decided, with every reason: the configuration, and why each partition and node is as it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topology_plugin.core.inventory import Group
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Configuration, Kind


@dataclass(frozen=True)
class PartitionDecision:
    """`kind` as put in force, `topology` its name, `word` what slurm.conf is to say (None: nothing), `rule` why."""

    kind: Kind
    topology: str
    word: str | None
    rule: str


@dataclass(frozen=True)
class Placement:
    """The nodes of one topology. `space`: the id space that won (see position.SPACES); `placed`: node → position in it,
    `source`: node → which source said so; `unplaced`: node → why; `notes`: sentences for the operator."""

    space: str | None
    placed: Mapping[str, Position] = field(default_factory=dict)
    source: Mapping[str, str] = field(default_factory=dict)
    unplaced: Mapping[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


class Identity(NamedTuple):
    """The instance behind a node, as far as it is known."""

    instance_id: str
    instance_name: str | None = None
    group: str | None = None
    instance_type: str | None = None
    zone: str | None = None


@dataclass(frozen=True)
class Memory:
    """What later passes must still know. Plain JSON values only; `{}` is a fresh start.

    `spaces`: topology → id space chosen last; `types`: instance type → "tree"|"block" seen with network data;
    `block_nodes`: most nodes ever seen in one UltraServer; `orders`: topology → block names of the last generation
    (several sizes only); `positions`: instance id → id space → {"path": [...], "ultraserver": str|None};
    `identities` and `groups`: nodes with their instances, and instance groups, as last read from a usable
    resource_config (an unreadable or empty one is no data, not "no nodes").
    """

    spaces: Mapping[str, str] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    block_nodes: int = 0
    orders: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    positions: Mapping[str, Mapping[str, Position]] = field(default_factory=dict)
    identities: Mapping[str, Identity] = field(default_factory=dict)
    groups: Mapping[str, Group] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    configuration: Configuration
    default_rule: str
    partitions: Mapping[str, PartitionDecision]
    placements: Mapping[str, Placement]
    notes: tuple[str, ...] = ()
    memory: Memory = field(default_factory=Memory)
