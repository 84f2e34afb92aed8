"""Nodes, node sets and partitions of a slurm.conf, and which nodes a partition's `Nodes=` stands for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from topology_plugin.core.hostlists import HostlistError, expand


class ConfNode(NamedTuple):
    """A node of slurm.conf. `params`: lower-case key → value, defaults merged in, without names and addresses; shared
    by nodes of which the same is said."""

    name: str
    addr: str
    hostname: str
    params: Mapping[str, str]
    file: str
    line: int

    @property
    def features(self) -> tuple[str, ...]:
        text = self.params.get("feature") or self.params.get("features") or ""
        return tuple(feature for feature in text.split(",") if feature)

    @property
    def state(self) -> str:
        """As written, in capitals; UNKNOWN if not written (Slurm's default)."""
        return self.params.get("state", "UNKNOWN").upper()


@dataclass(frozen=True, slots=True)
class ConfNodeSet:
    """`NodeSet=`: the nodes with a feature, and the nodes listed."""

    name: str
    feature: str | None
    nodes_text: str
    file: str
    line: int


@dataclass(frozen=True)
class ConfPartition:
    """A partition of slurm.conf.

    `nodes`: see NodeTable.resolve; `nodes_text`: `Nodes=` as written or inherited.
    `own_topology`: the word on its own line; `inherited_topology`: the one PartitionName=DEFAULT offers at this point.
    "" for an empty `Topology=`, of which slurmctld dies. `params`: lower-case key → value, defaults merged in.
    """

    name: str
    nodes: tuple[str, ...]
    nodes_text: str
    own_topology: str | None
    inherited_topology: str | None
    default: bool
    params: Mapping[str, str]
    file: str
    line: int

    @property
    def topology(self) -> str | None:
        """The word in force."""
        return self.inherited_topology if self.own_topology is None else self.own_topology

    @property
    def min_nodes(self) -> int:
        return _count(self.params.get("minnodes")) or 0

    @property
    def max_nodes(self) -> int | None:
        """None: no limit."""
        return _count(self.params.get("maxnodes"))


@dataclass(frozen=True)
class NodeTable:
    """Who there is to choose from: `nodes` of slurm.conf; `dynamic`: those only slurmctld knows, name → features."""

    nodes: Mapping[str, ConfNode]
    sets: Mapping[str, ConfNodeSet]
    dynamic: Mapping[str, Sequence[str]]

    def resolve(self, nodes_text: str) -> tuple[tuple[str, ...], list[str]]:
        """The nodes a `Nodes=` stands for, each once, and the faults of which slurmctld would die.

        Order: that of slurm.conf for ALL and features, else as listed. ALL counts only where it stands alone, in any
        case; node sets by their exact name, from anywhere in the configuration, but not within node sets (run).
        """
        if nodes_text.lower() == "all":
            return tuple(self._all()), []
        found: dict[str, None] = {}
        faults: list[str] = []
        for name in _listed(nodes_text, faults):
            if name in self.sets:
                found.update(dict.fromkeys(self._members(self.sets[name], faults)))
            elif name in self.nodes or name in self.dynamic:
                found[name] = None
            else:
                faults.append(f"unknown node {name}")
        return tuple(found), faults

    def _all(self) -> Iterator[str]:
        yield from self.nodes
        yield from self.dynamic

    def _members(self, node_set: ConfNodeSet, faults: list[str]) -> Iterator[str]:
        if node_set.nodes_text.lower() == "all":
            yield from self._all()
            return
        if node_set.feature is not None:
            yield from (name for name, node in self.nodes.items() if node_set.feature in node.features)
            yield from (name for name, features in self.dynamic.items() if node_set.feature in features)
        for name in _listed(node_set.nodes_text, faults):
            if name in self.nodes or name in self.dynamic:
                yield name
            else:
                faults.append(f"unknown node {name} in NodeSet {node_set.name}")


def merged(defaults: Mapping[str, str], words: Mapping[str, str]) -> dict[str, str]:
    """A line's words over those of `NodeName=DEFAULT`. Feature and Features are one thing under two spellings."""
    params = {**defaults, **words}
    if "feature" in words or "features" in words:
        for spelling in {"feature", "features"} - set(words):
            params.pop(spelling, None)
    return params


def _listed(text: str, faults: list[str]) -> list[str]:
    try:
        return expand(text)
    except HostlistError as error:
        faults.append(f"{text[:60]}: {error.issue.what}")
        return []


def _count(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdecimal() else None
