"""Which kind of topology each partition gets: HyperPod's rules over instance groups, settings, and evidence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from topology_plugin.core.instance_types import capability
from topology_plugin.core.inventory import Group, Inventory
from topology_plugin.core.settings import Settings
from topology_plugin.core.topology import Kind

Capability = Literal["tree", "block"]


@dataclass(frozen=True)
class KindChoice:
    kind: Kind
    rule: str
    groups: tuple[str, ...] = ()


@dataclass(frozen=True)
class Kinds:
    """`evidence`: instance type → what it was seen capable of, also remembered (Memory.types)."""

    partitions: Mapping[str, KindChoice]
    default: KindChoice
    evidence: Mapping[str, str] = field(default_factory=dict)


def choose(inventory: Inventory, settings: Settings, remembered: Mapping[str, str]) -> Kinds:
    """The kind of every partition and the cluster default, before it is known whether a topology can be made."""
    evidence = _evidence(inventory, remembered)
    named = [node for p in inventory.partitions.values() if not p.all_nodes for node in p.nodes]
    in_named = _present(named, inventory)
    compute = {name for name in inventory.groups if _is_compute(name, inventory, name in in_named)}
    abilities = {name: _ability(inventory.groups[name], evidence) for name in sorted(compute)}
    partitions = {
        name: _of_partition(name, sorted(_groups_of(name, inventory) & compute), abilities, settings)
        for name in inventory.partitions
    }
    return Kinds(partitions, _default(abilities), evidence)


def _evidence(inventory: Inventory, remembered: Mapping[str, str]) -> dict[str, str]:
    """An UltraServer id proves block, network layers prove tree; once seen it stays (one late label flips nothing)."""
    evidence = dict(remembered)
    different = {(n.instance_type, n.group, id(n.answers)): n for n in inventory.nodes.values()}
    for node in different.values():
        key = node.instance_type or (f"group:{node.group}" if node.group else None)
        if key is None:
            continue
        for position in node.answers.values():
            if position.ultraserver:
                evidence[key] = "block"
            elif position.path and evidence.get(key) != "block":
                evidence[key] = "tree"
    return dict(sorted(evidence.items()))


def _ability(group: Group, evidence: Mapping[str, str]) -> Capability | None:
    """What the evidence says, else the table of instance types; None: no network data."""
    seen = evidence.get(group.instance_type or "") or evidence.get(f"group:{group.name}")
    listed = capability(group.instance_type) if group.instance_type else None
    if "block" in (seen, listed):
        return "block"
    return cast("Capability | None", seen or listed)


def _is_compute(name: str, inventory: Inventory, in_named: bool) -> bool:
    """Named for a partition, or Compute by API, or with nodes in a partition other than one with `Nodes=ALL`
    (`in_named`).

    A group that is only in `Nodes=ALL` counts unless it is the controller's or login group; where no source tells
    which those are, it does not count.
    """
    group = inventory.groups[name]
    if group.role == "compute" or group.partitions or in_named:
        return True
    return inventory.roles_known and group.role not in ("controller", "login")


def _groups_of(partition: str, inventory: Inventory) -> set[str]:
    """Groups that the partition takes in, also those scaled to zero."""
    declared = inventory.partitions[partition]
    if declared.all_nodes:
        return set(inventory.groups)
    named = {group.name for group in inventory.groups.values() if partition in group.partitions}
    return named | (_present(declared.nodes, inventory) & inventory.groups.keys())


def _present(nodes: Iterable[str], inventory: Inventory) -> set[str]:
    """Groups of these nodes."""
    return {node.group for node in map(inventory.nodes.get, nodes) if node is not None and node.group}


def _of_partition(
    name: str, groups: list[str], abilities: Mapping[str, Capability | None], settings: Settings
) -> KindChoice:
    wish = settings.partitions.get(name)
    if wish is not None and wish.kind is not None:
        return KindChoice(wish.kind, f"set: partitions.{name}.kind ({settings.origin('partitions')})", tuple(groups))
    if not groups:
        return KindChoice("flat", "no compute group is in it")
    blind = [group for group in groups if abilities[group] is None]
    if blind and len(blind) == len(groups):
        return KindChoice("flat", f"no group has network data: {_list(blind)}", tuple(groups))
    if blind:
        if settings.mixed_partitions == "tree":
            rule = f"set: mixed_partitions = tree; without network data: {_list(blind)}"
            return KindChoice("tree", rule, tuple(groups))
        return KindChoice("flat", f"groups without network data: {_list(blind)}", tuple(groups))
    if all(abilities[group] == "block" for group in groups):
        return KindChoice("block", f"every group is of UltraServers: {_list(groups)}", tuple(groups))
    return KindChoice("tree", f"every group has network data: {_list(groups)}", tuple(groups))


def _default(abilities: Mapping[str, Capability | None]) -> KindChoice:
    """HyperPod's cluster default: the only kind; tree if both; flat as soon as one group has no network data."""
    if not abilities:
        return KindChoice("flat", "no compute group is known")
    blind = [group for group, ability in abilities.items() if ability is None]
    if blind:
        return KindChoice("flat", f"groups without network data: {_list(blind)}", tuple(abilities))
    kinds = set(abilities.values())
    if kinds == {"block"}:
        return KindChoice("block", "every compute group is of UltraServers", tuple(abilities))
    rule = "every compute group has network data" + (", some are of UltraServers" if "block" in kinds else "")
    return KindChoice("tree", rule, tuple(abilities))


def _list(names: Iterable[str]) -> str:
    return ", ".join(names)
