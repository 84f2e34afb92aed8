"""slurm.conf and the files it includes, read as slurmctld reads them: nodes, partitions, node sets, parameters.

Pure: the caller's `read(path)` gives a file's text or None. It must keep every byte (`newline=""`, UTF-8 with
`surrogateescape`), so that edits can. What slurmctld does with each oddity was tried, or is in slurm.conf(5).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TypeAlias

from topology_plugin.core.hostlists import HostlistError, expand
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.slurm_conf_lines import BLANKS, BOM, LogicalLine, logical_lines, pairs_of, words_of
from topology_plugin.core.slurm_conf_nodes import ConfNode, ConfNodeSet, ConfPartition, NodeTable, merged

__all__ = ["ConfNode", "ConfNodeSet", "ConfPartition", "Reader", "SlurmConf", "SourceFile", "parse"]

Reader: TypeAlias = Callable[[str], "str | None"]

# Slurm collects these over several lines; of all others the last one wins.
_COLLECTED = frozenset({"slurmctldhost"})
# Lines of several pairs which mean nothing here.
_OTHER_LINES = frozenset({"downnodes", "frontendname", "switchname"})
_OWN_KEYS = frozenset({"nodename", "nodeaddr", "nodehostname"})
_INCLUDE = re.compile(r"include[ \t\n\v\f\r]+([^ \t\n\v\f\r]+)(.*)", re.IGNORECASE | re.DOTALL)
# A line for one node, as HyperPod's agent writes them: its name, its address, and what it shares with its neighbours.
_ONE_NODE = re.compile(
    r"NodeName=([A-Za-z0-9._-]{1,19}) (?:NodeAddr=([A-Za-z0-9._:-]+) )?(.*)", re.IGNORECASE | re.DOTALL
)


@dataclass(frozen=True)
class SourceFile:
    path: str
    text: str


@dataclass(frozen=True)
class SlurmConf:
    """A whole configuration.

    `files`: the main file first, each included file once. `parameters`: lower-case key → value (several SlurmctldHost
    joined by commas); `parameter_lines`: key → (path, line) of the value in force. `issues`: faults with which
    slurmctld does not start, as far as they concern nodes, partitions and Includes (which keys it knows differs from
    version to version and is not checked). `complete`: False if an Include could not be read, so that nodes may be
    missing here.
    """

    files: tuple[SourceFile, ...]
    parameters: Mapping[str, str]
    parameter_lines: Mapping[str, tuple[str, int]]
    nodes: Mapping[str, ConfNode]
    node_sets: Mapping[str, ConfNodeSet]
    partitions: Mapping[str, ConfPartition]
    issues: tuple[Issue, ...]
    complete: bool

    def words(self) -> dict[str, str | None]:
        """Partition → the word in force; an empty `Topology=` counts as none."""
        return {name: partition.topology or None for name, partition in self.partitions.items()}

    def partition_nodes(self, name: str, dynamic: Iterable[tuple[str, Sequence[str]]] = ()) -> tuple[str, ...]:
        """The partition's nodes when slurmctld also knows the `dynamic` nodes, each (name, features).

        Such a node joins through `Nodes=ALL` and through node sets by feature (docs: dynamic nodes); one that
        slurm.conf lists too is an ordinary node.
        """
        joining = {node: features for node, features in dynamic if node not in self.nodes}
        partition = self.partitions[name]
        if not joining:
            return partition.nodes
        return NodeTable(self.nodes, self.node_sets, joining).resolve(partition.nodes_text)[0]


def parse(path: str, read: Reader) -> SlurmConf:
    """The configuration whose main file is `path`. Raises InputError if that file cannot be read."""
    text = read(path)
    if text is None:
        remedy = "check the path (setting slurm_conf) and who may read it"
        raise InputError(Issue(path, "missing or unreadable", remedy))
    parser = _Parser(path, read)
    parser.parse_file(path, text)
    return parser.result()


@dataclass
class _Parser:
    main: str
    read: Reader
    files: dict[str, str] = field(default_factory=dict)
    unread: dict[str, Iterator[LogicalLine]] = field(default_factory=dict)  # the rest of each file being read
    parameters: dict[str, str] = field(default_factory=dict)
    parameter_lines: dict[str, tuple[str, int]] = field(default_factory=dict)
    nodes: dict[str, ConfNode] = field(default_factory=dict)
    node_defaults: dict[str, str] = field(default_factory=dict)
    shared_words: dict[str, dict[str, str] | None] = field(default_factory=dict)
    node_sets: dict[str, ConfNodeSet] = field(default_factory=dict)
    partitions: dict[str, ConfPartition] = field(default_factory=dict)  # their nodes are resolved at the end
    partition_defaults: dict[str, str] = field(default_factory=dict)
    issues: list[Issue] = field(default_factory=list)
    complete: bool = True

    def parse_file(self, path: str, text: str) -> None:
        """With all it includes, nested without a limit: slurmctld reads Includes 1,500 deep (run)."""
        self._open(path, text)
        while self.unread:
            path, lines = next(reversed(self.unread.items()))
            for line in lines:
                head = line.content.lstrip(BLANKS)[:14].lower()
                if head.startswith("nodename"):
                    self._node_line(path, line)
                elif head.startswith("partitionname"):
                    self._partition_line(path, line)
                elif head.startswith("nodeset"):
                    self._node_set_line(path, line)
                elif include := _INCLUDE.match(line.content):
                    self._include_line(path, line, include[1], include[2])
                    break  # its lines come before the rest of these
                else:
                    self._parameter_line(path, line)
            else:
                del self.unread[path]

    def _open(self, path: str, text: str) -> None:
        self.files.setdefault(path, text)
        self.unread[path] = logical_lines(text)
        if text.startswith(BOM):
            self._issue(path, 1, "a byte order mark, of which slurmctld dies", "save the file without it")

    def result(self) -> SlurmConf:
        for name, node_set in self.node_sets.items():
            if name in self.nodes:
                what = f"NodeSet {name} has the name of a node"
                self._issue(node_set.file, node_set.line, what, "rename the node set")
        table = NodeTable(self.nodes, self.node_sets, {})
        resolved: dict[str, tuple[str, ...]] = {}
        partitions: dict[str, ConfPartition] = {}
        for name, one in self.partitions.items():
            if one.nodes_text not in resolved:
                resolved[one.nodes_text], faults = table.resolve(one.nodes_text)
                for fault in faults:
                    self._issue(one.file, one.line, f"partition {name}: {fault}", "correct its Nodes=")
            if one.params.get("topology") == "":
                self._issue(one.file, one.line, f"partition {name}: empty Topology=", "give it a name or remove it")
            partitions[name] = replace(one, nodes=resolved[one.nodes_text])
        return SlurmConf(
            files=tuple(SourceFile(path, text) for path, text in self.files.items()),
            parameters=MappingProxyType(self.parameters),
            parameter_lines=MappingProxyType(self.parameter_lines),
            nodes=MappingProxyType(self.nodes),
            node_sets=MappingProxyType(self.node_sets),
            partitions=MappingProxyType(partitions),
            issues=tuple(self.issues),
            complete=self.complete,
        )

    def _issue(self, path: str, number: int, what: str, remedy: str) -> None:
        self.issues.append(Issue(f"{path}:{number}", what, remedy))

    def _leftover(self, path: str, line: LogicalLine, rest: str) -> None:
        if rest.strip(BLANKS):
            what = f"slurmctld cannot parse {rest.strip(BLANKS)[:60]!r}"
            self._issue(path, line.number, what, "write it as key=value, or remove it")

    def _node_line(self, path: str, line: LogicalLine) -> None:
        one = _ONE_NODE.match(line.content)
        shared = self._shared_words(one[3]) if one and one[1].lower() != "default" else None
        if one is not None and shared is not None:
            self._add_node(ConfNode(one[1], one[2] or one[1], one[1], shared, path, line.number))
        else:
            self._any_node_line(path, line)

    def _shared_words(self, text: str) -> dict[str, str] | None:
        """The words in the rest of a node's line, read once for all lines with the same rest; None: not as simple."""
        if text not in self.shared_words:
            words, rest = words_of(text)
            words = merged(self.node_defaults, words)
            plain = not rest and _OWN_KEYS.isdisjoint(words)
            self.shared_words[text] = words if plain else None
        return self.shared_words[text]

    def _any_node_line(self, path: str, line: LogicalLine) -> None:
        words, rest = words_of(line.content)
        names = words.pop("nodename", None)
        if names is None:
            self._parameter_line(path, line)
            return
        if rest:
            self._leftover(path, line, rest)
        if names.lower() == "default":
            self.node_defaults = merged(self.node_defaults, words)
            self.shared_words.clear()
            return
        words = merged(self.node_defaults, words)
        hostnames = words.pop("nodehostname", names)
        addresses = words.pop("nodeaddr", hostnames)
        columns: list[list[str]] = []
        for key, text in (("NodeName", names), ("NodeHostname", hostnames), ("NodeAddr", addresses)):
            try:
                column = expand(text)
            except HostlistError as error:
                self._issue(path, line.number, f"{key}={text[:60]}: {error.issue.what}", error.issue.remedy)
                return
            wanted = len(columns[0]) if columns else len(column)
            if len(column) not in (1, wanted):
                what = f"{key} gives {len(column)} for {wanted} nodes"
                self._issue(path, line.number, what, "give one for each node, or a single one")
                column = columns[0]
            columns.append(column if len(column) == wanted else column * wanted)
        for name, hostname, address in zip(*columns, strict=True):
            self._add_node(ConfNode(name, address, hostname, words, path, line.number))

    def _add_node(self, node: ConfNode) -> None:
        if node.name in self.nodes:
            self._issue(node.file, node.line, f"node {node.name} stands there twice", "remove one of the two")
        elif node.name == "ALL":
            self._issue(node.file, node.line, "no node may be called ALL", "rename it")
        else:
            self.nodes[node.name] = node

    def _node_set_line(self, path: str, line: LogicalLine) -> None:
        words, rest = words_of(line.content)
        name = words.get("nodeset")
        if name is None:
            self._parameter_line(path, line)
            return
        self._leftover(path, line, rest)
        # Of two node sets of one name the first wins, silently (run).
        feature = words.get("feature") or None
        self.node_sets.setdefault(name, ConfNodeSet(name, feature, words.get("nodes", ""), path, line.number))

    def _partition_line(self, path: str, line: LogicalLine) -> None:
        pairs, rest = pairs_of(line.content)
        if not pairs or pairs[0].key.lower() != "partitionname":
            self._parameter_line(path, line)
            return
        self._leftover(path, line, rest)
        # The name is no list: PartitionName=a,b is one partition called "a,b" (run).
        name = pairs[0].value
        words = {pair.key.lower(): pair.value for pair in pairs[1:]}
        if name.lower() == "default":
            self.partition_defaults = {**self.partition_defaults, **words}
        elif name in self.partitions:
            self._issue(path, line.number, f"partition {name} stands there twice", "remove one of the lines")
        else:
            params = {**self.partition_defaults, **words}
            self.partitions[name] = ConfPartition(
                name=name,
                nodes=(),
                nodes_text=params.get("nodes", ""),
                own_topology=words.get("topology"),
                inherited_topology=self.partition_defaults.get("topology"),
                default=params.get("default", "").lower() in {"yes", "up", "true", "1"},
                params=MappingProxyType(params),
                file=path,
                line=line.number,
            )

    def _include_line(self, path: str, line: LogicalLine, name: str, rest: str) -> None:
        self._leftover(path, line, rest)
        cluster = self.parameters.get("clustername")
        if cluster is not None:
            name = name.replace("%c", cluster.lower())
        # Relative names belong to the main file's directory, in nested files too (run).
        target = name if name.startswith("/") else self.main[: self.main.rfind("/") + 1] + name
        text = None
        if "%c" in name:
            fault = "no ClusterName stands before it"
        elif target in self.unread:
            fault = "includes itself"
        else:
            fault = f"{target} cannot be read"
            text = self.read(target)
        if text is None:
            self._issue(path, line.number, f"Include {name}: {fault}", "correct the line, or put the file there")
            self.complete = False
        else:
            self._open(target, text)

    def _parameter_line(self, path: str, line: LogicalLine) -> None:
        pairs, rest = pairs_of(line.content)
        if not pairs:
            self._leftover(path, line, rest)
            return
        key, value = pairs[0].key.lower(), pairs[0].value
        if key not in _OTHER_LINES:
            self._leftover(path, line, line.content[pairs[0].end :])
        if key in _COLLECTED and key in self.parameters:
            value = f"{self.parameters[key]},{value}"
        self.parameters[key] = value
        self.parameter_lines[key] = (path, line.number)
