"""A tree of switches from network paths: one root, every leaf at the same depth, nothing invented."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from topology_plugin.core.hostlists import node_order
from topology_plugin.core.names import digest, is_safe, switch_name, unplaced_name
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Switch, Tree

ROOT = "root"
UNPLACED = "unplaced"
UNPLACED_ALL = "unplaced-all"

Path = tuple[str, ...]
Leaves = dict[Path, list[str]]
"""Network path → the nodes at its end: a leaf has many, and what concerns all of them is worked out once."""


@dataclass(frozen=True)
class Grown:
    """A tree and what an operator should know of it."""

    tree: Tree
    notes: tuple[str, ...] = ()


@dataclass
class _Branch:
    """A switch while the tree grows: `nodes` hang directly on it, in order."""

    name: str
    nodes: list[str] = field(default_factory=list)
    children: list[_Branch] = field(default_factory=list)


def grow(
    positions: Mapping[str, Position],
    unplaced: Iterable[str] = (),
    *,
    zones: Mapping[str, str] | None = None,
    separate_fabrics: bool | str = "auto",
    max_unplaced_leaves: int = 64,
) -> Grown:
    """The tree of placed nodes (`positions`: node → position with a path) and unplaced ones.

    `zones`: node → availability zone id, where known. `separate_fabrics`: True separates whatever lies under different
    top network nodes, "auto" only what lies in different known zones, False nothing. Every leaf under one root has the
    same depth: slurmctld can be crashed by any user otherwise (run; rule `depth-uneven`).
    """
    if not positions:
        raise ValueError("a tree needs at least one placed node")
    leaves = _leaves(positions)
    names, notes = _names(leaves)
    fabrics = _fabrics(leaves, zones or {}, separate_fabrics)
    apart = len(fabrics) > 1
    lost = _unplaced_branch(sorted(unplaced, key=node_order), max_unplaced_leaves)
    roots: list[_Branch] = []
    for root_name, members in fabrics:
        depth_wanted = 2 if lost and not apart else 1
        tops = _branches(members, names, depth_wanted)
        if lost and not apart:
            tops.append(lost)
        root = _Branch(root_name, children=tops)
        _level(root)
        roots.append(root)
    if lost and apart:
        roots.append(lost)
    top_ids = sorted({path[0] for path in leaves})
    if apart:
        notes.append("a job cannot span " + " and ".join(root.name for root in roots))
    elif len(top_ids) > 1:
        notes.append(f"one root joins the top network nodes {', '.join(top_ids)}")
    if lost and len(lost.children) == 1 and lost.children[0].name == UNPLACED_ALL:
        notes.append(
            f"{len(lost.children[0].nodes)} unplaced nodes share the leaf {UNPLACED_ALL} "
            f"(more than max_unplaced_leaves = {max_unplaced_leaves}): they only look near to each other"
        )
    return Grown(Tree(tuple(_listed(roots))), tuple(notes))


def _leaves(positions: Mapping[str, Position]) -> Leaves:
    found: Leaves = defaultdict(list)
    for node, position in positions.items():
        found[position.path].append(node)
    clean: Leaves = defaultdict(list)
    for path, nodes in found.items():
        # A layer that repeats the one above it is no layer of its own.
        clean[tuple(layer for i, layer in enumerate(path) if i == 0 or layer != path[i - 1])] += nodes
    return clean


def _names(leaves: Leaves) -> tuple[dict[Path, str], list[str]]:
    """A name for every switch, keyed by its whole path: its id's, unless another switch has that id.

    One id below two parents is a contradiction between labels. Which one is right is not ours to say: the place that
    more nodes report keeps the id (ties: the first in order), the others get the hash of their path.
    """
    reports: Counter[Path] = Counter()
    for path, nodes in leaves.items():
        for depth in range(1, len(path) + 1):
            reports[path[:depth]] += len(nodes)
    places: dict[str, list[Path]] = defaultdict(list)
    for prefix in reports:
        places[prefix[-1]].append(prefix)
    names: dict[Path, str] = {}
    notes: list[str] = []
    for network_id, prefixes in sorted(places.items()):
        prefixes.sort(key=lambda prefix: (-reports[prefix], prefix))
        names[prefixes[0]] = switch_name(network_id)
        for other in prefixes[1:]:
            names[other] = f"sw-{digest('/'.join(('', *other)))}"
        if len(prefixes) > 1:
            above = ", ".join("/".join(prefix[:-1]) or "the top" for prefix in prefixes)
            notes.append(f"{network_id} is reported below different switches ({above}): kept apart")
    return names, notes


def _fabrics(leaves: Leaves, zones: Mapping[str, str], separate: bool | str) -> list[tuple[str, Leaves]]:
    """(root name, its leaves): one entry unless fabrics are separated."""
    by_top: dict[str, Leaves] = defaultdict(dict)
    for path, nodes in leaves.items():
        by_top[path[0]][path] = nodes
    if separate is True and len(by_top) > 1:
        return [(f"root-{switch_name(top)}", by_top[top]) for top in sorted(by_top)]
    if separate == "auto" and zones and len(by_top) > 1:
        groups = _zone_groups(by_top, zones)
        if len([zone for zone in groups if zone]) > 1:
            return [
                (_root_of(zone), {path: nodes for top in groups[zone] for path, nodes in by_top[top].items()})
                for zone in sorted(groups)
            ]
    return [(ROOT, leaves)]


def _zone_groups(by_top: Mapping[str, Leaves], zones: Mapping[str, str]) -> dict[str, set[str]]:
    """Zone label → top network nodes. A top seen in two zones joins them; "" holds the tops of no known zone."""
    seen = {
        top: {zones[node] for nodes in leaves.values() for node in nodes if node in zones}
        for top, leaves in by_top.items()
    }
    joined: list[set[str]] = []
    for found in seen.values():
        overlapping = [group for group in joined if group & found]
        joined = [group for group in joined if not group & found]
        if found:
            joined.append(found.union(*overlapping))
    groups: dict[str, set[str]] = defaultdict(set)
    for top, found in seen.items():
        label = next(("-".join(sorted(group)) for group in joined if group & found), "")
        groups[label].add(top)
    return groups


def _root_of(zone: str) -> str:
    if not zone:
        return ROOT
    name = f"{ROOT}-{zone}"
    return name if is_safe(name) else f"{ROOT}-{digest(zone)}"


def _branches(leaves: Leaves, names: Mapping[Path, str], depth_wanted: int) -> list[_Branch]:
    """The branches below the root: layers that every path shares are folded into it, but at least `depth_wanted`
    levels stay where the paths have as many (what hangs beside them needs the depth)."""
    shortest = min(len(path) for path in leaves)
    first = next(iter(leaves))
    shared = 0
    while shared < shortest - 1 and all(path[shared] == first[shared] for path in leaves):
        shared += 1
    shared = max(0, min(shared, max(len(path) for path in leaves) - depth_wanted))
    found: dict[Path, _Branch] = {}
    tops: list[_Branch] = []
    for path, nodes in leaves.items():
        for depth in range(shared + 1, len(path) + 1):
            prefix = path[:depth]
            if prefix not in found:
                found[prefix] = _Branch(names[prefix])
                (tops if depth == shared + 1 else found[path[: depth - 1]].children).append(found[prefix])
        found[path].nodes = sorted(nodes, key=node_order)
    return tops


def _unplaced_branch(nodes: list[str], most: int) -> _Branch | None:
    if not nodes:
        return None
    if len(nodes) > most:
        return _Branch(UNPLACED, children=[_Branch(UNPLACED_ALL, nodes)])
    return _Branch(UNPLACED, children=[_Branch(unplaced_name(node), [node]) for node in nodes])


def _level(branch: _Branch) -> int:
    """Raises whatever is too low below `branch` until all its leaves are equally deep; its own nodes get a leaf.
    Returns how many levels of switches are then below it."""
    heights = [_level(child) for child in branch.children]
    if not heights:
        return 0
    wanted = max(heights)
    branch.children = [
        child if height == wanted else _raised(child, height, wanted)
        for child, height in zip(branch.children, heights, strict=True)
    ]
    if branch.nodes:
        own = _Branch(f"{branch.name}-l1", branch.nodes)
        for level in range(2, wanted + 2):
            own = _Branch(f"{branch.name}-l{level}", children=[own])
        branch.children.append(own)
        branch.nodes = []
    return wanted + 1


def _raised(branch: _Branch, height: int, wanted: int) -> _Branch:
    """Fillers directly above: `<name>-l1` next to it, counted on from those that its own nodes got below it."""
    name = branch.name
    used = height if any(child.name.startswith(f"{name}-l") for child in branch.children) else 0
    for level in range(1, wanted - height + 1):
        branch = _Branch(f"{name}-l{used + level}", children=[branch])
    return branch


def _listed(roots: list[_Branch]) -> Iterable[Switch]:
    """Leaves first, then level by level up to the roots, each level in order of names."""
    by_height: dict[int, list[Switch]] = defaultdict(list)

    def visit(branch: _Branch) -> int:
        height = 1 + max([visit(child) for child in branch.children], default=-1)
        children = tuple(sorted(child.name for child in branch.children))
        by_height[height].append(Switch(branch.name, tuple(branch.nodes), children))
        return height

    for root in roots:
        visit(root)
    for height in sorted(by_height):
        yield from sorted(by_height[height], key=lambda switch: switch.name)
