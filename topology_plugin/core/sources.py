"""What a pass reads, parsed: the instance list, records, roles, what the APIs said, and a node as Slurm names it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from topology_plugin.core.inventory import Role
from topology_plugin.core.position import Position
from topology_plugin.core.provisioning import ProvisioningParameters
from topology_plugin.core.records import Record
from topology_plugin.core.resource_config import ResourceConfig

UNREAD = "could not be read"  # why resource_config says nothing of any instance


class SlurmNode(NamedTuple):
    """A node as slurm.conf or slurmctld names it. `instance_id`: as slurmd was told (`--instance-id`), if at all."""

    name: str
    addr: str = ""
    hostname: str = ""
    dynamic: bool = False
    instance_id: str | None = None


@dataclass(frozen=True)
class ApiAnswers:
    """What one API said of instances: id → position, zone id, UltraServer type; `silent`: id → why it said nothing;
    `pending`: ids to ask for again (throttled, or too young to be known); `problem`: why it told nothing at all."""

    positions: Mapping[str, Position] = field(default_factory=dict)
    zones: Mapping[str, str] = field(default_factory=dict)
    ultraserver_types: Mapping[str, str] = field(default_factory=dict)
    silent: Mapping[str, str] = field(default_factory=dict)
    problem: str | None = None
    pending: frozenset[str] = frozenset()


@dataclass(frozen=True)
class ApiGroup:
    """What DescribeCluster says of an instance group's place in Slurm."""

    role: Role | None = None
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class Sources:
    """Everything that was read. None: could not be read or is empty, which is no data and not "no nodes"."""

    config: ResourceConfig | None
    records: Mapping[str, Record] | None
    provisioning: ProvisioningParameters | None = None
    api_groups: Mapping[str, ApiGroup] = field(default_factory=dict)
    answers: Mapping[str, ApiAnswers] = field(default_factory=dict)
