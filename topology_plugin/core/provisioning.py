"""provisioning_parameters.json: which group is what, and which groups make which partition (file-driven clusters)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from topology_plugin.core.issues import Issue
from topology_plugin.core.json_document import json_object, printable, shown

FILE = "provisioning_parameters.json"


@dataclass(frozen=True)
class WorkerGroup:
    """An instance group and the partitions its entries name, in the file's order (it may have several)."""

    group: str
    partitions: tuple[str, ...]


@dataclass(frozen=True)
class ProvisioningParameters:
    """`topology`: the settings under that key, unchecked (core.settings checks them). `entries`: (position in the file,
    group) for every group that is named: what `unknown_groups` checks."""

    controller_group: str | None = None
    login_group: str | None = None
    worker_groups: tuple[WorkerGroup, ...] = ()
    topology: Mapping[str, Any] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    entries: tuple[tuple[str, str], ...] = ()

    def partitions(self, group: str) -> tuple[str, ...] | None:
        """The partitions worker_groups names for a group; None: it names none."""
        return next((worker.partitions for worker in self.worker_groups if worker.group == group), None)


def parse(text: str | bytes, file: str = FILE) -> ProvisioningParameters:
    """Reads the file; what is wrong in parts of it goes to `issues`. Raises InputError where it is no JSON object."""
    data = json_object(text, file)
    issues: list[Issue] = []
    entries: list[tuple[str, str]] = []

    def name(key: str, value: object) -> str | None:
        if printable(value):
            entries.append((f"{file}: {key}", str(value)))
            return str(value)
        issues.append(Issue(f"{file}: {key}", f"{shown(value)} is not a name"))
        return None

    def optional(key: str) -> str | None:
        value = data.get(key)
        return None if value is None or value == "" else name(key, value)

    controller, login = optional("controller_group"), optional("login_group")
    manager = data.get("workload_manager")
    if manager is not None and manager != "slurm":
        issues.append(Issue(f"{file}: workload_manager", f'is {shown(manager)}, not "slurm"'))
    workers: dict[str, list[str]] = {}
    listed = data.get("worker_groups")
    if listed is not None and not isinstance(listed, list):
        issues.append(
            Issue(
                f"{file}: worker_groups",
                f"is {_kind(listed)}, not a list of groups",
                'write [{"instance_group_name": "…", "partition_name": "…"}, …]',
            )
        )
        listed = None
    for number, entry in enumerate(listed or ()):
        where = f"worker_groups[{number}]"
        if not isinstance(entry, dict):
            issues.append(Issue(f"{file}: {where}", f"is {_kind(entry)}, not an object"))
            continue
        group = name(f"{where}.instance_group_name", entry.get("instance_group_name"))
        partition = _partition(entry.get("partition_name"))
        if partition is None:
            issues.append(
                Issue(
                    f"{file}: {where}.partition_name",
                    f"{shown(entry.get('partition_name'))} is not the name of a partition",
                    "a name without spaces, commas, equals signs and quotes",
                )
            )
        if group is not None:
            partitions = workers.setdefault(group, [])
            if partition is not None and partition not in partitions:
                partitions.append(partition)
    topology = data.get("topology", {})
    if not isinstance(topology, dict):
        issues.append(Issue(f"{file}: topology", f"is {_kind(topology)}, not an object with settings"))
        topology = {}
    return ProvisioningParameters(
        controller,
        login,
        tuple(WorkerGroup(group, tuple(partitions)) for group, partitions in workers.items()),
        topology,
        tuple(issues),
        tuple(entries),
    )


def unknown_groups(parameters: ProvisioningParameters, known: Iterable[str]) -> tuple[Issue, ...]:
    """An issue for every named group that the cluster does not have. Names are compared exactly, as HyperPod does."""
    names = sorted(set(known))
    issues = []
    for where, group in parameters.entries:
        if group in names:
            continue
        near = next((n for n in names if n.strip().lower() == group.strip().lower()), None)
        issues.append(
            Issue(
                where,
                f"there is no instance group {shown(group)}; known are {', '.join(names) or 'none'}",
                f"write {near!r}, exactly so" if near else "",
            )
        )
    return tuple(issues)


def _partition(value: object) -> str | None:
    """Slurm splits PartitionName at commas and blanks; dots are fine (`ml.p5.48xlarge`)."""
    text = value if isinstance(value, str) and printable(value) else ""
    return text if text and not any(c in " ,=\"'#\\" for c in text) else None


def _kind(value: object) -> str:
    names = {dict: "an object", list: "a list", str: "text", bool: "true or false", int: "a number", float: "a number"}
    return names.get(type(value), "null")
