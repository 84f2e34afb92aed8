"""State to JSON and back. Unknown keys are ignored and missing ones take their default: readable across versions.

Every pass writes it and the next one reads it, so of 16,384 nodes it says nothing twice: positions stand once, in a
list, and are meant by their place in it; so does what the nodes of a leaf have in common; the instance behind a node is
told with the node; of what is in force only what is not as desired. What was in common is one object again when read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from topology_plugin.core.decision_json import dump_configuration, dump_decision, load_configuration, load_decision
from topology_plugin.core.inventory_json import Positions, dump_inventory, load_inventory, made
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.state import SCHEMA, Counters, Owner, PassResult, State
from topology_plugin.core.topology import Configuration

Json = dict[str, Any]


def dump(state: State) -> Json:
    positions = Positions()
    inventory = dump_inventory(state.inventory, positions)
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


def load(data: Mapping[str, Any], where: str = "state.json") -> State:
    """`where`: for messages. Raises InputError."""
    if not isinstance(data, Mapping) or not isinstance(data.get("schema"), int):
        raise InputError(Issue(where, "is not a state", "the next pass writes it anew"))
    if data["schema"] > SCHEMA + 1:
        raise InputError(Issue(where, f"schema {data['schema']} is from a newer version", "upgrade this one"))
    try:
        return _load(data)
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InputError(Issue(where, f"is damaged: {error!r}", "the next pass writes it anew")) from None


def _load(data: Mapping[str, Any]) -> State:
    counters = made(Counters, data.get("counters", {}))
    positions = Positions(data.get("positions", ()))
    inventory = load_inventory(data["inventory"], positions)
    decision = load_decision(data["decision"], positions, inventory.nodes)
    return State(
        cluster_arn=data.get("cluster_arn"),
        version=data.get("version", ""),
        slurm_version=data.get("slurm_version"),
        generation=data.get("generation"),
        last=made(PassResult, data.get("last", {})),
        owner=made(Owner, data.get("owner", {})),
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


def _dump_in_force(in_force: Configuration | None, desired: Configuration) -> Json | None:
    """Without its topologies where they are those desired."""
    if in_force is not None and in_force.topologies == desired.topologies:
        return {"words": dict(in_force.words)}
    return None if in_force is None else dump_configuration(in_force)


def _load_in_force(data: Mapping[str, Any] | None, desired: Configuration) -> Configuration | None:
    if data is not None and "topologies" not in data:
        return Configuration(desired.topologies, dict(data["words"]))
    return None if data is None else load_configuration(data)
