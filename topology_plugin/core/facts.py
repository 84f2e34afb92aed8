"""facts.json of a generation: what was known of each node when it was put in force."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology_plugin.core.decision import Identity, Memory
from topology_plugin.core.generation import Generation
from topology_plugin.core.position import Position, space_of
from topology_plugin.core.state import State


def facts_of(state: State) -> dict[str, Any]:
    """node → instance, its position and who said so (null: unplaced)."""
    placed: dict[str, tuple[Position, str]] = {}
    for placement in state.decision.placements.values():
        for member, position in placement.placed.items():
            placed.setdefault(member, (position, placement.source.get(member, "")))
    facts: dict[str, Any] = {}
    for name, node in state.inventory.nodes.items():
        known, source = placed.get(name, (None, None))
        facts[name] = {
            "instance_id": node.instance_id,
            "instance_name": node.instance_name,
            "group": node.group,
            "instance_type": node.instance_type,
            "zone_id": node.zone,
            "position": known and {"path": list(known.path), "ultraserver": known.ultraserver},
            "source": source,
        }
    return facts


def memory_of(generation: Generation | None) -> Memory:
    """What a generation still tells when state.json is lost (a re-imaged controller, a damaged file)."""
    identities: dict[str, Identity] = {}
    positions: dict[str, Mapping[str, Position]] = {}
    for name, fact in (generation.facts if generation else {}).items():
        instance_id = fact.get("instance_id") if isinstance(fact, Mapping) else None
        if not isinstance(instance_id, str):
            continue
        identities[name] = Identity(
            instance_id,
            fact.get("instance_name"),
            fact.get("group"),
            fact.get("instance_type"),
            fact.get("zone_id"),
        )
        known, space = fact.get("position"), space_of(str(fact.get("source") or ""))
        if isinstance(known, Mapping) and space:
            position = Position(tuple(known.get("path") or ()), known.get("ultraserver"))
            positions[instance_id] = {space: position}
    return Memory(identities=identities, positions=positions)
