"""Nodes, groups and partitions to JSON and back; what many nodes have in common stands once and is one object again."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.issues import Issue
from topology_plugin.core.position import Position

T = TypeVar("T")
Json = dict[str, Any]


class Positions:
    """Each position once, in the order of their numbers. Equal ones are one object again when read."""

    def __init__(self, rows: Iterable[Any] = ()) -> None:
        self._all = [Position(tuple(path), ultraserver) for path, ultraserver in rows]
        self._numbers = {position: number for number, position in enumerate(self._all)}
        # Hashing a position costs more than all the rest, so each object is looked up once. It is kept with its number:
        # an identity is only one while the object lives.
        self._seen: dict[int, tuple[Position, int]] = {}

    def number(self, position: Position) -> int:
        seen = self._seen.get(id(position))
        if seen is None:
            number = self._numbers.setdefault(position, len(self._all))
            if number == len(self._all):
                self._all.append(position)
            seen = self._seen[id(position)] = (position, number)
        return seen[1]

    def __getitem__(self, number: int) -> Position:
        return self._all[number]

    def rows(self) -> list[Any]:
        return [[list(position.path), position.ultraserver] for position in self._all]


def made(kind: Callable[..., T], data: Mapping[str, Any], **more: Any) -> T:
    """A dataclass from those keys that it knows; lists become tuples."""
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known}
    return kind(**{**plain, **more})


def dump_inventory(inventory: Inventory, positions: Positions) -> Json:
    return {
        **_dump_nodes(inventory.nodes, positions),
        "groups": {name: dump_group(group) for name, group in inventory.groups.items()},
        "partitions": {
            name: {"nodes": list(p.nodes), "all_nodes": p.all_nodes, "word": p.word}
            for name, p in inventory.partitions.items()
        },
        "issues": [asdict(issue) for issue in inventory.issues],
        "roles_known": inventory.roles_known,
    }


def load_inventory(data: Mapping[str, Any], positions: Positions) -> Inventory:
    return Inventory(
        _load_nodes(data, positions),
        {name: made(Group, group, name=name) for name, group in data["groups"].items()},
        {name: made(Partition, p, name=name) for name, p in data["partitions"].items()},
        tuple(made(Issue, issue) for issue in data.get("issues", ())),
        bool(data.get("roles_known", False)),
    )


def _dump_nodes(nodes: Mapping[str, Node], positions: Positions) -> Json:
    """`nodes`: name → place in `common`, instance id, instance name, addresses."""
    places: dict[tuple[object, ...], int] = {}
    common: list[Json] = []
    rows: dict[str, list[object]] = {}
    for name, node in nodes.items():
        key = node.group, node.instance_type, node.zone, id(node.answers), id(node.silent), node.dynamic
        place = places.setdefault(key, len(common))
        if place == len(common):
            common.append(_dump_common(node, positions))
        rows[name] = [place, node.instance_id, node.instance_name, *node.addresses]
    return {"common": common, "nodes": rows}


def _load_nodes(data: Mapping[str, Any], positions: Positions) -> dict[str, Node]:
    common = [_load_common(told, positions) for told in data["common"]]
    nodes: dict[str, Node] = {}
    for name, (place, instance_id, instance_name, *addresses) in data["nodes"].items():
        group, instance_type, zone, answers, silent, dynamic = common[place]
        told = (group, instance_type, zone, answers, silent, tuple(addresses), dynamic)
        nodes[name] = Node(name, instance_id, instance_name, *told)
    return nodes


def _dump_common(node: Node, positions: Positions) -> Json:
    """What a node has in common with others; what it has not is left out."""
    found: Json = {
        "group": node.group,
        "instance_type": node.instance_type,
        "answers": {source: positions.number(p) for source, p in node.answers.items()},
    }
    if node.silent:
        found["silent"] = dict(node.silent)
    if node.zone is not None:
        found["zone"] = node.zone
    if node.dynamic:
        found["dynamic"] = True
    return found


def _load_common(
    data: Mapping[str, Any], positions: Positions
) -> tuple[str | None, str | None, str | None, Mapping[str, Position], Mapping[str, str], bool]:
    return (
        data.get("group"),
        data.get("instance_type"),
        data.get("zone"),
        {source: positions[number] for source, number in data.get("answers", {}).items()},
        data.get("silent", {}),
        bool(data.get("dynamic", False)),
    )


def dump_group(group: Group) -> Json:
    found = asdict(group)
    del found["name"]
    return {**found, "partitions": list(group.partitions)}
