"""resource_config.json: instance groups and instances, in every form it has been seen (docs, samples, field notes)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from topology_plugin.core.instances import INSTANCE_ID, IPV4, Findings, Instance, Machines
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.json_document import MAX_TEXT, json_object, shown

if TYPE_CHECKING:  # `register` must start fast, and needs no inventory
    from topology_plugin.core.inventory import Role

FILE = "resource_config.json"
CLUSTER_ARN = re.compile(r"arn:[A-Za-z0-9-]+:sagemaker:[A-Za-z0-9:-]*:cluster/[A-Za-z0-9][A-Za-z0-9-]*\Z")
ROLES: dict[str, Role] = {"controller": "controller", "login": "login", "compute": "compute"}


class WrongOrchestrator(InputError):
    """A cluster that is none of Slurm's: whatever is remembered of it, nothing here is for it."""


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


def parse(text: str | bytes, file: str = "") -> ResourceConfig:
    """Reads the file. `file` is put before every position in messages. Raises InputError if nothing of it can be used:
    no JSON object, no list of instance groups; WrongOrchestrator for a Kubernetes cluster."""
    data = json_object(text, file or FILE)
    reader = _Reader(Findings(f"{file}: " if file else ""))
    nested = data.get("ClusterConfig")
    cluster = nested if isinstance(nested, dict) else {}
    if nested is not None and not isinstance(nested, dict):
        reader.findings.issue("ClusterConfig", f"is {shown(nested)}, not an object")

    def either(key: str) -> Any:
        """Some keys are seen inside ClusterConfig and at the top level."""
        return cluster[key] if cluster.get(key) is not None else data.get(key)

    reader.cluster_type(either("ClusterType"))
    groups = data.get("InstanceGroups")
    if not isinstance(groups, list):
        what = "is missing" if groups is None else f"is {shown(groups)}, not a list"
        where = reader.findings.prefix + "InstanceGroups"
        raise InputError(Issue(where, what, "the file is incomplete; HyperPod's agent writes it anew"))
    return ResourceConfig(
        reader.arn(either("ClusterArn")),
        reader.findings.text("ClusterConfig.ClusterName", either("ClusterName")),
        reader.groups(groups),
        reader.controllers(either("SlurmConfig")),
        tuple(reader.findings.issues),
    )


class _Reader:
    """Turns JSON values into the model and collects issues on the way."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self.machines = Machines(findings)

    def cluster_type(self, value: object) -> None:
        kind = value.strip() if isinstance(value, str) else ""
        if kind.lower() in ("kubernetes", "eks"):
            raise WrongOrchestrator(
                Issue(
                    self.findings.prefix + "ClusterType",
                    f"this is a {kind} cluster; topologies are for Slurm clusters only, and nothing was changed",
                    "use this on a HyperPod cluster orchestrated by Slurm",
                )
            )
        if value is not None and kind.lower() != "slurm":
            self.findings.issue("ClusterType", f"is {shown(value)}; read as Slurm")

    def arn(self, value: object) -> str | None:
        """The last part of the ARN becomes a directory's name: nothing but an ARN's own characters."""
        if value is None:
            return None
        if isinstance(value, str) and len(value) <= MAX_TEXT and CLUSTER_ARN.match(value):
            return value
        self.findings.issue("ClusterConfig.ClusterArn", f"{shown(value)} is not the ARN of a SageMaker cluster")
        return None

    def controllers(self, value: object) -> tuple[str, ...]:
        if value is None:
            return ()
        if not isinstance(value, Mapping):
            self.findings.issue("SlurmConfig", f"is {shown(value)}, not an object")
            return ()
        found = [self.findings.address("SlurmConfig.PrimaryControllerIp", value.get("PrimaryControllerIp"))]
        others = value.get("SecondaryControllerIps")
        where = "SlurmConfig.SecondaryControllerIps"
        if isinstance(others, list):
            found += [self.findings.address(f"{where}[{n}]", address) for n, address in enumerate(others)]
        elif others is not None:
            self.findings.issue(where, f"is {shown(others)}, not a list")
        return tuple(dict.fromkeys(address for address in found if address))

    def groups(self, values: list[object]) -> tuple[InstanceGroup, ...]:
        found: dict[str, InstanceGroup] = {}
        for number, value in enumerate(values):
            where = f"InstanceGroups[{number}]"
            if not isinstance(value, Mapping):
                self.findings.issue(where, f"is {shown(value)}, not an object")
                continue
            group = self.group(where, value)
            known = found.get(group.name)
            if known is not None:
                self.findings.issue(f"{where}.Name", f"a second group is called {group.name}; read as one")
                group = InstanceGroup(
                    known.name,
                    known.instance_type or group.instance_type,
                    known.instances + group.instances,
                    known.role or group.role,
                    group.partitions if known.partitions is None else known.partitions,
                )
            found[group.name] = group
        return tuple(found.values())

    def group(self, where: str, value: Mapping[str, Any]) -> InstanceGroup:
        raw = value.get("Name", value.get("InstanceGroupName"))
        if raw is None:
            self.findings.issue(f"{where}.Name", "is missing")
        # Its machines exist all the same: no name is no reason to lose them.
        name = self.findings.text(f"{where}.Name", raw) or where
        role, partitions = self.slurm_config(f"{where}.SlurmConfig", value.get("SlurmConfig"))
        return InstanceGroup(
            name,
            self.findings.text(f"{where}.InstanceType", value.get("InstanceType")),
            self.machines.read(f"{where}.Instances", value.get("Instances")),
            role,
            partitions,
        )

    def slurm_config(self, where: str, value: object) -> tuple[Role | None, tuple[str, ...] | None]:
        if value is None:
            return None, None
        if not isinstance(value, Mapping):
            self.findings.issue(where, f"is {shown(value)}, not an object")
            return None, None
        kind = value.get("NodeType")
        role = ROLES.get(kind.lower()) if isinstance(kind, str) else None
        if kind is not None and role is None:
            self.findings.issue(f"{where}.NodeType", f"{shown(kind)} is none of Controller, Login, Compute")
        names = value.get("PartitionNames")
        if names is None:
            return role, ()
        if not isinstance(names, list):
            self.findings.issue(f"{where}.PartitionNames", f"is {shown(names)}, not a list")
            return role, None
        partitions = [self.findings.text(f"{where}.PartitionNames[{n}]", name) for n, name in enumerate(names)]
        return role, tuple(dict.fromkeys(p for p in partitions if p))


__all__ = ["CLUSTER_ARN", "FILE", "INSTANCE_ID", "IPV4", "Instance", "InstanceGroup", "ResourceConfig", "parse"]
