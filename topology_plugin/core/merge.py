"""Everything known into one consistent configuration of all partitions, with the reason for each choice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import chain

from topology_plugin.core.blocks import base_size, sizes_for, stack
from topology_plugin.core.decision import Decision, Memory, PartitionDecision, Placement
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.kinds import KindChoice, Kinds, choose
from topology_plugin.core.known_positions import place, with_last_known
from topology_plugin.core.names import partition_topology_name
from topology_plugin.core.position import Position
from topology_plugin.core.settings import PartitionSettings, Settings
from topology_plugin.core.topology import Blocks, Body, Configuration, Flat, Kind, Topology
from topology_plugin.core.tree import grow

FLAT = "flat"


def merge(inventory: Inventory, settings: Settings, memory: Memory, *, classic: bool = False) -> Decision:
    """The desired configuration. Pure: same facts, same result, whatever the order in which they came.

    `classic`: Slurm up to 24.11, which knows one topology for the whole cluster and no words.
    """
    kinds = choose(inventory, settings, memory.types)
    inventory, positions = with_last_known(inventory, settings.sources, memory)
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
    placement = place(name, wish.kind, members, inventory, settings, memory)
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
