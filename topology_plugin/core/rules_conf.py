"""Rules about what slurm.conf says of topologies, and about the lines of topology.conf."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from topology_plugin.core.declared import Declared, DeclaredKind, Unit
from topology_plugin.core.rules import V25_05, V26_05, Findings, Numbers
from topology_plugin.core.rules_yaml import names_in
from topology_plugin.core.slurm_conf import SlurmConf

CONF = "topology.conf"
# The name of the topology that comes from TopologyPlugin where there is no topology.yaml (run).
PLUGIN_TOPOLOGY = "default"
_PLUGIN_KINDS: Mapping[str, DeclaredKind] = {"tree": "tree", "block": "block", "default": "flat", "none": "flat"}
# The reader of slurm.conf keeps no parameter without a value.
_NO_PLUGIN = re.compile(r"^[ \t]*TopologyPlugin[ \t]*=[ \t]*(#.*)?\r?$", re.IGNORECASE | re.MULTILINE)
_PAIR = re.compile(r"[ \t]*([^ \t=]+)[ \t]*=[ \t]*(?:\"([^\"]*)\"|([^ \t\"]*))")
_LINE_KEYS: Mapping[str, Mapping[str, frozenset[str]]] = {
    "tree": {"switchname": frozenset({"nodes", "switches", "linkspeed"})},
    "block": {"blockname": frozenset({"nodes"}), "blocksizes": frozenset()},
}


def words(conf: SlurmConf, topologies: Iterable[str], findings: Findings) -> None:
    """Partitions' `Topology=`. `topologies`: the names there are (25.05 or newer)."""
    known = list(topologies)
    for name, partition in conf.partitions.items():
        word = partition.topology
        if word is None:
            continue
        where = f"{partition.file}:{partition.line}: PartitionName={name}"
        findings.add("word-unsupported", where, "Topology= is known from 25.05 on: slurmctld dies", "take it out")
        if not word:
            findings.add("word-empty", where, "Topology= without a value", "name a topology or take it out")
        elif word not in known:
            near = next((other for other in known if other.lower() == word.lower()), None)
            what = f"Topology={word} is not defined" + (f" ({near} is: case counts)" if near else "")
            findings.add("word-unknown", where, what, "define it or take the word out")
        if "{" in partition.nodes_text:
            what = f"Nodes={partition.nodes_text[:40]} follows the cluster's default topology"
            findings.add("function-in-conf", where, what, "write the node names")


def node_words(conf: SlurmConf, topologies: Sequence[Declared], findings: Findings) -> None:
    """NodeName lines' `Topology=`: `tree:root:leaf,block:b1`, each name of a topology with units from the top."""
    by_name = {topology.name: topology for topology in reversed(topologies)}
    seen: set[tuple[str, int]] = set()
    stated: dict[str, set[str]] = {}
    for node in conf.nodes.values():
        value = node.params.get("topology")
        if value is None:
            continue
        parts = [part.split(":") for part in value.split(",")]
        for part in parts:
            stated.setdefault(part[0], set()).add(node.name)
        if (node.file, node.line) in seen:
            continue
        seen.add((node.file, node.line))
        where = f"{node.file}:{node.line}: NodeName={node.name}"
        findings.add("word-unsupported", where, "Topology= is known from 25.05 on: slurmctld dies", "take it out")
        if (gone := _gone(value, by_name)) is not None:
            findings.add("node-word-unknown", where, f"Topology={value}: {gone}", "define it or take it out")
        for part in parts:
            if len(part) == 1 and part[0] in by_name and by_name[part[0]].kind in ("tree", "block"):
                what = f"Topology={part[0]} names no switch or block: jobs of two nodes are refused here"
                findings.add("node-word-bare", where, what, "write NAME:UNIT or take it out")
    for name, nodes in stated.items():
        known = by_name.get(name)
        both = nodes & known.holds if known is not None and known.kind == "block" else set()
        if both:
            what = f"{len(both)} nodes, {min(both)} first, are in its blocks and say so in slurm.conf too"
            findings.add("node-stated-twice", f"topology {name}", what, "say it in one place")


def saved_words(saved: Mapping[str, str], topologies: Sequence[Declared], findings: Findings) -> None:
    """What slurmctld keeps of nodes across a restart: node → `tree:root:leaf,block:b1`."""
    by_name = {topology.name: topology for topology in reversed(topologies)}
    gone: dict[str, list[str]] = {}
    for node, value in saved.items():
        if (problem := _gone(value, by_name)) is not None:
            gone.setdefault(f"{value}, but {problem}", []).append(node)
    for what, nodes in gone.items():
        more = f" and {len(nodes) - 1} more" if len(nodes) > 1 else ""
        remedy = "scontrol update NodeName=… Topology= with what will be there, or keep that topology"
        findings.add("saved-word-unknown", f"node {nodes[0]}{more}", f"slurmctld keeps Topology={what}", remedy)


def _gone(value: str, by_name: Mapping[str, Declared]) -> str | None:
    """What a node's `Topology=` names that is not there. Switches below an existing one are made (run)."""
    for part in value.split(","):
        name, *units = part.split(":")
        topology = by_name.get(name)
        if topology is None:
            return f"there is no topology {name}"
        if units and topology.kind in ("tree", "block") and units[0] not in {unit.name for unit in topology.units}:
            return f"{units[0]} is not in topology {name}"
    return None


def parameters(conf: SlurmConf, default: Declared | None, findings: Findings) -> None:
    """Parameters that go badly with topologies. `default`: the cluster default, where it can be known."""
    param = conf.parameters.get("topologyparam", "").lower()
    for word, kind in (("switchasnoderank", "tree"), ("blockasnoderank", "block")):
        if word in param and default is not None and default.kind not in (kind, None):
            what = f"TopologyParam={word} works only where the cluster default is a {kind}: here it is {default.kind}"
            findings.add("rank-without-default", _place(conf, "topologyparam"), what, "take it out")
    if keeps_words(conf):
        what = "KeepPartInfo: partitions keep the Topology= that slurmctld saved, which dies once that is gone"
        findings.add("keep-part-info", _place(conf, "reconfigflags"), what, "take it out")


def keeps_words(conf: SlurmConf) -> bool:
    """Partitions that slurmctld knows keep their word, or none, through reconfigures and restarts, whatever slurm.conf
    says (run, 26.05.5)."""
    return "keeppartinfo" in conf.parameters.get("reconfigflags", "").lower()


def plugin(conf: SlurmConf, findings: Findings) -> DeclaredKind | None:
    """The kind that TopologyPlugin chooses (where no topology.yaml takes over); None: one that can't be judged."""
    value = conf.parameters.get("topologyplugin")
    where = _place(conf, "topologyplugin")
    if not value:
        if value is None and not any(_NO_PLUGIN.search(file.text) for file in conf.files):
            return "flat"
        findings.add("plugin-empty", where, "TopologyPlugin= without a value", "write topology/default")
        return None
    name = value.removeprefix("topology/")
    kinds = dict(_PLUGIN_KINDS)
    if findings.version is None or findings.version >= V25_05:
        kinds["flat"] = "flat"
    if findings.version is None or findings.version >= V26_05:
        kinds |= {"ring": "ring", "torus3d": "torus3d"}
    elif name == "3d_torus":
        return None  # known up to 25.11, without a file of its own
    if name not in kinds:
        what = f"TopologyPlugin={value} is not known to this Slurm"
        findings.add("plugin-unknown", where, what, "write topology/default, topology/tree or topology/block")
        return None
    return kinds[name]


def _place(conf: SlurmConf, key: str) -> str:
    path, line = conf.parameter_lines.get(key, (conf.files[0].path, 0))
    return f"{path}:{line}" if line else path


def topology_conf(text: str | None, kind: DeclaredKind, findings: Findings) -> Declared:
    """What topology.conf declares as a `kind` (tree or block). None: no such file."""
    nothing = Declared(CONF, PLUGIN_TOPOLOGY, None, True)
    if text is None:
        what = f"TopologyPlugin=topology/{kind} needs it: slurmctld waits 60 s for it, then dies"
        findings.add("conf-missing", CONF, what, "write it, or set TopologyPlugin=topology/default")
        return nothing
    units: list[Unit] = []
    sizes: tuple[int, ...] | None = None
    for number, line in _lines(text):
        where = f"{CONF}:{number}"
        if line[:7].lower() == "include" and line[7:8] in (" ", "\t"):
            return nothing  # what other files say is not known here
        pairs = _pairs(line)
        first = next(iter(pairs), "")
        known = _LINE_KEYS.get(kind, {}).get(first)
        if pairs and kind not in _LINE_KEYS:
            return nothing
        if known is None or not pairs[first] or pairs.keys() - known - {first}:
            what = f"{line[:40]!r} can't be read under topology/{kind}"
            findings.add("conf-line", where, what, "see topology.conf(5)")
        elif first == "blocksizes":
            sizes = _block_sizes(pairs[first], where, findings)
        else:
            nodes = names_in(pairs.get("nodes", ""), "nodes", where, findings)
            children = names_in(pairs.get("switches", ""), "children", where, findings)
            readable = nodes is not None and children is not None
            speed = pairs.get("linkspeed", "1")
            if not speed.isdigit() or (kind == "tree" and pairs.get("nodes") == pairs.get("switches") == ""):
                findings.add("conf-line", where, f"{line[:40]!r} can't be read", "see topology.conf(5)")
            nodes = nodes if "nodes" in pairs else None
            units.append(Unit(pairs[first], nodes, children if "switches" in pairs else None, readable))
    if not units:
        if any(finding.rule == "conf-line" for finding in findings.found):
            return nothing
        for rule in ("conf-empty", "conf-empty-idle"):
            what = f"is empty under TopologyPlugin=topology/{kind}"
            findings.add(rule, CONF, what, "fill it, or set TopologyPlugin=topology/default")
        return nothing
    return Declared(CONF, PLUGIN_TOPOLOGY, kind, True, tuple(units), sizes)


def _pairs(line: str) -> dict[str, str]:
    """Lower-case key → value; {} if anything else stands there."""
    pairs: dict[str, str] = {}
    at = 0
    while at < len(line.rstrip()):
        match = _PAIR.match(line, at)
        if match is None:
            return {}
        pairs[match[1].lower()] = match[2] if match[2] is not None else match[3]
        at = match.end()
    return pairs


def _block_sizes(value: str, where: str, findings: Findings) -> tuple[int, ...] | None:
    parts = [part for part in value.split(",") if part]
    if not all(re.fullmatch(r"[ +-]*[0-9]{1,9}", part) for part in parts):
        findings.add("block-sizes-type", where, f"BlockSizes={value} are not whole numbers", "base size first")
        return None
    return tuple(int(part) for part in parts)


def _lines(text: str) -> Iterable[tuple[int, str]]:
    """(number, line) without comments; a backslash at a line's end joins the next. A byte order mark stays, and is
    fatal (run)."""
    joined, start = "", 0
    for number, line in enumerate(text.split("\n"), 1):
        start = start or number
        line = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        if whole := (joined + line).strip(" \t\r"):
            yield start, whole
        joined, start = "", 0
    if joined.strip():
        yield start, joined.strip()


def versions(conf: SlurmConf, version: Numbers | None, block: bool, findings: Findings) -> None:
    """What the version itself means. `block`: some topology has blocks."""
    text = "this Slurm" if version is None else "{}.{:02}.{}".format(*version)
    findings.add("slurm-too-old", f"Slurm {text}", "is older than 24.11, the oldest that works", "upgrade Slurm")
    if "enable_configless" in conf.parameters.get("slurmctldparameters", "").lower():
        what = "does not send topology.yaml to configless nodes, whose slurmd then dies"
        findings.add("configless-unsent", f"Slurm {text}", what, "upgrade to 25.11.7 or newer")
    if block and any(node.state == "CLOUD" for node in conf.nodes.values()):
        what = "drops powered-down CLOUD nodes from blocks until a reconfigure"
        findings.add("cloud-drops-out", f"Slurm {text}", what, "upgrade to 25.11.7 or newer")
    findings.add(
        "slurm-untested", f"Slurm {text}", "is newer than 26.05, with which this was tested", "report oddities"
    )
