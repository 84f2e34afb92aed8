"""State to JSON and back. Unknown keys are ignored and missing ones take their default: readable across versions.

Every pass writes it and the next one reads it, so of 16,384 nodes it says nothing twice: positions stand once, in a
list, and are meant by their place in it; so does what the nodes of a leaf have in common; the instance behind a node is
told with the node; of what is in force only what is not as desired. What was in common is one object again when read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict
from typing import Any, TypeVar

from topology_plugin.core.decision import Decision, Identity, Memory, PartitionDecision, Placement
from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.position import Position
from topology_plugin.core.state import SCHEMA, Counters, Owner, PassResult, State
from topology_plugin.core.topology import Block, Blocks, Body, Configuration, Flat, Switch, Topology, Tree

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


def dump(state: State) -> Json:
    positions = Positions()
    inventory = _dump_inventory(state.inventory, positions)
    decision = dump_decision(state.decision, positions, state.inventory.nodes)
    return {
        "schema": SCHEMA,
        "version": state.version,
        "cluster_arn": state.cluster_arn,
        "slurm_version": state.slurm_version,
        "generation": state.generation,
        "last": asdict(state.last),
        "owner": asdict(state.owner),
        "hold": state.hold,
        "hold_note": state.hold_note,
        "topo_optional": state.topo_optional,
        "adopted": state.adopted,
        "held": list(state.held),
        "notes": list(state.notes),
        "counters": {**asdict(state.counters), "failures": dict(state.counters.failures)},
        "refused": {name: [list(r) for r in ranges] for name, ranges in state.refused.items()},
        "positions": positions.rows(),
        "inventory": inventory,
        "decision": decision,
        "in_force": _dump_in_force(state.in_force, state.desired),
    }


def load(data: Mapping[str, Any]) -> State:
    if not isinstance(data, Mapping) or not isinstance(data.get("schema"), int):
        raise InputError(Issue("state.json", "is not a state", "the next pass writes it anew"))
    if data["schema"] > SCHEMA + 1:
        raise InputError(Issue("state.json", f"schema {data['schema']} is from a newer version", "upgrade this one"))
    try:
        return _load(data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(Issue("state.json", f"is damaged: {error!r}", "the next pass writes it anew")) from None


def _load(data: Mapping[str, Any]) -> State:
    counters = _made(Counters, data.get("counters", {}))
    positions = Positions(data.get("positions", ()))
    inventory = _load_inventory(data["inventory"], positions)
    decision = load_decision(data["decision"], positions, inventory.nodes)
    return State(
        cluster_arn=data.get("cluster_arn"),
        version=data.get("version", ""),
        slurm_version=data.get("slurm_version"),
        generation=data.get("generation"),
        last=_made(PassResult, data.get("last", {})),
        owner=_made(Owner, data.get("owner", {})),
        inventory=inventory,
        decision=decision,
        in_force=_load_in_force(data.get("in_force"), decision.configuration),
        refused={name: tuple((int(a), int(b)) for a, b in rs) for name, rs in data.get("refused", {}).items()},
        held=tuple(data.get("held", ())),
        hold=bool(data.get("hold", False)),
        hold_note=str(data.get("hold_note", "")),
        topo_optional=bool(data.get("topo_optional", False)),
        adopted=bool(data.get("adopted", False)),
        counters=counters,
        notes=tuple(data.get("notes", ())),
    )


def _made(kind: Callable[..., T], data: Mapping[str, Any], **more: Any) -> T:
    """A dataclass from those keys that it knows; lists become tuples."""
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known}
    return kind(**{**plain, **more})


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
    if "common" not in data:  # written before nodes had something in common: everything stands with the node
        whole = data["nodes"].items()
        rows = {n: [i, d.get("instance_id"), d.get("instance_name"), *d["addresses"]] for i, (n, d) in enumerate(whole)}
        data = {"common": list(data["nodes"].values()), "nodes": rows}
    common = [_load_common(told, positions) for told in data["common"]]
    nodes: dict[str, Node] = {}
    for name, (place, instance_id, instance_name, *addresses) in data["nodes"].items():
        group, instance_type, zone, answers, silent, dynamic = common[place]
        told = (group, instance_type, zone, answers, silent, tuple(addresses), dynamic)
        nodes[name] = Node(name, instance_id, instance_name, *told)
    return nodes


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


def _dump_inventory(inventory: Inventory, positions: Positions) -> Json:
    return {
        **_dump_nodes(inventory.nodes, positions),
        "groups": {name: _dump_group(group) for name, group in inventory.groups.items()},
        "partitions": {
            name: {"nodes": list(p.nodes), "all_nodes": p.all_nodes, "word": p.word}
            for name, p in inventory.partitions.items()
        },
        "issues": [asdict(issue) for issue in inventory.issues],
        "roles_known": inventory.roles_known,
    }


def _load_inventory(data: Mapping[str, Any], positions: Positions) -> Inventory:
    return Inventory(
        _load_nodes(data, positions),
        {name: _made(Group, group, name=name) for name, group in data["groups"].items()},
        {name: _made(Partition, p, name=name) for name, p in data["partitions"].items()},
        tuple(_made(Issue, issue) for issue in data.get("issues", ())),
        bool(data.get("roles_known", False)),
    )


def _dump_group(group: Group) -> Json:
    found = asdict(group)
    del found["name"]
    return {**found, "partitions": list(group.partitions)}


def dump_configuration(configuration: Configuration) -> Json:
    return {"topologies": [_dump_topology(t) for t in configuration.topologies], "words": dict(configuration.words)}


def _dump_in_force(in_force: Configuration | None, desired: Configuration) -> Json | None:
    """Without its topologies where they are those desired."""
    if in_force is not None and in_force.topologies == desired.topologies:
        return {"words": dict(in_force.words)}
    return None if in_force is None else dump_configuration(in_force)


def _load_in_force(data: Mapping[str, Any] | None, desired: Configuration) -> Configuration | None:
    if data is not None and "topologies" not in data:
        return Configuration(desired.topologies, dict(data["words"]))
    return None if data is None else load_configuration(data)


def _dump_topology(topology: Topology) -> Json:
    return {"name": topology.name, "kind": topology.kind, "default": topology.default, **_dump_body(topology.body)}


def _dump_body(body: Body) -> Json:
    if isinstance(body, Tree):
        return {"switches": [[s.name, list(s.nodes), list(s.children)] for s in body.switches]}
    if isinstance(body, Blocks):
        return {"sizes": list(body.sizes), "blocks": [[b.name, list(b.nodes)] for b in body.blocks]}
    return {}


def load_configuration(data: Mapping[str, Any]) -> Configuration:
    return Configuration(tuple(_load_topology(t) for t in data["topologies"]), dict(data["words"]))


def _load_topology(data: Mapping[str, Any]) -> Topology:
    body: Body = Flat()
    if data["kind"] == "tree":
        body = Tree(tuple(Switch(name, tuple(nodes), tuple(below)) for name, nodes, below in data["switches"]))
    elif data["kind"] == "block":
        body = Blocks(tuple(data["sizes"]), tuple(Block(name, tuple(nodes)) for name, nodes in data["blocks"]))
    return Topology(data["name"], body, bool(data.get("default", False)))


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
        "groups": {name: _dump_group(group) for name, group in memory.groups.items()},
    }


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
    if isinstance(data, Mapping):  # as it was once written, one by one
        data = [[spaces, [instance_id]] for instance_id, spaces in data.items()]
    remembered: dict[str, Mapping[str, Position]] = {}
    for spaces, instance_ids in data:
        known = {space: positions[number] for space, number in spaces.items()}
        remembered.update(dict.fromkeys(instance_ids, known))
    return remembered


def _behind(node: Node) -> tuple[str | None, ...]:
    return node.instance_id, node.instance_name, node.group, node.instance_type, node.zone


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
        {name: _made(Group, group, name=name) for name, group in data.get("groups", {}).items()},
    )


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


def load_decision(data: Mapping[str, Any], positions: Positions, nodes: Mapping[str, Node]) -> Decision:
    return Decision(
        load_configuration(data["configuration"]),
        data.get("default_rule", ""),
        {name: _made(PartitionDecision, p) for name, p in data["partitions"].items()},
        {name: _load_placement(p, positions) for name, p in data["placements"].items()},
        tuple(data.get("notes", ())),
        _load_memory(data.get("memory", {}), positions, nodes),
    )
