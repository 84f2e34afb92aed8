"""What a pass decided and remembers to JSON and back; a place stands once, with all the nodes that lie there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from topology_plugin.core.decision import Decision, Identity, Memory, PartitionDecision, Placement
from topology_plugin.core.inventory import Group, Node
from topology_plugin.core.inventory_json import Positions, dump_group, made
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Block, Blocks, Body, Configuration, Flat, Switch, Topology, Tree

Json = dict[str, Any]


def dump_decision(decision: Decision, positions: Positions, nodes: Mapping[str, Node]) -> Json:
    """`nodes`: of the inventory that is written beside it."""
    return {
        "configuration": dump_configuration(decision.configuration),
        "default_rule": decision.default_rule,
        "partitions": {name: asdict(p) for name, p in decision.partitions.items()},
        "placements": {name: _dump_placement(p, positions) for name, p in decision.placements.items()},
        "notes": list(decision.notes),
        "memory": _dump_memory(decision.memory, positions, nodes),
    }


def load_decision(data: Mapping[str, Any], positions: Positions, nodes: Mapping[str, Node]) -> Decision:
    return Decision(
        load_configuration(data["configuration"]),
        data.get("default_rule", ""),
        {name: made(PartitionDecision, p) for name, p in data["partitions"].items()},
        {name: _load_placement(p, positions) for name, p in data["placements"].items()},
        tuple(data.get("notes", ())),
        _load_memory(data.get("memory", {}), positions, nodes),
    )


def _dump_placement(placement: Placement, positions: Positions) -> Json:
    """`placed`: (position, source, its nodes), as many have both in common."""
    together: dict[tuple[int, str | None], list[str]] = {}
    for node, position in placement.placed.items():
        together.setdefault((positions.number(position), placement.source.get(node)), []).append(node)
    return {
        "space": placement.space,
        "placed": [[number, source, nodes] for (number, source), nodes in together.items()],
        "unplaced": dict(placement.unplaced),
        "notes": list(placement.notes),
    }


def _load_placement(data: Mapping[str, Any], positions: Positions) -> Placement:
    placed: dict[str, Position] = {}
    source: dict[str, str] = {}
    for number, told, nodes in data["placed"]:
        placed.update(dict.fromkeys(nodes, positions[number]))
        if told is not None:
            source.update(dict.fromkeys(nodes, told))
    return Placement(data.get("space"), placed, source, data.get("unplaced", {}), tuple(data.get("notes", ())))


def _dump_memory(memory: Memory, positions: Positions, nodes: Mapping[str, Node]) -> Json:
    """The instance last known behind a node is nearly always the one that this pass found: said only where it differs
    (`identities`; null: none is remembered)."""
    others: dict[str, list[str | None] | None] = {}
    for name, i in memory.identities.items():
        if name not in nodes or _behind(nodes[name]) != i:
            others[name] = list(i)
    others.update({n: None for n, node in nodes.items() if node.instance_id and n not in memory.identities})
    return {
        "spaces": dict(memory.spaces),
        "types": dict(memory.types),
        "block_nodes": memory.block_nodes,
        "orders": {name: list(order) for name, order in memory.orders.items()},
        "positions": _dump_remembered(memory.positions, positions),
        "identities": others,
        "groups": {name: dump_group(group) for name, group in memory.groups.items()},
    }


def _load_memory(data: Mapping[str, Any], positions: Positions, nodes: Mapping[str, Node]) -> Memory:
    identities = {
        name: Identity(node.instance_id, node.instance_name, node.group, node.instance_type, node.zone)
        for name, node in nodes.items()
        if node.instance_id
    }
    for name, other in data.get("identities", {}).items():
        identities.pop(name, None)
        if other is not None:
            identities[name] = Identity(*other)
    return Memory(
        dict(data.get("spaces", {})),
        dict(data.get("types", {})),
        int(data.get("block_nodes", 0)),
        {name: tuple(order) for name, order in data.get("orders", {}).items()},
        _load_remembered(data.get("positions", ()), positions),
        identities,
        {name: made(Group, group, name=name) for name, group in data.get("groups", {}).items()},
    )


def _dump_remembered(remembered: Mapping[str, Mapping[str, Position]], positions: Positions) -> list[Any]:
    """(id space → position, the instances of which that is remembered)."""
    together: dict[int, tuple[Json, list[str]]] = {}
    for instance_id, spaces in remembered.items():
        known = together.get(id(spaces))
        if known is None:
            numbers = {space: positions.number(position) for space, position in spaces.items()}
            known = together[id(spaces)] = (numbers, [])
        known[1].append(instance_id)
    return list(together.values())


def _load_remembered(data: Any, positions: Positions) -> dict[str, Mapping[str, Position]]:
    remembered: dict[str, Mapping[str, Position]] = {}
    for spaces, instance_ids in data:
        known = {space: positions[number] for space, number in spaces.items()}
        remembered.update(dict.fromkeys(instance_ids, known))
    return remembered


def _behind(node: Node) -> tuple[str | None, ...]:
    return node.instance_id, node.instance_name, node.group, node.instance_type, node.zone


def dump_configuration(configuration: Configuration) -> Json:
    return {"topologies": [_dump_topology(t) for t in configuration.topologies], "words": dict(configuration.words)}


def load_configuration(data: Mapping[str, Any]) -> Configuration:
    return Configuration(tuple(_load_topology(t) for t in data["topologies"]), dict(data["words"]))


def _dump_topology(topology: Topology) -> Json:
    return {"name": topology.name, "kind": topology.kind, "default": topology.default, **_dump_body(topology.body)}


def _load_topology(data: Mapping[str, Any]) -> Topology:
    body: Body = Flat()
    if data["kind"] == "tree":
        body = Tree(tuple(Switch(name, tuple(nodes), tuple(below)) for name, nodes, below in data["switches"]))
    elif data["kind"] == "block":
        body = Blocks(tuple(data["sizes"]), tuple(Block(name, tuple(nodes)) for name, nodes in data["blocks"]))
    return Topology(data["name"], body, bool(data.get("default", False)))


def _dump_body(body: Body) -> Json:
    if isinstance(body, Tree):
        return {"switches": [[s.name, list(s.nodes), list(s.children)] for s in body.switches]}
    if isinstance(body, Blocks):
        return {"sizes": list(body.sizes), "blocks": [[b.name, list(b.nodes)] for b in body.blocks]}
    return {}
