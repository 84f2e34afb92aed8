"""Rules about one topology's structure: units and their names, the tree's shape, block sizes, which nodes are in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from itertools import pairwise

from topology_plugin.core.declared import Declared, Unit
from topology_plugin.core.hostlists import expand, fold
from topology_plugin.core.issues import InputError
from topology_plugin.core.names import CONVERTED, is_safe
from topology_plugin.core.rules import V25_05, Findings

WARN_SWITCHES, MOST_SWITCHES = 700, 1200
_TOP_DOWN_LEVELS = 20
_MAX_LEVEL = 15


def structure(topology: Declared, findings: Findings, known: Collection[str] | None = None) -> None:
    """All rules about the topology itself. `known`: slurm.conf's nodes, only those count in a block; None: all do."""
    if topology.kind not in ("tree", "block"):
        return
    word = "switch" if topology.kind == "tree" else "block"
    if not topology.units:
        what = f"has no {word}{'es' if word == 'switch' else 's'}"
        findings.add("units-missing", topology.where, what, "make it flat")
        return
    _units(topology, word, findings)
    if topology.kind == "tree":
        _tree(topology, findings)
    else:
        _blocks(topology, known, findings)
    if len(topology.holds) < sum(len(unit.nodes or ()) for unit in topology.units):
        twice = [node for node, count in Counter(topology.nodes()).items() if count > 1]
        what = f"{_some(twice)} in two {word}{'es' if word == 'switch' else 's'}"
        findings.add("node-twice", topology.where, what, "keep each node in one")


def coverage(topology: Declared, partition: str, nodes: Collection[str], findings: Findings) -> None:
    """Every node of the partition is in the topology that it uses."""
    if topology.kind not in ("tree", "block"):
        return
    if not topology.holds.issuperset(nodes):
        missing = set(nodes).difference(topology.holds)
        what = f"{_some(missing)} of partition {partition} in none of its parts: jobs that need them wait for ever"
        findings.add("node-uncovered", topology.where, what, "put each node into one of its parts")


def unknown_nodes(topology: Declared, known: Collection[str], findings: Findings) -> None:
    strange = topology.holds.difference(known)
    if strange:
        remedy = "write the nodes: ALL means nothing here" if "ALL" in strange else "remove them"
        findings.add("node-unknown", topology.where, f"{_some(strange)} unknown to slurm.conf", remedy)


def _some(nodes: Iterable[str]) -> str:
    nodes = sorted(nodes)
    try:
        text = fold(nodes)
    except InputError:
        text = ", ".join(map(repr, nodes))
    return (text if len(text) <= 80 else text[:77] + "…") + (" is" if len(nodes) == 1 else f" ({len(nodes)} nodes) are")


def _named(names: list[str]) -> str:
    return ", ".join(repr(name) for name in names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def _units(topology: Declared, word: str, findings: Findings) -> None:
    names: Counter[str] = Counter()
    for unit in topology.units:
        if unit.name is None:
            findings.add("unit-unnamed", topology.where, f"a {word} has no name", f"write {word}: NAME")
            continue
        names[unit.name] += 1
        where = f"{topology.where}, {word} {unit.name}"
        if word == "switch" and len(unit.name) > 64:
            findings.add("name-long", where, "is longer than 64 letters", "shorten it")
        if unit.readable and unit.leaf and not unit.nodes and (unit.nodes is None or word == "block"):
            findings.add("unit-empty", where, "has no nodes", "remove it")
    remedy = "use a-z, 0-9, - and _, a letter first, at most 15 final digits"
    unsafe = [name for name in names if not is_safe(name)]
    if unsafe:
        findings.add("name-unsafe", topology.where, f"{_named(unsafe)}: may be read as other names", remedy)
    converted = [name for name in unsafe if _converted(name)]
    if converted:
        what = f"{_named(converted)}: read as numbers, truth values or nothing"
        findings.add("name-converted", topology.where, what, remedy)
    for name, count in names.items():
        if count > 1:
            where = f"{topology.where}, {word} {name}"
            findings.add("unit-twice", where, f"is there {count} times", "give each its own name")


def _converted(name: str) -> bool:
    """What Slurm's YAML reader up to 25.11 takes for a number, a boolean or nothing (src)."""
    if name[:1] == "~" or name.lower() in CONVERTED:
        return True
    try:
        float(name)
    except ValueError:
        return name.lower().startswith("0x")
    return True


# --- trees ---


def _tree(topology: Declared, findings: Findings) -> None:
    units = topology.units
    by_name: dict[str, Unit] = {}
    for unit in units:
        if unit.name is not None:
            by_name.setdefault(unit.name, unit)
    parents: Counter[str] = Counter()
    broken = False
    for unit in units:
        where = f"{topology.where}, switch {unit.name}"
        if not unit.readable:
            broken = True
            continue
        if unit.leaf:
            if unit.nodes is not None and unit.children is not None:
                remedy = "keep nodes or children"
                findings.add("nodes-and-children", where, "has nodes and children", remedy)
                if unit.children:
                    findings.add("children-ignored", where, f"{', '.join(unit.children[:5])} are cut off", remedy)
            continue
        children = unit.children or ()
        if not children:
            broken = True
            findings.add("children-empty", where, "has no children: slurmctld crashes", "remove the switch")
        parents.update(children)
        for child in dict.fromkeys(children):
            if child not in by_name or child == unit.name:
                broken = True
                what = f"its child {child!r} is " + ("itself" if child == unit.name else "no switch here")
                findings.add("child-undefined", where, what, "define it or take it out")
    for child, count in parents.items():
        if count > 1:
            where = f"{topology.where}, switch {child}"
            findings.add("two-parents", where, f"is a child {count} times", "give it one parent")
    _count(topology, findings)
    if broken or not units:
        return
    passes = _passes(units)
    if passes is None:
        findings.add("switch-loop", topology.where, "its switches are each other's children", "make it a tree")
        return
    if passes > _TOP_DOWN_LEVELS:
        what = f"is listed top-down with {passes} levels"
        findings.add("tree-too-deep", topology.where, what, "list leaves first, or fewer levels")
    _roots(topology, by_name, parents, findings)


def reconfigure_seconds(switches: int) -> float:
    """Of slurmctld's: 600 switches took 0.74 s, 1,000 2.7 s, 2,000 10 s (run)."""
    return 2.7 * (switches / 1000) ** 3


def _count(topology: Declared, findings: Findings) -> None:
    count = len(topology.units)
    if count <= WARN_SWITCHES:
        return
    what = f"has {count:,} switches: each reconfigure costs slurmctld about {reconfigure_seconds(count):.1f} s"
    rule = "switches-many" if count <= MOST_SWITCHES else "switches-too-many"
    findings.add(rule, topology.where, what, "use fewer layers, or a block or flat topology")


def _passes(units: Sequence[Unit]) -> int | None:
    """How often slurmctld goes over the list until every switch has its level; None: never (src: switch_record.c)."""
    settled = {unit.name for unit in units if unit.leaf}
    pending = [unit for unit in units if not unit.leaf]
    passes = 0
    while pending:
        passes += 1
        left = []
        for unit in pending:
            if all(child in settled for child in unit.children or ()):
                settled.add(unit.name)
            else:
                left.append(unit)
        if len(left) == len(pending):
            return None
        pending = left
    return passes


def _roots(topology: Declared, by_name: dict[str, Unit], parents: Counter[str], findings: Findings) -> None:
    """Leaf depths and node counts below each root, from the top, so that every switch is visited once a parent."""
    roots = [name for name in by_name if name not in parents]
    filled = []
    for root in roots:
        depths: set[int] = set()
        nodes = 0
        level = [root]
        depth = 0
        while level:
            below: list[str] = []
            for name in level:
                unit = by_name[name]
                if unit.leaf:
                    depths.add(depth)
                    nodes += len(unit.nodes or ())
                else:
                    below.extend(dict.fromkeys(unit.children or ()))
            level, depth = list(dict.fromkeys(below)), depth + 1
        if len(depths) > 1:
            levels = " and ".join(map(str, sorted(depths)))
            what = f"its leaves lie {levels} levels below: a job -N1-{nodes + 1} can crash slurmctld"
            where = f"{topology.where}, root {root}"
            findings.add("depth-uneven", where, what, "put a switch with one child above the high leaves")
        if nodes:
            filled.append((root, nodes))
    if len(filled) > 1:
        largest = max(count for _, count in filled)
        names = ", ".join(name for name, _ in filled[:5]) + (" …" if len(filled) > 5 else "")
        what = f"has {len(filled)} roots ({names}): no job gets more than {largest} nodes"
        findings.add("roots-several", topology.where, what, "put one switch above them unless that is meant")


# --- blocks ---


def _blocks(topology: Declared, known: Collection[str] | None, findings: Findings) -> None:
    here = None if known is None else set(known)
    counts = [
        len(unit.nodes or ()) if here is None else len(here.intersection(unit.nodes or ())) for unit in topology.units
    ]
    if not topology.sizes:
        first = next((count for count in counts if count), None)
        if first is None:
            what = "has no block sizes, and no node to count instead"
            findings.add("block-sizes-none", topology.where, what, "write block_sizes")
            return
        what = f"has no block sizes: {first}, the first block's node count, is the base"
        findings.add("block-sizes-missing", topology.where, what, "write block_sizes")
        _short(topology, counts, first, findings)
        return
    base = topology.sizes[0]
    if base > 0 and base % 65536 == 0:
        # Slurm keeps the base in 16 bits and divides by it (src: block_record.c).
        what = f"base size {base} is a multiple of 65536: slurmctld crashes"
        findings.add("block-sizes-overflow", topology.where, what, "write a smaller one")
        return
    wrong = [size for size in topology.sizes if not _is_level(size, base)]
    if wrong:
        for rule in ("block-sizes", "block-sizes-dropped"):
            what = f"block size {wrong[0]} is not {base} x 2^k with k up to {_MAX_LEVEL}"
            findings.add(rule, topology.where, what, "write the base size first, then base x 2^k")
        return
    _short(topology, counts, base, findings)
    if len(set(topology.sizes)) > 1:
        _levels(topology, findings)


def _is_level(size: int, base: int) -> bool:
    base &= 0xFFFF
    if size <= 0 or base == 0 or size % base:
        return False
    ratio = size // base
    return ratio.bit_count() == 1 and ratio <= 1 << _MAX_LEVEL


def _short(topology: Declared, counts: list[int], base: int, findings: Findings) -> None:
    if findings.version is None or findings.version >= V25_05:
        return
    for unit, count in zip(topology.units, counts, strict=True):
        if unit.readable and unit.nodes is not None and count < base:
            where = f"{topology.where}, block {unit.name}"
            what = f"has {count} nodes, fewer than the base size {base}"
            findings.add("block-short", where, what, "use a smaller base size, or a tree")


def _levels(topology: Declared, findings: Findings) -> None:
    width = max(topology.sizes or (1,)) // (topology.sizes or (1,))[0]
    if len(topology.units) % width:
        what = f"{len(topology.units)} blocks are no multiple of {width}, the largest level: the largest jobs never run"
        findings.add("blocks-unpadded", topology.where, what, "add empty blocks at the end")
    for names in _joined_names(topology):
        try:
            expand(names)
        except InputError as error:
            what = f"the names of blocks that form a larger one are no node list: {error.issues[0].what}"
            findings.add("block-name", topology.where, what, "use a-z, 0-9, - and _ in names")
            return


def _joined_names(topology: Declared) -> Iterable[str]:
    """For each larger block the names of its blocks, as Slurm joins and parses them (src: block_record.c)."""
    count = len(topology.units)
    widths = sorted({size // (topology.sizes or (1,))[0] for size in topology.sizes or (1,)})
    for lower, width in pairwise(widths):
        for at in range(0, count, width):
            if width <= count - at or lower < count - at:
                yield ",".join(unit.name or "" for unit in topology.units[at : at + width])
        if width >= count:
            return
