"""Slurm's rules for topologies, by name: what happens, from which version to which, and how that is known.

`run`: tried on slurmctld 26.05.5 or 24.11.5 (tests/slurm/test_validation_real.py); `src`: read in Slurm's source or
changelog; `field`: reported by operators. docs/safety-rules.md lists the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Severity: TypeAlias = Literal["dies", "crashes", "misbehaves", "warns"]
Numbers: TypeAlias = tuple[int, int, int]
"""A version of Slurm: (26, 5, 5)."""

ALWAYS: Numbers = (0, 0, 0)
NEVER: Numbers = (9999, 0, 0)
V24_11, V25_05, V25_11, V26_05 = (24, 11, 0), (25, 5, 0), (25, 11, 0), (26, 5, 0)
# Where Slurm does not say its version, rules of the newest known one hold.
UNKNOWN: Numbers = (26, 5, 5)


@dataclass(frozen=True)
class Rule:
    """`spans`: versions from (inclusive) to (exclusive) for which it holds. `unhealthy`: slurmctld does not start, or
    starts and takes no job, so guard mends it."""

    id: str
    severity: Severity
    says: str
    spans: tuple[tuple[Numbers, Numbers], ...] = ((ALWAYS, NEVER),)
    known: str = "run"
    unhealthy: bool = False

    def holds(self, version: Numbers | None) -> bool:
        numbers = UNKNOWN if version is None else version
        return any(start <= numbers < end for start, end in self.spans)


@dataclass(frozen=True, order=True)
class Finding:
    """A rule that is broken: `where` (file and part), `what` (and why it matters), `remedy`."""

    rule: str
    severity: Severity
    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.remedy}) [{self.rule}]" if self.remedy else f"{text} [{self.rule}]"


def _since(start: Numbers, end: Numbers = NEVER) -> tuple[tuple[Numbers, Numbers], ...]:
    return ((start, end),)


def _dies(id: str, says: str, spans: tuple[tuple[Numbers, Numbers], ...] = _since(ALWAYS), known: str = "run") -> Rule:
    return Rule(id, "dies", says, spans, known, unhealthy=True)


def _crashes(id: str, says: str, spans: tuple[tuple[Numbers, Numbers], ...] = _since(ALWAYS)) -> Rule:
    return Rule(id, "crashes", says, spans, unhealthy=True)


_YAML = _since(V25_05)
_CONF = _since(ALWAYS, V25_05)

_ALL = (
    # the file
    _dies("yaml-empty", "topology.yaml without any document: empty, blanks, comments only", _YAML),
    _crashes("yaml-empty-list", "topology.yaml that is an empty list", _YAML),
    _dies("yaml-broken", "text that is not YAML, or not in UTF-8", _YAML),
    _dies("yaml-alias", "a YAML alias (*name)", _YAML),
    _dies("yaml-too-deep", "more than 32 levels of lists and maps", _YAML),
    _dies("yaml-type", "a list or map where a text belongs, or the reverse", _YAML),
    _dies("yaml-4096", "a size that is a multiple of 4096 bytes", _since(V25_05, (25, 11, 6)), "src, field"),
    Rule("unknown-key", "misbehaves", "a key that Slurm ignores without a word", _YAML),
    # topologies
    _dies("kind-missing", "a topology without a kind (`flat: false` is none)", _YAML),
    _dies("kind-several", "a topology of two kinds", _YAML),
    _dies("kind-unknown", "ring, torus3d, or flat as a map, which need 26.05", _since(V25_05, V26_05)),
    Rule("topology-twice", "misbehaves", "two topologies of one name: the first counts", _YAML),
    Rule("topology-unnamed", "misbehaves", "a topology without a name: nothing can choose it", _YAML),
    Rule("default-several", "misbehaves", "several cluster defaults: the first counts", _YAML),
    Rule("default-none", "warns", "no cluster default: the first topology is it", _YAML),
    # units
    _dies("units-missing", "a tree without switches, a block topology without blocks", _since(V25_05)),
    _dies("unit-unnamed", "a switch or block without a name", _YAML),
    _dies("unit-twice", "two switches, or two blocks, of one name"),
    _dies("child-undefined", "a child that is no switch of this tree (or the switch itself)"),
    _dies("switch-loop", "switches that are each other's children"),
    _dies("tree-too-deep", "a tree listed top-down with more than 20 levels"),
    _crashes("children-empty", "a switch whose children are stated but none"),
    _dies("hostlist-invalid", "a node list that Slurm can't read"),
    _crashes("hostlist-function", "switch{…}, block{…} or ring{…} inside topology.yaml", _YAML),
    Rule("hostlist-odd", "misbehaves", "a node list that Slurm reads as names of no node"),
    _dies("unit-empty", "a leaf or block without nodes", _CONF),
    _dies("block-short", "a block with fewer nodes than the base size", _CONF),
    _dies("nodes-and-children", "a switch with nodes and children", _CONF),
    Rule("children-ignored", "misbehaves", "a switch with nodes and children: the children are cut off", _YAML),
    Rule("two-parents", "misbehaves", "a switch that is the child of two, or twice of one"),
    Rule("node-twice", "misbehaves", "a node in two leaves or blocks"),
    Rule("node-unknown", "warns", "a node that slurm.conf does not know"),
    Rule("node-uncovered", "misbehaves", "a node of a partition that is in none of its topology's leaves or blocks"),
    Rule("roots-several", "warns", "several roots: no job spans two"),
    Rule("depth-uneven", "crashes", "leaves at different depths under one root: any user's job can crash slurmctld"),
    Rule("switches-many", "warns", "more than 700 switches: slurmctld's cost grows with their cube"),
    Rule("switches-too-many", "misbehaves", "more than 1,200 switches: slurmctld stands still at each reconfigure"),
    # blocks
    _dies("block-sizes", "block sizes that are not base x 2^k (k up to 15)", (*_CONF, *_since((26, 5, 3)))),
    _dies("block-sizes-type", "block sizes that are no whole numbers"),
    Rule(
        "block-sizes-dropped", "misbehaves", "the same, silently dropped", _since(V25_05, (26, 5, 3)), "src"
    ),
    _crashes("block-sizes-overflow", "a base size that is a multiple of 65536"),
    _dies("block-sizes-none", "no block sizes, and blocks without any node to take one from", _YAML),
    Rule("block-sizes-missing", "warns", "no block sizes: the first block's node count is taken"),
    _dies("block-name", "a block name that is no node list, with several block sizes"),
    Rule("blocks-unpadded", "warns", "blocks that are no multiple of the largest level: the largest jobs never run"),
    # names
    Rule("name-unsafe", "misbehaves", "a name that Slurm's list parser may read as another"),
    Rule("name-converted", "misbehaves", "a name that Slurm converts even when quoted", _since(V25_05, V26_05), "src"),
    _dies("name-long", "a switch name of more than 64 letters", _CONF),
    # slurm.conf
    _dies("word-unknown", "a partition that names a topology that is not there", _YAML),
    _dies("word-empty", "`Topology=` without a value", _YAML),
    _dies("word-unsupported", "`Topology=` in slurm.conf, which 24.11 does not know", _CONF),
    _dies("node-word-unknown", "a NodeName line that names a topology or unit that is not there", _YAML),
    # No text says it: slurmctld has to be asked for its nodes (validation.saved_words).
    Rule("saved-word-unknown", "dies", "a dynamic or CLOUD node whose saved topology names what is gone", _YAML),
    Rule("node-word-bare", "warns", "a NodeName line that names a topology without a unit", _YAML),
    Rule("node-stated-twice", "warns", "a node both in a block and in its NodeName line's `Topology=`", _YAML),
    _dies("plugin-unknown", "a TopologyPlugin that this Slurm does not have"),
    _dies("plugin-empty", "`TopologyPlugin=` without a value"),
    _dies("conf-missing", "TopologyPlugin=topology/tree or block without topology.conf: waits 60 s, then dies"),
    _dies("conf-empty", "an empty topology.conf under topology/tree or block", _since(V25_05)),
    Rule(
        "conf-empty-idle", "misbehaves", "an empty topology.conf under topology/tree or block: no job is taken",
        _CONF, unhealthy=True,
    ),
    _dies("conf-line", "a line of topology.conf that Slurm can't read or that is of another kind"),
    Rule("yaml-waits", "warns", "a topology.yaml beside Slurm 24.11 would take over after an upgrade", _CONF, "src"),
    Rule("rank-without-default", "warns", "Switch- or BlockAsNodeRank with a cluster default of another kind"),
    Rule("keep-part-info", "warns", "ReconfigFlags=KeepPartInfo: a saved `Topology=` wins, or none", _YAML),
    Rule("function-in-conf", "warns", "switch{…} or block{…} in slurm.conf follows the cluster default", known="src"),
    # versions
    Rule("slurm-too-old", "misbehaves", "Slurm before 24.11", _since(ALWAYS, V24_11), "src"),
    Rule(
        "configless-unsent", "misbehaves", "configless nodes do not get topology.yaml: their slurmd dies",
        _since(V25_05, (25, 5, 2)), "src",
    ),
    Rule(
        "cloud-drops-out", "warns", "powered-down CLOUD nodes drop out of the topology",
        _since(V25_11, (25, 11, 3)), "src",
    ),
    Rule("slurm-untested", "warns", "a Slurm newer than 26.05", _since((26, 6, 0)), "src"),
)  # fmt: skip

RULES: dict[str, Rule] = {rule.id: rule for rule in _ALL}


class Findings:
    """Collects what a version's rules object to."""

    def __init__(self, version: Numbers | None) -> None:
        self.version = version
        self.found: list[Finding] = []

    def add(self, rule: str, where: str, what: str, remedy: str = "") -> None:
        known = RULES[rule]
        if known.holds(self.version):
            self.found.append(Finding(rule, known.severity, where, what, remedy))


def healthy(findings: Iterable[Finding]) -> bool:
    """slurmctld starts from these files and takes jobs."""
    return not unhealthy(findings)


def unhealthy(findings: Iterable[Finding]) -> list[Finding]:
    return [finding for finding in findings if RULES[finding.rule].unhealthy]


def refusing(findings: Iterable[Finding]) -> list[Finding]:
    """What is never published: all but warnings."""
    return [finding for finding in findings if finding.severity != "warns"]
