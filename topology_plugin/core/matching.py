"""Which instance is behind which Slurm node, and what every source says of it: from parsed inputs to an inventory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from topology_plugin.core.decision import Identity, Memory
from topology_plugin.core.instances import IPV4, Instance
from topology_plugin.core.inventory import Group, Inventory, Node, Partition, Role
from topology_plugin.core.issues import Issue
from topology_plugin.core.position import Position
from topology_plugin.core.provisioning import ProvisioningParameters
from topology_plugin.core.records import Record
from topology_plugin.core.resource_config import InstanceGroup, ResourceConfig


@dataclass(frozen=True)
class SlurmNode:
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


def identify(nodes: Sequence[SlurmNode], sources: Sources, memory: Memory) -> tuple[dict[str, Identity], list[Issue]]:
    """node → the instance behind it now: by the controller's resource_config; else the only record with its address;
    else, where one of these two could not be read, as last known."""
    issues: list[Issue] = []
    index = _Index.of_config(sources.config)
    listed = {instance.instance_id for _, instance in sources.config.instances()} if sources.config else set()
    recorded = _Index.of_records(r for r in (sources.records or {}).values() if r.instance_id not in listed)
    blind = sources.config is None or sources.records is None
    found: dict[str, Identity] = {}
    for node in nodes:
        for known, place in ((index, "resource_config"), (recorded, "registry")):
            candidates = known.behind(node)
            if len(candidates) == 1:
                found[node.name] = candidates[0]
            elif candidates:
                ids = ", ".join(sorted(c.instance_id for c in candidates))
                issues.append(Issue(f"{place}: {node.name}", f"several instances have its address: {ids}"))
            if candidates:
                break
        if node.name not in found and blind and node.name in memory.identities:
            found[node.name] = memory.identities[node.name]
        if node.name not in found:
            issues.append(Issue(node.name, "no instance is known behind this node: it is unplaced"))
    shared: dict[str, list[str]] = defaultdict(list)
    for name, identity in found.items():
        shared[identity.instance_id].append(name)
    for instance_id, names in sorted(shared.items()):
        if len(names) > 1:
            issues.append(Issue(instance_id, f"is behind several nodes: {', '.join(names)}"))
    return found, issues


def take_stock(
    nodes: Sequence[SlurmNode],
    partitions: Iterable[Partition],
    sources: Sources,
    memory: Memory,
) -> tuple[Inventory, Memory]:
    """The inventory, and a memory that knows the identities and groups of this pass."""
    identities, issues = identify(nodes, sources, memory)
    groups, roles_known = _groups(sources, memory, identities)
    instances = {i.instance_id: i for _, i in sources.config.instances()} if sources.config else {}
    found: dict[str, Node] = {}
    for node in nodes:
        identity = identities.get(node.name)
        found[node.name] = _described(node, identity, instances, sources) if identity else _unknown(node)
    if sources.config is not None:
        behind = {identity.instance_id for identity in identities.values()}
        issues.extend(_behind_no_node(sources.config, behind, groups))
    kept = {name: replace(i, zone=found[name].zone) for name, i in identities.items()}
    memory = replace(memory, identities=dict(sorted(kept.items())), groups=dict(sorted(groups.items())))
    inventory = Inventory(found, groups, {p.name: p for p in partitions}, tuple(issues), roles_known)
    return inventory, memory


def _unknown(node: SlurmNode) -> Node:
    silent = {"resource-config": "lists no instance with this node's address"}
    return Node(node.name, silent=silent, addresses=_addresses(node), dynamic=node.dynamic)


def _addresses(node: SlurmNode) -> tuple[str, ...]:
    return tuple(a for a in dict.fromkeys((node.addr, node.hostname)) if a)


def _described(node: SlurmNode, identity: Identity, instances: Mapping[str | None, Instance], sources: Sources) -> Node:
    answers: dict[str, Position] = {}
    silent: dict[str, str] = {}
    zone = identity.zone
    instance = instances.get(identity.instance_id)
    if instance is not None and instance.position:
        answers["resource-config"] = instance.position
    elif instance is not None:
        silent["resource-config"] = instance.label_issue or "its InstanceLabel is empty"
    else:
        silent["resource-config"] = "could not be read" if sources.config is None else "does not list the instance"
    record = (sources.records or {}).get(identity.instance_id)
    if record is not None:
        zone = record.zone_id or zone
        position = record.answers.get("resource-config")
        if position:
            answers["records"] = position
        else:
            silent["records"] = record.errors.get("resource-config", "its own InstanceLabel is empty")
    else:
        silent["records"] = "the registry could not be read" if sources.records is None else "it has not registered"
    for source, api in sources.answers.items():
        zone = api.zones.get(identity.instance_id) or zone
        position = api.positions.get(identity.instance_id)
        if position:
            answers[source] = position
        else:
            silent[source] = api.silent.get(identity.instance_id) or api.problem or "knows no position"
    return Node(
        node.name,
        identity.instance_id,
        identity.instance_name,
        identity.group,
        identity.instance_type,
        zone,
        answers,
        silent,
        _addresses(node),
        node.dynamic,
    )


def _groups(sources: Sources, memory: Memory, identities: Mapping[str, Identity]) -> tuple[dict[str, Group], bool]:
    """Groups of the resource_config (else as last known), with their role and partitions from whoever says so."""
    plain: dict[str, Group] = {}
    for given in sources.config.groups if sources.config else ():
        plain[given.name] = Group(given.name, given.instance_type, given.role or "unknown", given.partitions or ())
    if sources.config is None:
        plain.update(memory.groups)
    for identity in identities.values():
        if identity.group and identity.group not in plain:
            plain[identity.group] = Group(identity.group, identity.instance_type)
    parameters = sources.provisioning
    known = any(group.role != "unknown" for group in plain.values()) or bool(sources.api_groups)
    result: dict[str, Group] = {}
    for name, group in plain.items():
        api = sources.api_groups.get(name, ApiGroup())
        named = (parameters.partitions(name) if parameters else None) or ()
        partitions = tuple(dict.fromkeys((*group.partitions, *api.partitions, *named)))
        role = _role(name, group, api, parameters, bool(named))
        result[name] = replace(
            group,
            role=role,
            partitions=partitions,
            ultraserver_type=_ultraserver_type(name, identities, sources) or group.ultraserver_type,
        )
    return result, known or bool(parameters and (parameters.controller_group or parameters.login_group))


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


def _ultraserver_type(group: str, identities: Mapping[str, Identity], sources: Sources) -> str | None:
    members = [identity.instance_id for identity in identities.values() if identity.group == group]
    types = {
        api.ultraserver_types[i] for api in sources.answers.values() for i in members if i in api.ultraserver_types
    }
    return types.pop() if len(types) == 1 else None


def _behind_no_node(config: ResourceConfig, behind: set[str], groups: Mapping[str, Group]) -> Iterable[Issue]:
    for group, instance in config.instances():
        name = group.name
        if instance.instance_id in behind or groups[name].role in ("controller", "login"):
            continue
        if instance.customer_address in config.controller_addresses:
            continue
        what = instance.instance_id or instance.instance_name or "an instance without an id"
        yield Issue(f"{name}: {what}", f"no node of slurm.conf has its address {instance.customer_address or '(none)'}")


class _Index:
    """Instances by the whole tokens that a node may carry: customer address, the name made of it, its own name."""

    def __init__(self) -> None:
        self._by: dict[str, dict[str, Identity]] = defaultdict(dict)

    @classmethod
    def of_config(cls, config: ResourceConfig | None) -> _Index:
        index = cls()
        for group, instance in config.instances() if config else ():
            index._add_instance(group, instance)
        return index

    @classmethod
    def of_records(cls, records: Iterable[Record]) -> _Index:
        index = cls()
        for r in records:
            identity = Identity(r.instance_id, r.instance_name, r.group, r.instance_type, r.zone_id)
            index._add(identity, r.customer_address)
        return index

    def _add_instance(self, group: InstanceGroup, instance: Instance) -> None:
        if instance.instance_id:
            identity = Identity(instance.instance_id, instance.instance_name, group.name, group.instance_type)
            self._add(identity, instance.customer_address)

    def _add(self, identity: Identity, address: str | None) -> None:
        self._by[f"id:{identity.instance_id}"][identity.instance_id] = identity
        if address and not address.startswith("127."):
            self._by[f"addr:{address}"][identity.instance_id] = identity
            self._by[f"name:ip-{address.replace('.', '-')}"][identity.instance_id] = identity
        if identity.instance_name:
            self._by[f"name:{identity.instance_name}"][identity.instance_id] = identity

    def behind(self, node: SlurmNode) -> list[Identity]:
        """Strongest token first: what slurmd was told, the address that Slurm uses, names. [] if none matches."""
        tokens = [f"id:{node.instance_id}"] if node.instance_id else []
        for text in dict.fromkeys((node.addr, node.name, node.hostname)):
            if IPV4.fullmatch(text):
                tokens.append(f"addr:{text}")
            elif text:
                tokens += [f"name:{text}", f"name:{text.split('.', 1)[0]}"]
        for token in tokens:
            if token in self._by:
                return list(self._by[token].values())
        return []


def present(nodes: Iterable[SlurmNode], config: ResourceConfig, records: Iterable[Record]) -> frozenset[str]:
    """Ids that resource_config lists, and of every record that may be behind a node which no listed instance is behind
    (where several may be, all count: which one it is cannot be told)."""
    listed, recorded = _Index.of_config(config), _Index.of_records(records)
    ids = {instance.instance_id for _, instance in config.instances() if instance.instance_id}
    for node in nodes:
        if not listed.behind(node):
            ids.update(identity.instance_id for identity in recorded.behind(node))
    return frozenset(ids)
