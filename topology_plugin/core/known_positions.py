"""Where each node of a topology lies: which source is believed, and what holds while all of them are silent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple

from topology_plugin.core.decision import Memory, Placement
from topology_plugin.core.inventory import Inventory, Node
from topology_plugin.core.position import LAST_KNOWN, SPACES, Position, space_of
from topology_plugin.core.settings import Settings
from topology_plugin.core.sources import UNREAD
from topology_plugin.core.topology import Kind

_NOBODY = Node("")  # behind a name that the inventory lacks


def with_last_known(
    inventory: Inventory, sources: tuple[str, ...], memory: Memory
) -> tuple[Inventory, Mapping[str, Mapping[str, Position]]]:
    """Nodes whose sources are silent keep the last known position of the same instance; and what to remember now."""
    changed: dict[str, Node] = {}
    positions: dict[str, Mapping[str, Position]] = {}
    nothing: Mapping[str, Position] = {}
    worked_out: dict[int, _Recalled] = {}  # the last of those whose sources say the same, mostly a leaf's
    for name, node in inventory.nodes.items():
        instance_id = node.instance_id
        if instance_id is None:
            continue
        before = memory.positions.get(instance_id, nothing)
        recalled = worked_out.get(id(node.answers))
        if recalled is None or recalled.silent is not node.silent or recalled.before != before:
            recalled = worked_out[id(node.answers)] = _recalled(node, sources, before)
        if recalled.answers is not node.answers:
            changed[name] = replace(node, answers=recalled.answers)
        if recalled.now:
            positions[instance_id] = recalled.now
    return replace(inventory, nodes={**inventory.nodes, **changed}) if changed else inventory, positions


class _Recalled(NamedTuple):
    """A node's `answers` together with what was known `before`, and `now`: what to remember (id space → position)."""

    before: Mapping[str, Position]
    silent: Mapping[str, str]
    answers: Mapping[str, Position]
    now: Mapping[str, Position]


def _recalled(node: Node, sources: tuple[str, ...], before: Mapping[str, Position]) -> _Recalled:
    """While resource_config cannot be read, a record moves nobody whose label is known: it may be older than that."""
    answers = node.answers
    if "records" in answers and SPACES["records"] in before and node.silent.get("resource-config") == UNREAD:
        answers = {source: position for source, position in answers.items() if source != "records"}
    now: dict[str, Position] = {}
    for source, space in _by_strength(tuple(answers), sources):
        if source in SPACES and answers[source]:
            now.setdefault(space, answers[source])
    kept = {space: position for space, position in before.items() if space not in now}
    if kept:
        answers = {**answers, **{f"{LAST_KNOWN}{space}": position for space, position in kept.items()}}
    return _Recalled(before, node.silent, answers, dict(sorted({**now, **kept}.items())))


def place(
    name: str, kind: Kind, members: Mapping[str, None], inventory: Inventory, settings: Settings, memory: Memory
) -> Placement:
    """One id space for the whole topology: the one that places most nodes. Ties: the last choice, else by `sources`."""
    order = list(dict.fromkeys(SPACES[source] for source in settings.sources))
    if not order:
        return Placement(None, unplaced=dict.fromkeys(members, "no source is configured"))
    said = [inventory.nodes.get(node, _NOBODY).answers for node in members]
    together = Counter(map(id, said))
    different = dict(zip(map(id, said), said, strict=True))
    seats = {key: _seats(answers, kind, settings.sources) for key, answers in different.items()}
    counts = {space: sum(n for key, n in together.items() if space in seats[key]) for space in order}
    last = memory.spaces.get(name)
    best = max(order, key=lambda space: (counts[space], space == last, -order.index(space)))
    chosen = {key: found[best] for key, found in seats.items() if best in found}
    placed: dict[str, Position] = {}
    source: dict[str, str] = {}
    unplaced: dict[str, str] = {}
    for node, key in zip(members, map(id, said), strict=True):
        seat = chosen.get(key)
        if seat is None:
            unplaced[node] = _why(inventory.nodes.get(node, _NOBODY), kind, best)
        else:
            source[node], placed[node] = seat
    notes = []
    for space in order if placed else ():
        if others := sum(n for key, n in together.items() if key not in chosen and space in seats[key]):
            notes.append(f"{others} nodes are known to {space} only, whose ids need not be equal to those of {best}")
    return Placement(best if placed else None, placed, source, unplaced, tuple(notes))


def _seats(answers: Mapping[str, Position], kind: Kind, sources: tuple[str, ...]) -> dict[str, tuple[str, Position]]:
    """Id space → the strongest source that gives a position in it which is of use for that kind, and the position."""
    found: dict[str, tuple[str, Position]] = {}
    for source, space in _by_strength(tuple(answers), sources):
        position = answers[source]
        if position.serves(kind):
            found.setdefault(space, (source, position))
    return found


@lru_cache(maxsize=1024)
def _by_strength(answers: tuple[str, ...], sources: tuple[str, ...]) -> tuple[tuple[str, str], ...]:
    """(source, its id space): what was heard now before what is only remembered; among these the order of `sources`."""
    heard = [source for source in sources if source in answers]
    remembered = sorted(source for source in answers if source.startswith(LAST_KNOWN))
    return tuple((source, space_of(source)) for source in heard + remembered)


def _why(known: Node, kind: Kind, space: str) -> str:
    if known.instance_id is None and not known.answers:
        return "no instance is known behind it"
    if any(space_of(source) != space and position.serves(kind) for source, position in known.answers.items()):
        return f"only a source other than {space} knows it"
    if any(known.answers.values()):
        return (
            "has network layers but no UltraServer id"
            if kind == "block"
            else "has an UltraServer id but no network layers"
        )
    reasons = "; ".join(f"{source}: {why}" for source, why in sorted(known.silent.items()))
    return f"no source knows its position{f' ({reasons})' if reasons else ''}"
