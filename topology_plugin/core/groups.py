"""Instance groups: their role, their partitions and the type of their UltraServers, by whoever says so."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace

from topology_plugin.core.decision import Identity, Memory
from topology_plugin.core.inventory import Group, Role
from topology_plugin.core.provisioning import ProvisioningParameters
from topology_plugin.core.sources import ApiGroup, Sources


def roles_told(sources: Sources) -> bool:
    """Whether anybody says now which groups are the controller and the login nodes."""
    listed = sources.config is not None and any(group.role for group in sources.config.groups)
    parameters = sources.provisioning
    named = parameters is not None and (parameters.controller_group or parameters.login_group)
    return bool(listed or sources.api_groups or named)


def groups_of(sources: Sources, memory: Memory, identities: Mapping[str, Identity]) -> tuple[dict[str, Group], bool]:
    """Groups of the resource_config (else as last known), with their role and partitions from whoever says so (else as
    last known, as is the type of their UltraServers); and whether it is known who is the controller and who is not."""
    plain: dict[str, Group] = {}
    known = roles_told(sources)
    silent = not known and sources.provisioning is None
    for given in sources.config.groups if sources.config else ():
        group = Group(given.name, given.instance_type, given.role or "unknown", given.partitions or ())
        before = memory.groups.get(given.name)
        if before is not None and before.instance_type == given.instance_type:
            group = replace(group, ultraserver_type=before.ultraserver_type)
            if silent:
                group = replace(group, role=before.role, partitions=before.partitions)
        plain[given.name] = group
    if sources.config is None:
        plain.update(memory.groups)
    for identity in identities.values():
        if identity.group and identity.group not in plain:
            plain[identity.group] = Group(identity.group, identity.instance_type)
    parameters = sources.provisioning
    known = known or any(group.role != "unknown" for group in plain.values())
    result: dict[str, Group] = {}
    ultraservers = _ultraserver_types(identities, sources)
    for name, group in plain.items():
        api = sources.api_groups.get(name, ApiGroup())
        named = (parameters.partitions(name) if parameters else None) or ()
        partitions = tuple(dict.fromkeys((*group.partitions, *api.partitions, *named)))
        role = _role(name, group, api, parameters, bool(named))
        result[name] = replace(
            group,
            role=role,
            partitions=partitions,
            ultraserver_type=ultraservers.get(name) or group.ultraserver_type,
        )
    return result, known


def _role(name: str, group: Group, api: ApiGroup, parameters: ProvisioningParameters | None, worker: bool) -> Role:
    if api.role:
        return api.role
    if group.role != "unknown":
        return group.role
    if worker:
        return "compute"
    if parameters and name == parameters.controller_group:
        return "controller"
    if parameters and name == parameters.login_group:
        return "login"
    return "unknown"


def _ultraserver_types(identities: Mapping[str, Identity], sources: Sources) -> dict[str, str]:
    """Group → the type of its UltraServers, where they are of one."""
    types: dict[str, set[str]] = defaultdict(set)
    for told in (api.ultraserver_types for api in sources.answers.values() if api.ultraserver_types):
        for identity in identities.values():
            if identity.group and identity.instance_id in told:
                types[identity.group].add(told[identity.instance_id])
    return {group: seen.pop() for group, seen in types.items() if len(seen) == 1}
