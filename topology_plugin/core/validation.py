"""What Slurm would make of a configuration, without asking it: every rule of rules.RULES, over texts and models.

Nothing here raises for what a file holds. `version`: of the installed Slurm, None where it isn't known.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from topology_plugin.core import rules_conf, rules_topology, rules_yaml
from topology_plugin.core.declared import Declared, declared
from topology_plugin.core.rules import V25_05, Finding, Findings, Numbers, healthy, refusing, unhealthy
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.topology import Configuration
from topology_plugin.core.yaml_text import encoded

__all__ = [
    "Finding", "check_conf", "check_configuration", "check_files", "check_yaml_text",
    "healthy", "refusing", "saved_words", "unhealthy",
]  # fmt: skip

Dynamic = Iterable[tuple[str, Sequence[str]]]
"""Nodes that only slurmctld knows: name, features."""

_PAGE = 4096


def check_yaml_text(
    text: str | bytes, conf: SlurmConf | None, version: Numbers | None, dynamic: Dynamic = ()
) -> list[Finding]:
    """A topology.yaml, whoever wrote it, and (with `conf`) whether it fits slurm.conf."""
    findings = Findings(version)
    topologies = rules_yaml.read(text, findings)
    size = len(encoded(text))
    if size and size % _PAGE == 0:
        what = f"has {size} bytes, a multiple of {_PAGE}: Slurm reads past its end and dies"
        findings.add("yaml-4096", rules_yaml.FILE, what, "add a newline")
    if topologies:
        _judge(topologies, conf, tuple(dynamic), findings)
    return findings.found


def saved_words(nodes: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Node → the topology that slurmctld will keep for it across a restart, of `scontrol show nodes --json`.

    Only dynamic nodes, and CLOUD nodes that are not powered down, keep one (run).
    """
    found = {}
    for node in nodes:
        state = {str(word).upper() for word in node.get("state") or ()}
        lasting = state & {"DYNAMIC_NORM", "DYNAMIC_FUTURE"} or ("CLOUD" in state and "POWERED_DOWN" not in state)
        if lasting and node.get("topology") and node.get("name"):
            found[str(node["name"])] = str(node["topology"])
    return found


def check_configuration(
    configuration: Configuration,
    conf: SlurmConf,
    version: Numbers | None,
    dynamic: Dynamic = (),
    saved: Mapping[str, str] | None = None,
) -> list[Finding]:
    """What a pass plans: its topologies and words, on the nodes and partitions of `conf`.

    Its words stand for those in `conf`; a partition it does not speak of keeps its own. `saved`: see saved_words().
    """
    findings = Findings(version)
    joining = tuple(dynamic)
    topologies = declared(configuration)
    words = {**conf.words(), **configuration.words}
    for topology in topologies:
        rules_topology.structure(topology, findings)
    names = {topology.name for topology in topologies}
    for name, word in words.items():
        if name in conf.partitions and word is not None and word not in names:
            where = f"PartitionName={name}"
            findings.add("word-unknown", where, f"Topology={word} is not defined", "define it or take the word out")
    _cover(topologies, conf, words, joining, findings)
    rules_conf.node_words(conf, topologies, findings)
    rules_conf.saved_words(saved or {}, topologies, findings)
    rules_conf.parameters(conf, _default(topologies), findings)
    _versions(topologies, conf, findings)
    return findings.found


def check_conf(
    conf: SlurmConf,
    version: Numbers | None,
    *,
    yaml_names: Iterable[str] | None = None,
    topology_conf: str | None = None,
    dynamic: Dynamic = (),
) -> list[Finding]:
    """slurm.conf's words and TopologyPlugin, and the topology.conf that it may need.

    `yaml_names`: names of the topologies in topology.yaml, None: no such file (or a Slurm that knows none).
    `topology_conf`: its text, None: no such file.
    """
    findings = Findings(version)
    if yaml_names is not None:
        rules_conf.words(conf, yaml_names, findings)
        return findings.found
    kind = rules_conf.plugin(conf, findings)
    topology = Declared(rules_conf.CONF, rules_conf.PLUGIN_TOPOLOGY, kind, True)
    if kind not in (None, "flat"):
        topology = rules_conf.topology_conf(topology_conf, kind, findings)
    rules_conf.words(conf, [rules_conf.PLUGIN_TOPOLOGY], findings)
    joining = tuple(dynamic)
    known = _known(conf, joining) if conf.complete else None
    rules_topology.structure(topology, findings, known)
    if known is not None:
        _cover((topology,), conf, dict.fromkeys(conf.partitions), joining, findings)
        rules_topology.unknown_nodes(topology, known, findings)
    rules_conf.node_words(conf, (topology,), findings)
    rules_conf.parameters(conf, topology, findings)
    _versions((topology,), conf, findings)
    return findings.found


def check_files(
    conf: SlurmConf,
    topology_yaml: bytes | None,
    topology_conf: bytes | None,
    version: Numbers | None,
    dynamic: Dynamic = (),
) -> list[Finding]:
    """All that slurmctld would start from; None: no such file. `healthy(…)` of it: slurmctld starts and takes jobs."""
    yaml_counts = version is None or version >= V25_05
    if topology_yaml is not None and yaml_counts:
        return check_yaml_text(topology_yaml, conf, version, dynamic)
    text = None if topology_conf is None else topology_conf.decode("utf-8", "surrogateescape")
    found = check_conf(conf, version, topology_conf=text, dynamic=dynamic)
    if topology_yaml is not None:
        findings = Findings(version)
        what = "is not read by this Slurm, and would take over after an upgrade"
        findings.add("yaml-waits", rules_yaml.FILE, what, "remove it")
        found += findings.found
    return found


def _judge(
    topologies: Sequence[Declared], conf: SlurmConf | None, dynamic: tuple[tuple[str, Sequence[str]], ...],
    findings: Findings,
) -> None:  # fmt: skip
    known = _known(conf, dynamic) if conf is not None and conf.complete else None
    for topology in topologies:
        rules_topology.structure(topology, findings, known)
    if conf is None:
        return
    rules_conf.words(conf, [topology.name for topology in topologies], findings)
    if known is not None:
        _cover(topologies, conf, conf.words(), dynamic, findings)
        for topology in topologies:
            rules_topology.unknown_nodes(topology, known, findings)
    rules_conf.node_words(conf, topologies, findings)
    rules_conf.parameters(conf, _default(topologies), findings)
    _versions(topologies, conf, findings)


def _default(topologies: Sequence[Declared]) -> Declared | None:
    return next((topology for topology in topologies if topology.default), topologies[0] if topologies else None)


def _known(conf: SlurmConf, dynamic: Iterable[tuple[str, Sequence[str]]]) -> set[str]:
    return {*conf.nodes, *(name for name, _ in dynamic)}


def _cover(
    topologies: Sequence[Declared],
    conf: SlurmConf,
    words: dict[str, str | None],
    dynamic: tuple[tuple[str, Sequence[str]], ...],
    findings: Findings,
) -> None:
    default = _default(topologies)
    for name in conf.partitions:
        word = words.get(name)
        used = default if word is None else next((t for t in topologies if t.name == word), None)
        if used is not None and used.kind in ("tree", "block"):
            rules_topology.coverage(used, name, conf.partition_nodes(name, dynamic), findings)


def _versions(topologies: Sequence[Declared], conf: SlurmConf, findings: Findings) -> None:
    rules_conf.versions(conf, findings.version, any(topology.kind == "block" for topology in topologies), findings)
