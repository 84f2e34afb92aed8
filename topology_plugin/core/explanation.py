"""Why a node and a partition are as they are: every answer, what won and why, the rule or setting behind a kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from topology_plugin.core.consequences import refused
from topology_plugin.core.diff import Way, ways
from topology_plugin.core.hostlists import node_order
from topology_plugin.core.instance_types import capability
from topology_plugin.core.inventory import Node
from topology_plugin.core.job_sizes import Ranges
from topology_plugin.core.position import KUBERNETES, LAST_KNOWN, Position, space_of
from topology_plugin.core.rules_topology import MOST_SWITCHES, WARN_SWITCHES
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Configuration, Kind, Tree


@dataclass(frozen=True)
class Said:
    """One source's answer, or its silence. `fits`: the topologies in which it was believed."""

    source: str
    position: Position | None
    silent: str = ""
    fits: tuple[str, ...] = ()


@dataclass(frozen=True)
class Seat:
    """Where a node stands in one topology, in force and desired (None: nowhere), and why there.

    `space`: the id space that won for the whole topology, `won` why it did; `unplaced`: why it has no position.
    """

    topology: str
    kind: Kind
    partitions: tuple[str, ...]
    in_force: Way | None
    desired: Way | None
    source: str | None = None
    space: str | None = None
    won: str = ""
    unplaced: str = ""


@dataclass(frozen=True)
class NodeWhy:
    """`issues`: what did not fit together about it; `advice`: what to do, where something is missing."""

    name: str
    node: Node | None
    partitions: tuple[str, ...]
    said: tuple[Said, ...]
    seats: tuple[Seat, ...]
    issues: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()


@dataclass(frozen=True)
class GroupWhy:
    """`ability`: block, tree or None (no network data); `evidence`: seen on its nodes or by an earlier pass."""

    name: str
    instance_type: str | None
    role: str
    nodes: int
    ability: str | None
    evidence: bool


@dataclass(frozen=True)
class PartitionWhy:
    """`topology`, `kind`, `word`, `refused`: desired; `in_force`: (topology, kind) now, `refused_in_force`: job sizes
    refused now, None: not known."""

    name: str
    kind: Kind
    topology: str
    word: str | None
    rule: str
    default_rule: str
    setting: str
    in_force: tuple[str, Kind] | None
    groups: tuple[GroupWhy, ...]
    nodes: int
    units: int
    unit: str
    unplaced: Mapping[str, str] = field(default_factory=dict)
    sizes: tuple[int, ...] = ()
    refused: Ranges = ()
    refused_in_force: Ranges | None = ()
    uncovered: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def explain_node(state: State, name: str) -> NodeWhy:
    """Everything known of one node; the name may be one that no source knows (then nearly all of it is empty)."""
    inventory = state.inventory
    node = inventory.nodes.get(name)
    partitions = tuple(p.name for p in inventory.partitions.values() if name in p.nodes)
    seats = tuple(_seats(state, name, partitions))
    said = tuple(_said(state, node, name)) if node else ()
    keys = {name, *(node.addresses if node else ()), *((node.instance_id,) if node and node.instance_id else ())}
    issues = tuple(str(issue) for issue in inventory.issues if any(mentions(key, str(issue)) for key in keys))
    return NodeWhy(name, node, partitions, said, seats, issues, tuple(_advice(state, node, partitions, seats)))


def mentions(key: str, text: str) -> bool:
    """`key` as a whole word: ip-10-1-1-1 is not in ip-10-1-1-11."""
    at = text.find(key)
    while at >= 0:
        before, after = text[at - 1 : at], text[at + len(key) : at + len(key) + 1]
        if not (before.isalnum() or before in ("-", ".")) and not (after.isalnum() or after == "-"):
            return True
        at = text.find(key, at + 1)
    return False


def _seats(state: State, name: str, partitions: tuple[str, ...]) -> list[Seat]:
    seats = []
    topologies = {t.name: t.kind for t in (state.in_force.topologies if state.in_force else ())}
    topologies.update({t.name: t.kind for t in state.desired.topologies})
    for topology, kind in topologies.items():
        now = state.in_force.topology(topology) if state.in_force else None
        then = state.desired.topology(topology)
        served = tuple(p for p in partitions if (d := state.desired.of_partition(p)) and d.name == topology)
        before, after = (ways(t).get(name) if t else None for t in (now, then))
        if before is None and after is None and not served:
            continue
        placement = state.decision.placements.get(topology)
        if kind == "flat" or placement is None:
            seats.append(Seat(topology, kind, served, before, after))
            continue
        space = placement.space
        won = _why_space(state, topology, kind, space) if space else ""
        unplaced = placement.unplaced.get(name, "")
        seats.append(Seat(topology, kind, served, before, after, placement.source.get(name), space, won, unplaced))
    return seats


def _why_space(state: State, topology: str, kind: Kind, space: str) -> str:
    """How many current nodes of the topology each id space places: the most wins, ties go to the last choice."""
    members = {n for p in state.inventory.partitions.values()
               if (d := state.desired.of_partition(p.name)) and d.name == topology for n in p.nodes}  # fmt: skip
    counts: Counter[str] = Counter()
    remembered = state.decision.memory.positions  # of this pass, or of the last one that heard of it
    for name in members:
        node = state.inventory.nodes.get(name)
        heard = {space_of(source): position for source, position in node.answers.items()} if node else {}
        known = remembered.get(node.instance_id or "", heard) if node else {}
        counts.update(other for other, position in known.items() if position.serves(kind))
    rivals = [f"{other}: {count}" for other, count in counts.most_common() if other != space]
    told = f"{space} {'place' if space == 'labels' else 'places'} {counts[space]} of {len(members)} nodes"
    return f"{told}, the most ({', '.join(rivals)})" if rivals else f"{told}; nobody else places any"


def _said(state: State, node: Node, name: str) -> list[Said]:
    believed: dict[str, list[str]] = {}
    for topology, placement in state.decision.placements.items():
        if name in placement.source:
            believed.setdefault(placement.source[name], []).append(topology)
    heard = {space_of(source) for source in node.answers}
    remembered = state.decision.memory.positions.get(node.instance_id or "", {})
    known = {**node.answers, **{f"{LAST_KNOWN}{space}": p for space, p in remembered.items() if space not in heard}}
    answers = [Said(source, position, "", tuple(believed.get(source, ()))) for source, position in known.items()]
    return [*answers, *(Said(source, None, why) for source, why in node.silent.items() if source not in node.answers)]


def _advice(state: State, node: Node | None, partitions: tuple[str, ...], seats: tuple[Seat, ...]) -> list[str]:
    if node is None:
        return ["no slurm.conf line and no instance has this name: is it spelled right?"] if not partitions else []
    if KUBERNETES in (*node.answers, *node.silent):
        return []  # labels come from AWS, and nothing of ours runs there
    advice = []
    structured = [seat for seat in seats if seat.kind != "flat"]
    if node.instance_id is None:
        advice.append(
            "run `hyperpod-topology register` on the node, or see that resource_config.json lists its address"
        )
    elif any(seat.unplaced for seat in structured) and not node.answers:
        if "records" in node.silent and "regist" not in node.silent["records"]:
            advice.append("no source has its position yet; as soon as one has, the next pass moves it there")
        else:
            advice.append(
                "run `hyperpod-topology register` on the node: its own resource_config.json may have the label"
            )
    if not partitions:
        advice.append("it is in no partition: no topology serves it")
    if any(seat.in_force != seat.desired for seat in structured):
        advice.append(f"a change is pending: {state.owner.pending}")
    return advice


def explain_partition(state: State, name: str, settings: Settings | None = None) -> PartitionWhy:
    """Everything behind a partition's topology. `settings` None: not known which settings were in force."""
    inventory, decision = state.inventory, state.decision.partitions.get(name)
    partition = inventory.partitions[name]
    topology = state.desired.of_partition(name)
    body = topology.body if topology else None
    held = set(topology.body.nodes()) if topology else set()
    structured = isinstance(body, (Tree, Blocks))
    now = state.in_force.of_partition(name) if state.in_force and state.in_force.topologies else None
    placement = state.decision.placements.get(topology.name) if topology and structured else None
    members = set(partition.nodes)
    unplaced = placement.unplaced if placement else {}
    if isinstance(body, Tree):
        units, unit = len(body.switches), "switches"
    else:
        mine = sum(1 for b in body.blocks if not members.isdisjoint(b.nodes)) if isinstance(body, Blocks) else 0
        units, unit = mine, "blocks" if mine else ""

    def refuses(configuration: Configuration) -> Ranges:
        return refused(configuration, name, partition.nodes, state.topo_optional) if state.of_slurm else ()

    notes = list(placement.notes) if placement else []
    if isinstance(body, Tree) and units > WARN_SWITCHES:
        notes.append(f"{units} switches: slurmctld's cost grows with their cube (above {MOST_SWITCHES} it is refused)")
    return PartitionWhy(
        name=name,
        kind=topology.kind if topology else "flat",
        topology=topology.name if topology else "",
        word=state.desired.words.get(name),
        rule=decision.rule if decision else "",
        default_rule=state.decision.default_rule if state.desired.words.get(name) is None else "",
        setting=_setting(name, settings),
        in_force=(now.name, now.kind) if now else None,
        groups=tuple(_groups(state, name)),
        nodes=len(partition.nodes),
        units=units,
        unit=unit,
        unplaced={n: unplaced[n] for n in sorted(members & set(unplaced), key=node_order)},
        sizes=body.sizes if isinstance(body, Blocks) and state.of_slurm else (),
        refused=refuses(state.desired),
        refused_in_force=refuses(state.in_force) if state.in_force is not None and now is not None else None,
        uncovered=tuple(n for n in partition.nodes if n not in held) if structured else (),
        notes=tuple(notes),
    )


def _setting(name: str, settings: Settings | None) -> str:
    if settings is None or name not in settings.partitions:
        return ""
    chosen = settings.partitions[name]
    words = [f"kind {chosen.kind}"] if chosen.kind else []
    words += [f"block_sizes {chosen.block_sizes}"] if chosen.block_sizes is not None else []
    words += [f"separate_fabrics {chosen.separate_fabrics}"] if chosen.separate_fabrics is not None else []
    return f"partitions.{name}: {', '.join(words)} ({settings.origin('partitions')})" if words else ""


def _groups(state: State, partition: str) -> list[GroupWhy]:
    inventory = state.inventory
    members = inventory.partitions[partition].nodes
    counts = Counter(node.group for n in members if (node := inventory.nodes.get(n)) and node.group)
    named = {g.name for g in inventory.groups.values() if partition in g.partitions}
    remembered = state.decision.memory.types
    found = []
    for name in sorted(named | set(counts)):
        group = inventory.groups.get(name)
        kind = group.instance_type if group else None
        seen = remembered.get(kind or "") or remembered.get(f"group:{name}")
        ability = "block" if "block" in (seen, capability(kind)) else seen or capability(kind)
        found.append(
            GroupWhy(name, kind, group.role if group else "unknown", counts.get(name, 0), ability, seen is not None)
        )
    return found
