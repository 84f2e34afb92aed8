"""State to JSON and back. Unknown keys are ignored and missing ones take their default: readable across versions."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


def dump(state: State) -> Json:
    return {
        "schema": SCHEMA,
        "version": state.version,
        "cluster_arn": state.cluster_arn,
        "slurm_version": state.slurm_version,
        "generation": state.generation,
        "last": asdict(state.last),
        "owner": asdict(state.owner),
        "hold": state.hold,
        "adopted": state.adopted,
        "held": list(state.held),
        "notes": list(state.notes),
        "counters": {**asdict(state.counters), "failures": dict(state.counters.failures)},
        "refused": {name: [list(r) for r in ranges] for name, ranges in state.refused.items()},
        "inventory": _dump_inventory(state.inventory),
        "decision": dump_decision(state.decision),
        "in_force": None if state.in_force is None else dump_configuration(state.in_force),
    }


def load(data: Mapping[str, Any]) -> State:
    if not isinstance(data, Mapping) or not isinstance(data.get("schema"), int):
        raise InputError(Issue("state.json", "is not a state", "the next pass writes it anew"))
    if data["schema"] > SCHEMA + 1:
        raise InputError(Issue("state.json", f"schema {data['schema']} is from a newer version", "upgrade this one"))
    try:
        return _load(data)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InputError(Issue("state.json", f"is damaged: {error!r}", "the next pass writes it anew")) from None


def _load(data: Mapping[str, Any]) -> State:
    counters = _made(Counters, data.get("counters", {}))
    return State(
        cluster_arn=data.get("cluster_arn"),
        version=data.get("version", ""),
        slurm_version=data.get("slurm_version"),
        generation=data.get("generation"),
        last=_made(PassResult, data.get("last", {})),
        owner=_made(Owner, data.get("owner", {})),
        inventory=_load_inventory(data["inventory"]),
        decision=load_decision(data["decision"]),
        in_force=None if data.get("in_force") is None else load_configuration(data["in_force"]),
        refused={name: tuple((int(a), int(b)) for a, b in rs) for name, rs in data.get("refused", {}).items()},
        held=tuple(data.get("held", ())),
        hold=bool(data.get("hold", False)),
        adopted=bool(data.get("adopted", False)),
        counters=counters,
        notes=tuple(data.get("notes", ())),
    )


def _made(kind: Callable[..., T], data: Mapping[str, Any], **more: Any) -> T:
    """A dataclass from those keys that it knows; lists become tuples."""
    known = kind.__dataclass_fields__  # type: ignore[attr-defined]
    plain = {k: tuple(v) if isinstance(v, list) else v for k, v in data.items() if k in known}
    return kind(**{**plain, **more})


def dump_position(position: Position) -> Json:
    return {"path": list(position.path), "ultraserver": position.ultraserver}


def load_position(data: Mapping[str, Any]) -> Position:
    return Position(tuple(data.get("path", ())), data.get("ultraserver"))


def _dump_node(node: Node) -> Json:
    return {
        "instance_id": node.instance_id,
        "instance_name": node.instance_name,
        "group": node.group,
        "instance_type": node.instance_type,
        "zone": node.zone,
        "answers": {source: dump_position(p) for source, p in node.answers.items()},
        "silent": dict(node.silent),
        "addresses": list(node.addresses),
        "dynamic": node.dynamic,
    }


def _load_node(name: str, data: Mapping[str, Any]) -> Node:
    answers = {source: load_position(p) for source, p in data.get("answers", {}).items()}
    return _made(Node, data, name=name, answers=answers)


def _dump_inventory(inventory: Inventory) -> Json:
    return {
        "nodes": {name: _dump_node(node) for name, node in inventory.nodes.items()},
        "groups": {name: _dump_group(group) for name, group in inventory.groups.items()},
        "partitions": {
            name: {"nodes": list(p.nodes), "all_nodes": p.all_nodes, "word": p.word}
            for name, p in inventory.partitions.items()
        },
        "issues": [asdict(issue) for issue in inventory.issues],
        "roles_known": inventory.roles_known,
    }


def _load_inventory(data: Mapping[str, Any]) -> Inventory:
    return Inventory(
        {name: _load_node(name, node) for name, node in data["nodes"].items()},
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


def dump_memory(memory: Memory) -> Json:
    return {
        "spaces": dict(memory.spaces),
        "types": dict(memory.types),
        "block_nodes": memory.block_nodes,
        "orders": {name: list(order) for name, order in memory.orders.items()},
        "positions": {
            instance: {space: dump_position(p) for space, p in spaces.items()}
            for instance, spaces in memory.positions.items()
        },
        "identities": {
            node: [i.instance_id, i.instance_name, i.group, i.instance_type, i.zone]
            for node, i in memory.identities.items()
        },
        "groups": {name: _dump_group(group) for name, group in memory.groups.items()},
    }


def load_memory(data: Mapping[str, Any]) -> Memory:
    return Memory(
        dict(data.get("spaces", {})),
        dict(data.get("types", {})),
        int(data.get("block_nodes", 0)),
        {name: tuple(order) for name, order in data.get("orders", {}).items()},
        {
            instance: {space: load_position(p) for space, p in spaces.items()}
            for instance, spaces in data.get("positions", {}).items()
        },
        {node: Identity(*identity) for node, identity in data.get("identities", {}).items()},
        {name: _made(Group, group, name=name) for name, group in data.get("groups", {}).items()},
    )


def dump_decision(decision: Decision) -> Json:
    return {
        "configuration": dump_configuration(decision.configuration),
        "default_rule": decision.default_rule,
        "partitions": {name: asdict(p) for name, p in decision.partitions.items()},
        "placements": {name: _dump_placement(p) for name, p in decision.placements.items()},
        "notes": list(decision.notes),
        "memory": dump_memory(decision.memory),
    }


def _dump_placement(placement: Placement) -> Json:
    return {
        "space": placement.space,
        "placed": {node: dump_position(p) for node, p in placement.placed.items()},
        "source": dict(placement.source),
        "unplaced": dict(placement.unplaced),
        "notes": list(placement.notes),
    }


def load_decision(data: Mapping[str, Any]) -> Decision:
    return Decision(
        load_configuration(data["configuration"]),
        data.get("default_rule", ""),
        {name: _made(PartitionDecision, p) for name, p in data["partitions"].items()},
        {
            name: _made(Placement, p, placed={n: load_position(q) for n, q in p.get("placed", {}).items()})
            for name, p in data["placements"].items()
        },
        tuple(data.get("notes", ())),
        load_memory(data.get("memory", {})),
    )
