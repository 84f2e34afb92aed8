"""Which instance is behind which Slurm node, and what every source says of it: from parsed inputs to an inventory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from topology_plugin.core.decision import Identity, Memory
from topology_plugin.core.groups import groups_of
from topology_plugin.core.instances import IPV4
from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.issues import Issue
from topology_plugin.core.position import Position
from topology_plugin.core.records import Record
from topology_plugin.core.resource_config import ResourceConfig
from topology_plugin.core.sources import UNREAD, SlurmNode, Sources


def identify(nodes: Sequence[SlurmNode], sources: Sources, memory: Memory) -> tuple[dict[str, Identity], list[Issue]]:
    """node → the instance behind it now: by the controller's resource_config, as last known where that cannot be read
    (a record may be of whom it replaced); else the only record with its address; else, where records cannot be read
    either, as last known."""
    issues: list[Issue] = []
    index = _Index.of_config(sources.config)
    listed = {instance.instance_id for _, instance in sources.config.instances()} if sources.config else set()
    recorded = _Index.of_records(r for r in (sources.records or {}).values() if r.instance_id not in listed)
    found: dict[str, Identity] = {}
    for node in nodes:
        if sources.config is None and node.name in memory.identities:
            found[node.name] = memory.identities[node.name]
            continue
        place, candidates = "resource_config", index.behind(node)
        if not candidates:
            place, candidates = "registry", recorded.behind(node)
        if len(candidates) == 1:
            found[node.name] = candidates[0]
            continue
        if candidates:
            ids = ", ".join(sorted(c.instance_id for c in candidates))
            issues.append(Issue(f"{place}: {node.name}", f"several instances have its address: {ids}"))
        if sources.records is None and node.name in memory.identities:
            found[node.name] = memory.identities[node.name]
        else:
            issues.append(Issue(node.name, "no instance is known behind this node: it is unplaced"))
    issues.extend(_shared(found))
    return found, issues


def _shared(found: Mapping[str, Identity]) -> Iterable[Issue]:
    if len({identity.instance_id for identity in found.values()}) == len(found):
        return
    names: dict[str, list[str]] = defaultdict(list)
    for name, identity in found.items():
        names[identity.instance_id].append(name)
    for instance_id in sorted(names):
        if len(names[instance_id]) > 1:
            yield Issue(instance_id, f"is behind several nodes: {', '.join(names[instance_id])}")


def take_stock(
    nodes: Sequence[SlurmNode],
    partitions: Iterable[Partition],
    sources: Sources,
    memory: Memory,
) -> tuple[Inventory, Memory]:
    """The inventory, and a memory that knows the identities and groups of this pass."""
    identities, issues = identify(nodes, sources, memory)
    identities = _with_last_zones(identities, memory)
    groups, known = groups_of(sources, memory, identities)
    told = _Told(sources)
    found: dict[str, Node] = {}
    for node in nodes:
        identity = identities.get(node.name)
        found[node.name] = _described(node, identity, told) if identity else _unknown(node)
    if sources.config is not None:
        behind = {identity.instance_id for identity in identities.values()}
        issues.extend(_behind_no_node(sources.config, behind, groups))
    kept = {n: i if i.zone == (zone := found[n].zone) else i._replace(zone=zone) for n, i in identities.items()}
    memory = replace(memory, identities=kept, groups=dict(sorted(groups.items())))
    inventory = Inventory(found, groups, {p.name: p for p in partitions}, tuple(issues), known)
    return inventory, memory


def _with_last_zones(identities: dict[str, Identity], memory: Memory) -> dict[str, Identity]:
    """An instance never changes its zone: what was heard of it once holds while nobody answers."""
    zones = {identity.instance_id: identity.zone for identity in memory.identities.values() if identity.zone}
    if not zones:
        return identities
    return {
        name: identity if identity.zone or identity.instance_id not in zones
        else identity._replace(zone=zones[identity.instance_id])
        for name, identity in identities.items()
    }  # fmt: skip


def _unknown(node: SlurmNode) -> Node:
    silent = {"resource-config": "lists no instance with this node's address"}
    return Node(node.name, silent=silent, addresses=_addresses(node), dynamic=node.dynamic)


def _addresses(node: SlurmNode) -> tuple[str, ...]:
    if node.addr == node.hostname or not node.hostname:
        return (node.addr,) if node.addr else ()
    return (node.addr, node.hostname) if node.addr else (node.hostname,)


class _Told:
    """What every source says of an instance. All of whom the same is said share it, mostly the nodes of a leaf (their
    positions are shared already)."""

    def __init__(self, sources: Sources) -> None:
        config, records = sources.config, sources.records
        self._instances = {i.instance_id: i for _, i in config.instances()} if config else {}
        self._records = records or {}
        self._apis = tuple(sources.answers.values())
        self._names = ("resource-config", "records", *sources.answers)
        self._unlisted = UNREAD if config is None else "does not list the instance"
        self._unrecorded = "the registry could not be read" if records is None else "it has not registered"
        self._shared: dict[tuple[int, ...], tuple[dict[str, Position], dict[str, str]]] = {}

    def of(self, identity: Identity) -> tuple[str | None, Mapping[str, Position], Mapping[str, str]]:
        """The zone; source → position; source → why it gives none."""
        instance_id, zone = identity.instance_id, identity.zone
        listed: Position | str = self._unlisted
        recorded: Position | str = self._unrecorded
        instance, record = self._instances.get(instance_id), self._records.get(instance_id)
        if instance is not None:
            listed = instance.position or instance.label_issue or "its InstanceLabel is empty"
        if record is not None:
            zone = record.zone_id or zone
            recorded = record.position or record.errors.get("resource-config", "its own InstanceLabel is empty")
        said = [listed, recorded]
        for api in self._apis:
            zone = api.zones.get(instance_id) or zone
            position = api.positions.get(instance_id)
            said.append(position or api.silent.get(instance_id) or api.problem or "knows no position")
        key = tuple(map(id, said))  # the sources hold these objects, so ids stay theirs
        shared = self._shared.get(key)
        if shared is None:
            answers = {name: what for name, what in zip(self._names, said, strict=True) if not isinstance(what, str)}
            silent = {name: what for name, what in zip(self._names, said, strict=True) if isinstance(what, str)}
            shared = self._shared[key] = (answers, silent)
        return zone, *shared


def _described(node: SlurmNode, identity: Identity, told: _Told) -> Node:
    instance_id, name, group, instance_type, _ = identity
    return Node(node.name, instance_id, name, group, instance_type, *told.of(identity), _addresses(node), node.dynamic)


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
        self._all: list[tuple[Identity, str | None]] = []
        self._by_address: dict[str, tuple[Identity, ...]] = {}

    @classmethod
    def of_config(cls, config: ResourceConfig | None) -> _Index:
        index = cls()
        for group, instance in config.instances() if config else ():
            if instance.instance_id:
                identity = Identity(instance.instance_id, instance.instance_name, group.name, group.instance_type)
                index._add(identity, instance.customer_address)
        return index

    @classmethod
    def of_records(cls, records: Iterable[Record]) -> _Index:
        index = cls()
        for r in records:
            identity = Identity(r.instance_id, r.instance_name, r.group, r.instance_type, r.zone_id)
            index._add(identity, r.customer_address)
        return index

    def _add(self, identity: Identity, address: str | None) -> None:
        if address and address.startswith("127."):
            address = None
        self._all.append((identity, address))
        if address:
            _put(self._by_address, address, identity)

    @cached_property
    def _by_id(self) -> dict[str, tuple[Identity, ...]]:
        """Made only if a slurmd was told its instance."""
        ids: dict[str, tuple[Identity, ...]] = {}
        for identity, _ in self._all:
            _put(ids, identity.instance_id, identity)
        return ids

    @cached_property
    def _by_name(self) -> dict[str, tuple[Identity, ...]]:
        """Made only if a node is not found by its address."""
        names: dict[str, tuple[Identity, ...]] = {}
        for identity, address in self._all:
            if address:
                _put(names, f"ip-{address.replace('.', '-')}", identity)
            if identity.instance_name:
                _put(names, identity.instance_name, identity)
        return names

    def behind(self, node: SlurmNode) -> tuple[Identity, ...]:
        """Strongest token first: what slurmd was told, the address that Slurm uses, names. () if none matches."""
        found = self._by_id.get(node.instance_id) if node.instance_id else None
        if found is not None:
            return found
        for text in (node.addr, node.name, node.hostname):
            found = self._by_address.get(text)
            if found is None and text and not IPV4.fullmatch(text):
                found = self._by_name.get(text) or self._by_name.get(text.split(".", 1)[0])
            if found is not None:
                return found
        return ()


def _put(index: dict[str, tuple[Identity, ...]], token: str, identity: Identity) -> None:
    known = index.get(token)
    if known is None:
        index[token] = (identity,)
    else:
        index[token] = (*(i for i in known if i.instance_id != identity.instance_id), identity)


def present(nodes: Iterable[SlurmNode], config: ResourceConfig, records: Iterable[Record]) -> frozenset[str]:
    """Ids that resource_config lists, and of every record that may be behind a node which no listed instance is behind
    (where several may be, all count: which one it is cannot be told)."""
    listed, recorded = _Index.of_config(config), _Index.of_records(records)
    ids = {instance.instance_id for _, instance in config.instances() if instance.instance_id}
    for node in nodes:
        if not listed.behind(node):
            ids.update(identity.instance_id for identity in recorded.behind(node))
    return frozenset(ids)
