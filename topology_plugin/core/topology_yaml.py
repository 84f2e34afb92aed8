"""topology.yaml: the text of a configuration, and a configuration from any text that Slurm loads.

Layout and outcomes as in Slurm's topology.yaml(5), tried on slurmctld 26.05.5 (tests/slurm/test_validation_real.py).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any

from topology_plugin.core import hostlists
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.topology import Block, Blocks, Body, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.core.yaml_text import load

HEADER = "# Written by hyperpod-topology from what the nodes registered; the next merge undoes what is changed here.\n"

# What may stand bare in a block-style value and can be nothing but text. Brackets: node lists start with a name.
_BARE = re.compile(r"[A-Za-z_][A-Za-z0-9_.,/\[\]-]*")

# What Slurm reads as false; any other text is true (run).
_FALSE = re.compile(r"|~|f|n|no|off|false|null|[+-]?(0+(\.0*)?|0x0+)", re.IGNORECASE)

Expand = Callable[[str], list[str]]


def render(configuration: Configuration) -> str:
    """The text of topology.yaml: default first, leaves before their parents, node lists folded.

    The same configuration gives the same bytes. The length is never a multiple of 4096 bytes: Slurm 25.05 up to
    25.11.5 reads such a file without its end and dies (src, field).
    """
    parts = [HEADER]
    for topology in sorted(configuration.topologies, key=lambda topology: not topology.default):
        parts.append(f"- topology: {_scalar(topology.name)}\n")
        parts.append(f"  cluster_default: {'true' if topology.default else 'false'}\n")
        parts.extend(_render_body(topology.body))
    text = "".join(parts)
    return text + "\n" if len(text.encode()) % 4096 == 0 else text


def _render_body(body: Body) -> Iterable[str]:
    if isinstance(body, Flat):
        yield "  flat: true\n"
        return
    fold = hostlists.fold
    if isinstance(body, Tree):
        yield "  tree:\n    switches:\n"
        for switch in body.switches:
            if switch.children:
                yield f"    - switch: {_scalar(switch.name)}\n      children: {_scalar(','.join(switch.children))}\n"
            elif switch.nodes:
                yield f"    - switch: {_scalar(switch.name)}\n      nodes: {_scalar(fold(switch.nodes))}\n"
            else:
                yield f"    - switch: {_scalar(switch.name)}\n"
        return
    yield "  block:\n    block_sizes:\n"
    for size in body.sizes:
        yield f"    - {size}\n"
    yield "    blocks:\n"
    for block in body.blocks:
        yield f"    - block: {_scalar(block.name)}\n"
        if block.nodes:
            yield f"      nodes: {_scalar(fold(block.nodes))}\n"


def _scalar(text: str) -> str:
    return text if _BARE.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def parse(text: str | bytes, expand: Expand = hostlists.expand, where: str = "topology.yaml") -> Configuration:
    """What Slurm loads from `text`, a topology.yaml or the output of `scontrol show topoconf`; no partition words.

    As Slurm does it: unknown keys are ignored, the first topology of a name and the first `cluster_default: true`
    count, a switch with nodes and children keeps its nodes. Raises InputError with every part that Slurm would not
    take, or that has no place in our model (ring, torus3d).
    """
    return _parsed(text, expand, where)


@lru_cache(maxsize=4)
def _parsed(text: str | bytes, expand: Expand, where: str) -> Configuration:
    """A pass asks several times what one text says, and the next pass mostly finds the same text."""
    found = load(text, where)
    if isinstance(found, dict):
        found = [found]  # a map stands for a list with one entry (run)
    if not isinstance(found, list) or not found:
        raise InputError(Issue(where, "holds no list of topologies", "write `- topology: NAME` with a kind"))
    issues: list[Issue] = []
    topologies: dict[str, Topology] = {}
    default: str | None = None
    for number, entry in enumerate(found):
        place = f"{where}: topology {number + 1}"
        if not isinstance(entry, dict):
            issues.append(Issue(place, "is not a map", "write topology, cluster_default and tree, block or flat"))
            continue
        name = entry.get("topology", "")
        if not isinstance(name, str):
            issues.append(Issue(place, "has no name", "write `topology: NAME`"))
            continue
        if name in topologies:
            continue
        place = f"{where}: topology {name}"
        if default is None and truth(entry.get("cluster_default")):
            default = name
        body = _parse_body(entry, expand, place, issues)
        topologies[name] = Topology(name, body if body is not None else Flat())
    if issues:
        raise InputError(issues)
    if default is None:
        default = next(iter(topologies))
    ordered = [Topology(t.name, t.body, t.name == default) for t in topologies.values()]
    return Configuration(tuple(sorted(ordered, key=lambda topology: not topology.default)))


def truth(value: Any) -> bool:
    """A YAML boolean as Slurm reads it."""
    return isinstance(value, str) and not _FALSE.fullmatch(value)


def kinds(entry: Mapping[str, Any]) -> list[str]:
    """The kinds an entry states. Empty maps don't count: `show topoconf` prints one for each kind that is not there."""
    stated = [kind for kind in ("tree", "block", "ring", "torus3d") if entry.get(kind) not in (None, "", {})]
    if truth(entry.get("flat")) or (entry.get("flat") == {} and not stated):
        stated.append("flat")
    return stated


def _parse_body(entry: Mapping[str, Any], expand: Expand, place: str, issues: list[Issue]) -> Body | None:
    stated = kinds(entry)
    if len(stated) != 1:
        what = f"has several kinds: {', '.join(stated)}" if stated else "has no kind"
        issues.append(Issue(place, what, "write exactly one of tree, block, flat: true"))
        return None
    kind = stated[0]
    if kind == "flat":
        return Flat()
    if kind not in ("tree", "block"):
        issues.append(Issue(place, f"is a {kind}, which is not handled here", "choose tree, block or flat"))
        return None
    body = entry[kind]
    key = "switches" if kind == "tree" else "blocks"
    units = body.get(key) if isinstance(body, dict) else None
    if not isinstance(units, list) or not units:
        issues.append(Issue(place, f"{kind} without {key}", f"list its {key}"))
        return None
    seen = len(issues)
    if kind == "tree":
        switches = tuple(_switch(unit, expand, place, issues) for unit in units)
        return Tree(switches) if len(issues) == seen else None
    blocks = tuple(_block(unit, expand, place, issues) for unit in units)
    if len(issues) > seen:
        return None
    return Blocks(_sizes(body, blocks, place, issues), blocks)


def _switch(unit: Any, expand: Expand, place: str, issues: list[Issue]) -> Switch:
    name = _name(unit, "switch", place, issues)
    nodes = _names(unit, "nodes", expand, f"{place}, switch {name}", issues)
    children = () if nodes else _names(unit, "children", expand, f"{place}, switch {name}", issues)
    return Switch(name, nodes, children)


def _block(unit: Any, expand: Expand, place: str, issues: list[Issue]) -> Block:
    name = _name(unit, "block", place, issues)
    return Block(name, _names(unit, "nodes", expand, f"{place}, block {name}", issues))


def _name(unit: Any, key: str, place: str, issues: list[Issue]) -> str:
    name = unit.get(key) if isinstance(unit, dict) else None
    if isinstance(name, str) and name:
        return name
    issues.append(Issue(place, f"a {key} without a name", f"write `{key}: NAME`"))
    return ""


def _names(unit: Any, key: str, expand: Expand, place: str, issues: list[Issue]) -> tuple[str, ...]:
    value = unit.get(key) if isinstance(unit, dict) else None
    if value is None or value == "" or value == {}:
        return ()
    if not isinstance(value, str):
        issues.append(Issue(place, f"{key} is not one text", "write a node list such as ip-10-1-1-[11-14]"))
        return ()
    try:
        return _expanded(value, expand)
    except InputError as error:
        issues.extend(Issue(place, f"{key}: {issue.what}", issue.remedy) for issue in error.issues)
        return ()


@lru_cache(maxsize=2048)
def _expanded(value: str, expand: Expand) -> tuple[str, ...]:
    """What is on disk, what is loaded and what was before have nearly all leaves in common."""
    return tuple(expand(value))


def _sizes(body: Mapping[str, Any], blocks: tuple[Block, ...], place: str, issues: list[Issue]) -> tuple[int, ...]:
    stated = body.get("block_sizes")
    if isinstance(stated, str):
        stated = [stated]  # one size may stand alone (run)
    if isinstance(stated, list) and stated:
        if all(isinstance(size, str) and size.isascii() and size.isdigit() and len(size) < 10 for size in stated):
            return tuple(int(str(size)) for size in stated)
        issues.append(Issue(place, f"block_sizes {stated!r} are not whole numbers", "write the base size first"))
    # Left out, Slurm takes the node count of the first block that has nodes (run).
    return (next((len(block.nodes) for block in blocks if block.nodes), 0),)


def same(configuration: Configuration, topoconf: str | bytes, expand: Expand = hostlists.expand) -> list[str]:
    """How `topoconf` (text of `scontrol show topoconf`) differs from `configuration`, a sentence each.

    The order of switches and of topologies behind the default doesn't matter; the order of blocks does.
    Raises InputError if `topoconf` can't be read.
    """
    loaded = parse(topoconf, expand, "topoconf")
    differences: list[str] = []
    wanted = {topology.name: topology for topology in configuration.topologies}
    found = {topology.name: topology for topology in loaded.topologies}
    for name in wanted.keys() | found.keys():
        if name not in found:
            differences.append(f"topology {name} is not loaded")
        elif name not in wanted:
            differences.append(f"topology {name} is loaded but not wanted")
        else:
            differences.extend(f"topology {name}: {what}" for what in _unlike(wanted[name], found[name]))
    return sorted(differences)


def _unlike(wanted: Topology, found: Topology) -> Iterable[str]:
    if wanted.default != found.default:
        yield "is the cluster default, loaded it is not" if wanted.default else "is loaded as the cluster default"
    if wanted.kind != found.kind:
        yield f"is loaded as {found.kind}, wanted is {wanted.kind}"
        return
    if isinstance(wanted.body, Tree) and isinstance(found.body, Tree):
        yield from _unlike_units(
            {s.name: (s.nodes, s.children) for s in wanted.body.switches},
            {s.name: (s.nodes, s.children) for s in found.body.switches},
            "switch",
        )
    if isinstance(wanted.body, Blocks) and isinstance(found.body, Blocks):
        if wanted.body.sizes != found.body.sizes:
            yield f"block sizes {_listed(found.body.sizes)} are loaded, wanted are {_listed(wanted.body.sizes)}"
        names = [block.name for block in found.body.blocks]
        if names != [block.name for block in wanted.body.blocks] and set(names) == {b.name for b in wanted.body.blocks}:
            yield "blocks are loaded in another order"
        yield from _unlike_units(
            {b.name: (b.nodes, ()) for b in wanted.body.blocks},
            {b.name: (b.nodes, ()) for b in found.body.blocks},
            "block",
        )


_Unit = tuple[tuple[str, ...], tuple[str, ...]]


def _unlike_units(wanted: Mapping[str, _Unit], found: Mapping[str, _Unit], word: str) -> Iterable[str]:
    for name in sorted(wanted.keys() | found.keys()):
        if name not in found:
            yield f"{word} {name} is not loaded"
        elif name not in wanted:
            yield f"{word} {name} is loaded but not wanted"
        elif wanted[name] != found[name]:
            for what, left, right in zip(("nodes", "children"), wanted[name], found[name], strict=True):
                if sorted(left) != sorted(right):
                    yield f"{word} {name} has {what} {_listed(right)}, wanted are {_listed(left)}"


def _listed(values: Iterable[object]) -> str:
    listed = [str(value) for value in values]
    return ", ".join(listed[:8]) + (f" and {len(listed) - 8} more" if len(listed) > 8 else "") if listed else "none"
