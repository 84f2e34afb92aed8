"""resource_config.json: instance groups and instances, in every form it has been seen (docs, samples, field notes)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from topology_plugin.core import labels
from topology_plugin.core.inventory import Role
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.json_document import MAX_TEXT, json_object, printable, shown
from topology_plugin.core.position import Position

FILE = "resource_config.json"
INSTANCE_ID = re.compile(r"i-[0-9a-z]{1,40}\Z")
CLUSTER_ARN = re.compile(r"arn:[A-Za-z0-9-]+:sagemaker:[A-Za-z0-9:-]*:cluster/[A-Za-z0-9][A-Za-z0-9-]*\Z")
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
IPV4 = re.compile(rf"(?:{_BYTE}\.){{3}}{_BYTE}\Z")
ROLES: dict[str, Role] = {"controller": "controller", "login": "login", "compute": "compute"}


@dataclass(frozen=True, slots=True)
class Instance:
    """One machine as the file tells it; None: not told, or told in a way that cannot be used (then there is an issue).

    `position` None with `label_issue` "": no network data.
    """

    instance_id: str | None
    instance_name: str | None
    customer_address: str | None
    agent_address: str | None
    position: Position | None = None
    label_issue: str = ""


@dataclass(frozen=True)
class InstanceGroup:
    """`role` and `partitions` only where the group carries a SlurmConfig (API-driven clusters), else None."""

    name: str
    instance_type: str | None
    instances: tuple[Instance, ...]
    role: Role | None = None
    partitions: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ResourceConfig:
    """`issues`: everything that could not be used; what could be is here all the same."""

    cluster_arn: str | None
    cluster_name: str | None
    groups: tuple[InstanceGroup, ...]
    controller_addresses: tuple[str, ...] = ()
    issues: tuple[Issue, ...] = ()

    def instances(self) -> Iterator[tuple[InstanceGroup, Instance]]:
        for group in self.groups:
            for instance in group.instances:
                yield group, instance

    def by_id(self, instance_id: str) -> tuple[InstanceGroup, Instance] | None:
        return next((found for found in self.instances() if found[1].instance_id == instance_id), None)

    def by_customer_address(self, address: str) -> tuple[InstanceGroup, Instance] | None:
        """Only CustomerIpAddress names a machine; the agent's address never does (it is not unique: field)."""
        return next((found for found in self.instances() if found[1].customer_address == address), None)


def parse(text: str | bytes, file: str = "") -> ResourceConfig:
    """Reads the file. `file` is put before every position in messages. Raises InputError if nothing of it can be used:
    no JSON object, a Kubernetes cluster, no list of instance groups."""
    data = json_object(text, file or FILE)
    reader = _Reader(f"{file}: " if file else "")
    nested = data.get("ClusterConfig")
    cluster = nested if isinstance(nested, dict) else {}
    if nested is not None and not isinstance(nested, dict):
        reader.issue("ClusterConfig", f"is {shown(nested)}, not an object")

    def either(key: str) -> Any:
        """Some keys are seen inside ClusterConfig and at the top level."""
        return cluster[key] if cluster.get(key) is not None else data.get(key)

    kind = either("ClusterType")
    if isinstance(kind, str) and kind.strip().lower() in ("kubernetes", "eks"):
        raise InputError(
            Issue(
                reader.prefix + "ClusterType",
                f"this is a {kind.strip()} cluster; topologies are for Slurm clusters only",
                "use this bundle on a HyperPod cluster orchestrated by Slurm",
            )
        )
    if kind is not None and not (isinstance(kind, str) and kind.strip().lower() == "slurm"):
        reader.issue("ClusterType", f"is {shown(kind)}, read as Slurm")
    groups = data.get("InstanceGroups")
    if not isinstance(groups, list):
        what = "is missing" if groups is None else f"is {shown(groups)}, not a list"
        raise InputError(
            Issue(reader.prefix + "InstanceGroups", what, "the file is incomplete; HyperPod's agent writes it anew")
        )
    return ResourceConfig(
        reader.arn(either("ClusterArn")),
        reader.text("ClusterName", either("ClusterName")),
        reader.groups(groups),
        reader.controllers(either("SlurmConfig")),
        tuple(reader.issues),
    )


class _Reader:
    """Turns JSON values into the model and collects issues on the way."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.issues: list[Issue] = []
        self._positions: dict[tuple[object, ...], Position | None] = {}
        self._ids: dict[str, str] = {}
        self._addresses: dict[str, str] = {}

    def issue(self, where: str, what: str, remedy: str = "") -> None:
        self.issues.append(Issue(self.prefix + where, what, remedy))

    def text(self, where: str, value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, str) and printable(value):
            return value
        self.issue(where, "is empty" if value == "" else f"{shown(value)} cannot be used here: not short plain text")
        return None

    def arn(self, value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, str) and len(value) <= MAX_TEXT and CLUSTER_ARN.match(value):
            return value
        self.issue("ClusterConfig.ClusterArn", f"{shown(value)} is not the ARN of a SageMaker cluster")
        return None

    def controllers(self, value: object) -> tuple[str, ...]:
        if not isinstance(value, Mapping):
            if value is not None:
                self.issue("SlurmConfig", f"is {shown(value)}, not an object")
            return ()
        found = [self.address("SlurmConfig.PrimaryControllerIp", value.get("PrimaryControllerIp"))]
        others = value.get("SecondaryControllerIps")
        if isinstance(others, list):
            found += [self.address(f"SlurmConfig.SecondaryControllerIps[{n}]", a) for n, a in enumerate(others)]
        elif others is not None:
            self.issue("SlurmConfig.SecondaryControllerIps", f"is {shown(others)}, not a list")
        return tuple(dict.fromkeys(address for address in found if address))

    def address(self, where: str, value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, str):
            if IPV4.match(value):
                if not value.startswith("127."):
                    return value
                self.issue(where, f"{value} is a loopback address, which names no machine")
                return None
            if ":" in value:
                import ipaddress

                try:
                    parsed = ipaddress.IPv6Address(value)
                except ValueError:
                    pass
                else:
                    return None if parsed.is_loopback else str(parsed)
        self.issue(where, "is empty" if value == "" else f"{shown(value)} is not an IP address")
        return None

    def groups(self, values: list[object]) -> tuple[InstanceGroup, ...]:
        found: dict[str, InstanceGroup] = {}
        for number, value in enumerate(values):
            where = f"InstanceGroups[{number}]"
            if not isinstance(value, Mapping):
                self.issue(where, f"is {shown(value)}, not an object")
                continue
            group = self.group(where, value)
            known = found.get(group.name)
            if known is not None:
                self.issue(f"{where}.Name", f"a second group is called {group.name}; read as one")
                group = InstanceGroup(
                    known.name,
                    known.instance_type or group.instance_type,
                    known.instances + group.instances,
                    known.role or group.role,
                    known.partitions if group.partitions is None else group.partitions,
                )
            found[group.name] = group
        return tuple(found.values())

    def group(self, where: str, value: Mapping[str, Any]) -> InstanceGroup:
        raw = value.get("Name", value.get("InstanceGroupName"))
        if raw is None:
            self.issue(f"{where}.Name", "is missing")
        # Its machines exist all the same: no name is no reason to lose them.
        name = self.text(f"{where}.Name", raw) or where
        role, partitions = self.slurm_config(f"{where}.SlurmConfig", value.get("SlurmConfig"))
        return InstanceGroup(
            name,
            self.text(f"{where}.InstanceType", value.get("InstanceType")),
            self.instances(f"{where}.Instances", value.get("Instances")),
            role,
            partitions,
        )

    def slurm_config(self, where: str, value: object) -> tuple[Role | None, tuple[str, ...] | None]:
        if value is None:
            return None, None
        if not isinstance(value, Mapping):
            self.issue(where, f"is {shown(value)}, not an object")
            return None, None
        kind = value.get("NodeType")
        role = ROLES.get(kind.lower()) if isinstance(kind, str) else None
        if kind is not None and role is None:
            self.issue(f"{where}.NodeType", f"{shown(kind)} is none of Controller, Login, Compute")
        names = value.get("PartitionNames")
        if names is None:
            return role, ()
        if not isinstance(names, list):
            self.issue(f"{where}.PartitionNames", f"is {shown(names)}, not a list")
            return role, None
        partitions = [self.text(f"{where}.PartitionNames[{n}]", name) for n, name in enumerate(names)]
        return role, tuple(dict.fromkeys(p for p in partitions if p))

    def instances(self, where: str, values: object) -> tuple[Instance, ...]:
        """Missing, null and [] are a group without machines (field: the stock script died of it)."""
        if values is None:
            return ()
        if not isinstance(values, list):
            self.issue(where, f"is {shown(values)}, not a list")
            return ()
        found = []
        for number, value in enumerate(values):
            if isinstance(value, dict):
                found.append(self.instance(where, number, value))
            else:
                self.issue(f"{where}[{number}]", f"is {shown(value)}, not an object")
        return tuple(found)

    def instance(self, where: str, number: int, value: dict[str, Any]) -> Instance:
        """Runs for 16,384 instances in a pass: plain cases first, positions in messages made only when needed."""
        identity, name = value.get("InstanceId"), value.get("InstanceName")
        address, agent = value.get("CustomerIpAddress"), value.get("AgentIpAddress")
        if not (isinstance(identity, str) and INSTANCE_ID.match(identity)):
            what = "is missing" if identity is None else f"{shown(identity)} is not an instance id"
            self.issue(f"{where}[{number}].InstanceId", what)
            identity = None
        elif identity in self._ids:
            self.issue(f"{where}[{number}].InstanceId", f"{identity} stands here and in {self._ids[identity]}")
        else:
            self._ids[identity] = where
        if address is not None and not (type(address) is str and IPV4.match(address) and address[:4] != "127."):
            address = self.address(f"{where}[{number}].CustomerIpAddress", address)
        if agent is not None and not (type(agent) is str and IPV4.match(agent) and agent[:4] != "127."):
            agent = self.address(f"{where}[{number}].AgentIpAddress", agent)
        if name is not None and not (type(name) is str and 0 < len(name) <= MAX_TEXT and name.isprintable()):
            name = self.text(f"{where}[{number}].InstanceName", name)
        if address is not None:
            if address in self._addresses:
                self.issue(
                    f"{where}[{number}].CustomerIpAddress",
                    f"{address} stands here and in {self._addresses[address]}",
                    "a replacement is under way, or the file is wrong",
                )
            else:
                self._addresses[address] = where
        label = value.get("InstanceLabel")
        if label is None:
            return Instance(identity, name, address, agent)
        try:
            position = self.position(label)
        except labels.LabelError as error:
            self.issue(f"{where}[{number}].InstanceLabel", str(error))
            return Instance(identity, name, address, agent, None, str(error))
        return Instance(identity, name, address, agent, position)

    def position(self, label: object) -> Position | None:
        """Neighbours share most of a label, many share all of it: each distinct one is read once."""
        if type(label) is not dict:
            return labels.parse(label)
        try:
            key = (*label, *label.values())
            return self._positions[key]
        except KeyError:
            position = self._positions[key] = labels.parse(label)
            return position
        except TypeError:  # a value that is no text
            return labels.parse(label)
