"""Rules that a topology.yaml breaks by its text alone: shapes, types, keys, node lists. Nothing here raises."""

from __future__ import annotations

import re
from typing import Any

from topology_plugin.core.declared import Declared, DeclaredKind, Unit
from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError
from topology_plugin.core.rules import Findings
from topology_plugin.core.topology_yaml import truth
from topology_plugin.core.yaml_text import Unreadable, load

FILE = "topology.yaml"

_FUNCTION = re.compile(r"(?:^|[, \t\r\n])(?:switch|block|ring)(?:with)?\{[^}]*\}")
_OVERFLOWS = re.compile(r"[0-9]{20}")
_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|[0-9]+)")
_LARGEST_SIZE = 2**31 - 1
_ENTRY_KEYS = {"topology", "cluster_default", "tree", "block", "flat", "ring", "torus3d"}
_UNITS: dict[str, tuple[str, str]] = {"tree": ("switches", "switch"), "block": ("blocks", "block")}


def read(text: str | bytes, findings: Findings) -> tuple[Declared, ...]:
    """What the text declares, as far as it can be read, in its order; of two topologies of one name Slurm keeps the
    first, but dies of a fault in either (run)."""
    try:
        found = load(text, FILE)
    except Unreadable as error:
        issue = error.issues[0]
        findings.add(error.rule, issue.where, issue.what, issue.remedy)
        return ()
    if found is None:
        findings.add("yaml-empty", FILE, "is empty", "write the list of topologies, or remove the file and its words")
        return ()
    if found == []:
        findings.add("yaml-empty-list", FILE, "is an empty list: slurmctld crashes", "write at least `flat: true`")
        return ()
    # A map stands for a list with one entry (run).
    entries = [found] if isinstance(found, dict) else found
    if not isinstance(entries, list):
        _type(findings, FILE, "the file", "a list of topologies")
        return ()
    result: list[Declared] = []
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            _type(findings, f"{FILE}: topology {number}", "it", "a map")
            continue
        topology = _entry(entry, number, findings)
        if any(former.name == topology.name for former in result):
            findings.add("topology-twice", topology.where, "a topology of this name stands above: this one is lost")
        result.append(topology)
    _defaults(tuple(result), findings)
    return tuple(result)


def _defaults(topologies: tuple[Declared, ...], findings: Findings) -> None:
    defaults = [topology.name for topology in topologies if topology.default]
    if len(defaults) > 1:
        what = f"{', '.join(defaults)} are all cluster_default: {defaults[0]} is it"
        findings.add("default-several", FILE, what, "keep cluster_default: true once, on the first")
    elif not defaults and topologies:
        what = f"no cluster_default: {topologies[0].name or 'the first'} is it"
        findings.add("default-none", FILE, what, "write cluster_default: true on the first")


def _type(findings: Findings, where: str, what: str, wanted: str) -> None:
    findings.add("yaml-type", where, f"{what} is not {wanted}", f"write {wanted}")


def _entry(entry: dict[str, Any], number: int, findings: Findings) -> Declared:
    name = entry.get("topology", "")
    where = f"{FILE}: topology {name if isinstance(name, str) and name else number}"
    for key in ("topology", "cluster_default"):
        if not isinstance(entry.get(key, ""), str):
            _type(findings, where, key, "a text")
    _unknown(entry, _ENTRY_KEYS, where, findings)
    if not isinstance(name, str) or not name:
        findings.add("topology-unnamed", where, "has no name: no partition can choose it", "write topology: NAME")
        name = ""
    default = truth(entry.get("cluster_default"))
    kind = _kind(entry, where, findings)
    if kind in ("ring", "torus3d") and not any(entry[kind].values()):
        findings.add("units-missing", where, f"is an empty {kind}", "list its parts, or write flat: true")
    if kind not in ("tree", "block"):
        return Declared(where, name, kind, default)
    body = entry[kind]
    units_key, unit_key = _UNITS[kind]
    _unknown(body, {units_key, "block_sizes"} if kind == "block" else {units_key}, where, findings)
    sizes = _sizes(body["block_sizes"], where, findings) if kind == "block" and "block_sizes" in body else None
    units = body.get(units_key, [])
    if not isinstance(units, list):
        _type(findings, where, units_key, "a list")
        return Declared(where, name, None, default)
    if not units:
        findings.add("units-missing", where, f"has no {units_key}", f"list its {units_key}, or write flat: true")
        return Declared(where, name, None, default)
    return Declared(where, name, kind, default, tuple(_unit(u, unit_key, where, findings) for u in units), sizes)


def _kind(entry: dict[str, Any], where: str, findings: Findings) -> DeclaredKind | None:
    stated: list[DeclaredKind] = []
    for kind in ("tree", "block", "ring", "torus3d"):
        if kind not in entry or entry[kind] == {}:
            continue
        if kind in ("ring", "torus3d"):
            findings.add("kind-unknown", where, f"{kind} is known from 26.05 on", "choose tree, block or flat")
        if not isinstance(entry[kind], dict):
            _type(findings, where, kind, "a map")
            return None
        stated.append(kind)
    flat = entry.get("flat", "")
    if isinstance(flat, list):
        _type(findings, where, "flat", "true")
        return None
    if isinstance(flat, dict):
        findings.add("kind-unknown", where, "flat as a map is known from 26.05 on", "write flat: true")
    if isinstance(flat, dict) or truth(flat):
        stated.append("flat")
    if not stated:
        findings.add("kind-missing", where, "has no kind", "write exactly one of tree, block, flat: true")
        return None
    if len(stated) > 1:
        what = f"has several kinds: {', '.join(stated)}"
        findings.add("kind-several", where, what, "keep one of them; for others define topologies of their own")
        return None
    return stated[0]


def _unknown(found: dict[str, Any], known: set[str], where: str, findings: Findings) -> None:
    for key in sorted(found.keys() - known):
        findings.add(
            "unknown-key", where, f"{key!r} is no key here: Slurm ignores it", f"known: {', '.join(sorted(known))}"
        )


def _unit(unit: Any, key: str, where: str, findings: Findings) -> Unit:
    if not isinstance(unit, dict):
        _type(findings, where, f"a {key}", "a map")
        return Unit("")
    name = unit.get(key)
    if name is not None and not isinstance(name, str):
        _type(findings, where, f"the name of a {key}", "a text")
        name = ""
    here = f"{where}, {key} {name}"
    known = {key, "nodes", "children"} if key == "switch" else {key, "nodes"}
    _unknown(unit, known, here, findings)
    nodes = _list(unit, "nodes", here, findings)
    children = _list(unit, "children", here, findings) if key == "switch" else ()
    readable = nodes is not None and children is not None
    return Unit(name, nodes if "nodes" in unit else None, children if "children" in unit else None, readable)


def _list(unit: dict[str, Any], key: str, where: str, findings: Findings) -> tuple[str, ...] | None:
    value = unit.get(key, "")
    if not isinstance(value, str):
        _type(findings, where, key, "one text, such as ip-10-1-1-[11-14]")
        return None
    return names_in(value, key, where, findings)


def names_in(value: str, key: str, where: str, findings: Findings) -> tuple[str, ...] | None:
    """The names in a node list; None where they can't be known (and a finding says why)."""
    if "{" in value and key == "nodes" and _FUNCTION.search(value):
        what = f"{key}: hostlist functions crash slurmctld inside topology.yaml"
        findings.add("hostlist-function", where, what, "write the node names")
        return None
    try:
        return tuple(expand(value))
    except InputError as error:
        issue = error.issues[0]
        # Slurm reads what it can't make sense of as a strange name, unless a bracket stays open or holds no numbers;
        # numbers beyond 64 bits overflow its check of a range's length (run).
        invalid = value.rfind("[") > value.rfind("]") or ("range" in issue.what and not _OVERFLOWS.search(value))
        rule = "hostlist-invalid" if invalid or key == "children" else "hostlist-odd"
        findings.add(rule, where, f"{key}: {issue.what}", issue.remedy)
        return None


def _sizes(value: Any, where: str, findings: Findings) -> tuple[int, ...] | None:
    if isinstance(value, dict):
        _type(findings, where, "block_sizes", "a list")
        return None
    sizes = []
    for size in value if isinstance(value, list) else [value]:
        number = _whole(size)
        if number is None:
            what = f"block size {size!r} is no whole number up to {_LARGEST_SIZE}"
            findings.add("block-sizes-type", where, what, "write the base size first, then base x 2^k")
            return None
        sizes.append(number)
    return tuple(sizes)


def _whole(value: Any) -> int | None:
    if not isinstance(value, str) or len(value) > 20 or not _NUMBER.fullmatch(value):
        return None
    number = int(value, 16) if "x" in value.lower() else int(value)
    return number if abs(number) <= _LARGEST_SIZE else None
