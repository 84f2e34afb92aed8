"""Everything known into one consistent configuration of all partitions, with the reason for each choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

from topology_plugin.core.blocks import base_size, sizes_for, stack
from topology_plugin.core.decision import Decision, Memory, PartitionDecision, Placement
from topology_plugin.core.inventory import Inventory, Node
from topology_plugin.core.kinds import KindChoice, Kinds, choose
from topology_plugin.core.matching import UNREAD
from topology_plugin.core.names import partition_topology_name
from topology_plugin.core.position import LAST_KNOWN, SPACES, Position, space_of
from topology_plugin.core.settings import PartitionSettings, Settings
from topology_plugin.core.topology import Blocks, Body, Configuration, Flat, Kind, Topology
from topology_plugin.core.tree import grow

FLAT = "flat"
_NOBODY = Node("")  # behind a name that the inventory lacks


def merge(inventory: Inventory, settings: Settings, memory: Memory, *, classic: bool = False) -> Decision:
    """The desired configuration. Pure: same facts, same result, whatever the order in which they came.

    `classic`: Slurm up to 24.11, which knows one topology for the whole cluster and no words.
    """
    kinds = choose(inventory, settings, memory.types)
    inventory, positions = _remembering(inventory, settings.sources, memory)
    memory = replace(memory, types=kinds.evidence, positions=positions)
    if classic:
        return _clusterwide(inventory, kinds, settings, memory)
    wishes = {name: _wish(name, kinds.partitions[name], settings) for name in inventory.partitions}
    built: dict[str, _Built] = {}
    for name in sorted({wish.topology for wish in wishes.values() if wish.kind != FLAT}):
        partitions = [p for p, wish in wishes.items() if wish.topology == name]
        members = dict.fromkeys(chain.from_iterable(inventory.partitions[p].nodes for p in partitions))
        one = _build(name, wishes[partitions[0]], members, inventory, settings, memory)
        memory = one.memory
        built[name] = one
    return _settle(inventory, kinds, wishes, built, memory)


@dataclass(frozen=True)
class _Wish:
    kind: Kind
    topology: str
    rule: str
    options: PartitionSettings


@dataclass(frozen=True)
class _Built:
    """`body` None: it cannot be made (no placed node); `placement` says why for every node."""

    body: Body | None
    placement: Placement
    memory: Memory


def _wish(partition: str, choice: KindChoice, settings: Settings) -> _Wish:
    options = settings.partitions.get(partition, PartitionSettings())
    own = options.has_options and choice.kind != FLAT
    name = partition_topology_name(choice.kind, partition) if own else choice.kind
    return _Wish(choice.kind, name, choice.rule, options)


def _remembering(
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


def _clusterwide(inventory: Inventory, kinds: Kinds, settings: Settings, memory: Memory) -> Decision:
    """One topology of the default's kind: block only if every node is in a full block (a short one kills 24.11), else
    tree if any node has a network path, else flat."""
    everyone = dict.fromkeys(inventory.nodes)
    rule = kinds.default.rule + "; Slurm before 25.05 has one topology for the whole cluster"
    tried: list[Kind] = ["block", "tree"] if kinds.default.kind == "block" else ["tree"]
    built: dict[str, _Built] = {}
    for kind in tried if kinds.default.kind != FLAT else []:
        one = _build(kind, _Wish(kind, kind, rule, PartitionSettings()), everyone, inventory, settings, memory)
        memory = one.memory
        body = one.body
        if isinstance(body, Blocks) and any(len(block.nodes) != body.sizes[0] for block in body.blocks):
            rule += "; not every node is in a full block, so tree"
            continue
        if body is not None:
            built[kind] = one
            break
    chosen = next(iter(built), FLAT)
    if not built and kinds.default.kind != FLAT:
        rule += "; no node has a network path, so flat"
    kind_now: Kind = "tree" if chosen == "tree" else "block" if chosen == "block" else "flat"
    partitions = {name: PartitionDecision(kind_now, chosen, None, rule) for name in inventory.partitions}
    notes = [f"{name}: {note}" for name, one in built.items() for note in one.placement.notes]
    notes += [str(issue) for issue in inventory.issues]
    return Decision(
        Configuration((Topology(chosen, _body(chosen, built), default=True),), dict.fromkeys(inventory.partitions)),
        rule,
        partitions,
        {name: one.placement for name, one in built.items()},
        tuple(notes),
        memory,
    )


def _build(
    name: str, wish: _Wish, members: Mapping[str, None], inventory: Inventory, settings: Settings, memory: Memory
) -> _Built:
    placement = _place(name, wish.kind, members, inventory, settings, memory)
    if placement.space is not None:
        memory = replace(memory, spaces=dict(sorted({**memory.spaces, name: placement.space}.items())))
    if not placement.placed:
        return _Built(None, placement, memory)
    if wish.kind == "tree":
        grown = grow(
            placement.placed,
            placement.unplaced,
            zones={name: node.zone for name, node in inventory.nodes.items() if node.zone},
            separate_fabrics=settings.separate_fabrics
            if wish.options.separate_fabrics is None
            else wish.options.separate_fabrics,
            max_unplaced_leaves=settings.max_unplaced_leaves,
        )
        return _Built(grown.tree, replace(placement, notes=(*placement.notes, *grown.notes)), memory)
    setting = settings.block_sizes if wish.options.block_sizes is None else wish.options.block_sizes
    seen = Counter(position.ultraserver for position in placement.placed.values())
    memory = replace(memory, block_nodes=max([memory.block_nodes, *seen.values()]))
    types = _ultraserver_types(placement.placed, inventory)
    sizes = sizes_for(setting, base_size(types, memory.block_nodes, settings.spares_per_ultraserver))
    stacked = stack(placement.placed, placement.unplaced, sizes, memory.orders.get(name, ()))
    if len(sizes) > 1:
        order = tuple(block.name for block in stacked.blocks.blocks if block.nodes)
        memory = replace(memory, orders=dict(sorted({**memory.orders, name: order}.items())))
    return _Built(stacked.blocks, replace(placement, notes=(*placement.notes, *stacked.notes)), memory)


def _ultraserver_types(placed: Mapping[str, Position], inventory: Inventory) -> list[str | None]:
    """The type of every UltraServer, by the group of its nodes; None where it is not known."""
    types: dict[str, str | None] = {}
    for node, position in placed.items():
        group = inventory.groups.get(inventory.nodes[node].group or "")
        types[str(position.ultraserver)] = group.ultraserver_type if group else None
    return list(types.values())


def _place(
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
        if position.path if kind == "tree" else position.ultraserver:
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
    if any(space_of(s) != space and (p.path if kind == "tree" else p.ultraserver) for s, p in known.answers.items()):
        return f"only a source other than {space} knows it"
    if any(known.answers.values()):
        return (
            "has network layers but no UltraServer id"
            if kind == "block"
            else "has an UltraServer id but no network layers"
        )
    reasons = "; ".join(f"{source}: {why}" for source, why in sorted(known.silent.items()))
    return f"no source knows its position{f' ({reasons})' if reasons else ''}"


def _settle(
    inventory: Inventory,
    kinds: Kinds,
    wishes: Mapping[str, _Wish],
    built: Mapping[str, _Built],
    memory: Memory,
) -> Decision:
    """Topologies that serve a partition, and the default; words accordingly."""
    serving = {
        wish.topology
        for partition, wish in wishes.items()
        if wish.kind != FLAT and inventory.partitions[partition].nodes and built[wish.topology].body is not None
    }
    default_kind = kinds.default.kind
    default = default_kind if default_kind in serving else FLAT
    default_rule = kinds.default.rule
    if default != default_kind:
        default_rule += f"; but no {default_kind} topology can be made, so flat"
    partitions: dict[str, PartitionDecision] = {}
    used = {default, *serving}
    for name in sorted(wishes, key=lambda name: not inventory.partitions[name].nodes):
        decided = _decide(wishes[name], default, used, bool(inventory.partitions[name].nodes), serving)
        used |= {decided.word} if decided.word else set()
        partitions[name] = decided
    partitions = {name: partitions[name] for name in wishes}
    names = [default, *sorted(used - {default})]
    topologies = tuple(Topology(n, _body(n, built), default=n == default) for n in names)
    words = {name: decision.word for name, decision in partitions.items()}
    placements = {n: built[n].placement for n in names if n in built}
    for name, one in built.items():
        placements.setdefault(name, one.placement)
    notes = [f"{name}: {note}" for name in names if name in built for note in built[name].placement.notes]
    notes += [str(issue) for issue in inventory.issues]
    return Decision(
        Configuration(topologies, words),
        default_rule,
        partitions,
        dict(sorted(placements.items())),
        tuple(notes),
        memory,
    )


def _decide(wish: _Wish, default: str, used: set[str], populated: bool, serving: set[str]) -> PartitionDecision:
    """The word of one partition. One without nodes gets it only if that topology exists anyway (`used`)."""
    kind: Kind = wish.kind
    topology, rule = wish.topology, wish.rule
    if kind != FLAT and topology not in serving:
        why = "no node has a position" if populated else "it has no nodes"
        kind, topology, rule = "flat", FLAT, f"{rule}; but {why}, so flat"
    word = None if topology == default == FLAT else topology
    if not populated and word not in used:
        word = None
    if word is None:
        topology = default
    return PartitionDecision(kind, topology, word, rule)


def _body(name: str, built: Mapping[str, _Built]) -> Body:
    one = built.get(name)
    return one.body if one is not None and one.body is not None else Flat()
