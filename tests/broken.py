"""Configurations of four nodes, n[1-4], that each break one of Slurm's rules, and odd ones that it takes.

tests/core/test_validation.py shows that our rules object to the former and not to the latter;
tests/slurm/test_validation_real.py that slurmctld agrees.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from topology_plugin.core import slurm_conf
from topology_plugin.core.rules import Numbers
from topology_plugin.core.slurm_conf import SlurmConf

V26, V24 = (26, 5, 5), (24, 11, 5)
NODES = "NodeName=n[1-4] CPUs=1 State=CLOUD"
PARTITION = "PartitionName=p Nodes=ALL Default=YES"


@dataclass(frozen=True)
class Files:
    """`rule`: the one that is broken ("" none). `why`: tells cases of one rule apart. `seen_by_rehearsal` False: the
    fault is in a line of slurm.conf that a rehearsal does not have."""

    rule: str
    why: str
    topology_yaml: str | bytes | None = None
    topology_conf: str | None = None
    nodes: str = NODES
    partitions: str = PARTITION
    extra: str = ""
    version: Numbers = V26
    seen_by_rehearsal: bool = True

    @property
    def id(self) -> str:
        return f"{self.version[0]}-{self.rule or 'starts'}-{self.why}".replace(" ", "-")

    @property
    def conf(self) -> SlurmConf:
        text = f"{self.nodes}\n{self.partitions}\n{self.extra}\n"
        return slurm_conf.parse("/slurm.conf", {"/slurm.conf": text}.get)

    @property
    def yaml_bytes(self) -> bytes | None:
        return self.topology_yaml.encode() if isinstance(self.topology_yaml, str) else self.topology_yaml

    @property
    def conf_bytes(self) -> bytes | None:
        return None if self.topology_conf is None else self.topology_conf.encode()


HEAD = "- topology: t\n  cluster_default: true\n"
FLAT = HEAD + "  flat: true\n"
SIZES = "    block_sizes: [2]\n"
Parts = Iterable[tuple[str, ...]]


def _units(key: str, parts: Parts) -> str:
    return "".join(f"    - {key}: {name}\n" + "".join(f"      {line}\n" for line in lines) for name, *lines in parts)


def tree(*parts: tuple[str, ...]) -> str:
    return f"{HEAD}  tree:\n    switches:\n{_units('switch', parts)}"


def block(*parts: tuple[str, ...], sizes: str = SIZES) -> str:
    return f"{HEAD}  block:\n{sizes}    blocks:\n{_units('block', parts)}"


LEAVES = (("a", "nodes: n[1-2]"), ("b", "nodes: n[3-4]"))
TREE = tree(*LEAVES, ("r", "children: a,b"))
BLOCKS = (("x", "nodes: n[1-2]"), ("w", "nodes: n[3-4]"))
BLOCK = block(*BLOCKS)
_CHAIN = [("l0", "nodes: n[1-4]"), *((f"s{i}", f"children: {'l0' if i == 1 else f's{i - 1}'}") for i in range(1, 25))]


def _nodes(text: str) -> str:
    return tree(("a", f'nodes: "{text}"'), ("b", "nodes: n[1-4]"))


def _children(text: str) -> str:
    return tree(*LEAVES, ("r", f'children: "{text}"'))


def _word(word: str) -> str:
    return f"{PARTITION} Topology={word}"


def _sizes(text: str) -> str:
    return block(*BLOCKS, sizes=f"    block_sizes: {text}\n")


BREAKS_26 = (
    Files("yaml-empty", "no byte", ""),
    Files("yaml-empty", "comment", "# nothing\n"),
    Files("yaml-empty", "blanks", "  \n\n"),
    Files("yaml-empty-list", "", "[]\n"),
    Files("yaml-empty-list", "named by a partition (BR-15)", "[]\n", "", partitions=_word("t")),
    Files("yaml-empty-list", "before another document", f"[]\n---\n{FLAT}"),
    Files("yaml-broken", "open bracket", "- topology: [\n"),
    Files("yaml-broken", "tab", "-\ttopology: t\n\tflat: true\n"),
    Files("yaml-broken", "latin-1", b"# \xe9\n" + FLAT.encode()),
    Files("yaml-broken", "control character", FLAT + "# \x01\n"),
    Files("yaml-broken", "utf-16", FLAT.encode("utf-16")),
    Files("yaml-empty", "zero byte first", b"\0" + FLAT.encode()),
    Files("yaml-alias", "", "- &a\n  topology: t\n  flat: true\n- *a\n"),
    Files("yaml-too-deep", "33 levels", f"{FLAT}  other: {'[' * 31}{']' * 31}\n"),
    Files("yaml-too-deep", "3000 levels", f"{FLAT}  other: {'[' * 3000}{']' * 3000}\n"),
    Files("yaml-type", "a text for the file", "hello\n"),
    Files("yaml-type", "null for the file", "null\n"),
    Files("yaml-type", "an entry that is a text", "- hello\n"),
    Files("yaml-type", "an entry that is a list", f"{FLAT}- []\n"),
    Files("yaml-type", "nodes as a list", tree(("a", "nodes: [n1, n2]"), ("r", "children: a"))),
    Files("yaml-type", "children as a list", tree(*LEAVES, ("r", "children: [a, b]"))),
    Files("yaml-type", "nodes as a map", tree(("a", "nodes: {n1: n2}"))),
    Files("yaml-type", "switch as a list", tree(("[a]", "nodes: n1"))),
    Files("yaml-type", "switches as a text", f"{HEAD}  tree:\n    switches: x\n"),
    Files("yaml-type", "switches as nothing", f"{HEAD}  tree:\n    switches:\n"),
    Files("yaml-type", "a switch that is a text", f"{HEAD}  tree:\n    switches:\n    - x\n"),
    Files("yaml-type", "tree as nothing", f"{HEAD}  tree:\n"),
    Files("yaml-type", "blocks as a text", f"{HEAD}  block:\n{SIZES}    blocks: x\n"),
    Files("yaml-type", "topology as a list", FLAT.replace(": t\n", ": [a]\n")),
    Files("yaml-type", "cluster_default as a map", FLAT.replace("cluster_default: true", "cluster_default: {}")),
    Files("yaml-type", "flat as a list", f"{HEAD}  flat: []\n"),
    Files("yaml-type", "block_sizes as a map", _sizes("{a: b}")),
    Files("yaml-type", "a list as a key", f"{FLAT}  ? [a]\n  : b\n"),
    Files("kind-missing", "none", HEAD),
    Files("kind-missing", "empty maps", f"{HEAD}  tree: {{}}\n  block: {{}}\n"),
    Files("kind-missing", "an empty map for the file", "{}\n"),
    *(Files("kind-missing", f"flat {w or 'empty'}", f"{HEAD}  flat: {w}\n") for w in ("false", "no", "0", "", "0.0")),
    Files("kind-several", "tree and flat", f"{TREE}  flat: true\n"),
    Files("kind-several", "tree and an empty flat, as topoconf prints it", f"{TREE}  flat: {{}}\n"),
    Files("units-missing", "no switch", f"{HEAD}  tree:\n    switches: []\n"),
    Files("units-missing", "no block", f"{HEAD}  block:\n{SIZES}    blocks: []\n"),
    Files("units-missing", "no blocks key", f"{HEAD}  block:\n{SIZES}"),
    Files("units-missing", "no ring", f"{HEAD}  ring:\n    rings: []\n"),
    Files("unit-unnamed", "switch", f"{HEAD}  tree:\n    switches:\n    - nodes: n[1-4]\n"),
    Files("unit-unnamed", "block", f"{HEAD}  block:\n{SIZES}    blocks:\n    - nodes: n[1-4]\n"),
    Files("unit-twice", "switch", tree(*LEAVES, ("r", "children: a,b"), ("a", "nodes: n1"))),
    Files("unit-twice", "block", block(*BLOCKS, ("x", "nodes: n1"))),
    Files("child-undefined", "", tree(*LEAVES, ("r", "children: a,b,c"))),
    Files("child-undefined", "itself", tree(*LEAVES, ("r", "children: a,b,r"))),
    Files("child-undefined", "a comma in its name", tree(("'a,b'", "nodes: n[1-4]"), ("r", "children: 'a,b'"))),
    Files("child-undefined", "a blank in its name", tree(("'a b'", "nodes: n[1-4]"), ("r", "children: 'a b'"))),
    Files("child-undefined", "20 digits", tree((f"s{'9' * 20}", "nodes: n[1-4]"), ("r", f"children: s{'9' * 20}"))),
    Files("child-undefined", "in a second topology of the same name", FLAT + _children("a,b,c")),
    Files("switch-loop", "", tree(("a", "nodes: n[1-4]"), ("q", "children: r"), ("r", "children: q"))),
    Files("tree-too-deep", "", tree(*_CHAIN[::-1])),
    Files("children-empty", "quotes", _children("")),
    Files("children-empty", "nothing", tree(*LEAVES, ("r", "children:"))),
    Files("children-empty", "comma", _children(",")),
    *(Files("hostlist-invalid", t, _nodes(t)) for t in ("n[1", "n[]", "n[1,]", "n[4-1]", "n[a]", "n[-1]", "n[1-2-3]")),
    Files("hostlist-invalid", "in a block", block(("x", 'nodes: "n[1-"'))),
    Files("hostlist-invalid", "65537 numbers", _nodes("n[1-65537]")),
    *(Files("hostlist-invalid", f"children {t}", _children(t)) for t in ("[", "a[1", "a]", "switch{b}")),
    *(Files("hostlist-function", t, _nodes(t)) for t in ("switch{b}", "block{zz}", "ring{a}", "n1,switchwith{n1}")),
    *(Files("block-sizes", t, _sizes(t)) for t in ("[2,3]", "[2,6]", "[4,2]", "[0]", "[-1]", "[1,65536]", "[65538]")),
    *(Files("block-sizes-type", t, _sizes(t)) for t in ("[x]", "['2,4']", "[1.5]", "", "[[2]]", "[2147483648]")),
    *(Files("block-sizes-overflow", t, _sizes(t)) for t in ("[65536]", "[131072]")),
    Files("block-sizes-none", "empty blocks", block(("z",), sizes="")),
    Files("block-sizes-none", "unknown nodes", block(("z", "nodes: zz"), sizes="")),
    Files("block-name", "", block(("'a['", "nodes: n[1-2]"), ("c", "nodes: n[3-4]"), sizes="    block_sizes: [2,4]\n")),
    Files("word-unknown", "", TREE, partitions=_word("zz")),
    Files("word-unknown", "other case", TREE, partitions=_word("T")),
    Files("word-unknown", "no file", None, partitions=_word("t")),
    Files("word-empty", "", TREE, partitions=f"{PARTITION} Topology="),
    Files("node-word-unknown", "topology", TREE, nodes=f"{NODES} Topology=zz:a"),
    Files("node-word-unknown", "unit", TREE, nodes=f"{NODES} Topology=t:zz"),
    Files("plugin-unknown", "", None, extra="TopologyPlugin=topology/bogus"),
    Files("plugin-empty", "", None, extra="TopologyPlugin=", seen_by_rehearsal=False),
    Files("conf-missing", "", None, None, extra="TopologyPlugin=topology/tree"),
    Files("conf-empty", "tree", None, "", extra="TopologyPlugin=topology/tree"),
    Files("conf-empty", "block", None, "# nothing\n", extra="TopologyPlugin=topology/block"),
    Files("conf-line", "", None, "hello\n", extra="TopologyPlugin=topology/tree"),
)  # fmt: skip

STARTS_26 = (
    Files("", "tree", TREE),
    Files("", "block", BLOCK),
    Files("", "a map for the list", FLAT.replace("- t", "  t")),
    Files("", "as JSON", '[{"topology":"t","cluster_default":true,"flat":true}]\n'),
    *(Files("", f"flat {word}", f"{HEAD}  flat: {word}\n") for word in ("yes", "on", "1", "hello", "-1", "{}")),
    Files("", "a kind denied", f"{TREE}  flat: false\n  block: {{}}\n"),
    Files("", "a second document", f"{FLAT}---\n- topology: [\n"),
    Files("", "text behind the end", f"{FLAT}...\nhello\n"),
    Files("", "zero byte", FLAT.encode() + b"\0[[["),
    Files("", "byte order mark and CRLF", ("\ufeff" + TREE).replace("\n", "\r\n")),
    Files("", "tags and anchors", "- &x\n  topology: !y t\n  flat: !!str true\n"),
    Files("", "32 levels", f"{FLAT}  other: {'[' * 30}{']' * 30}\n"),
    Files("", "4096 bytes", TREE + "#" * (4095 - len(TREE) % 4096) + "\n"),
    Files("", "empty leaf", tree(*LEAVES, ("e",), ("r", "children: a,b,e"))),
    Files("", "empty block", block(*BLOCKS, ("z", 'nodes: ""'))),
    Files("", "nodes and children", tree(*LEAVES, ("r", "children: a,b", "nodes: n1"))),
    Files("", "two parents", tree(*LEAVES, ("r", "children: a,b"), ("q", "children: a,a"))),
    Files("", "unknown key", f"{TREE}  swiches: 3\n"),
    Files("", "unknown and uncovered nodes", tree(("a", "nodes: n[1-3],zz"))),
    *(Files("", f"nodes {text}", _nodes(text)) for text in ("n]", "n[[1]", "n[1]]", "foo{n1}", "switch{", ",", "ALL")),
    Files("", "node twice", block(("x", "nodes: n[1-4]"), ("w", "nodes: n1"))),
    Files("", "25 levels bottom-up", tree(*_CHAIN)),
    Files("", "uneven depth", tree(*LEAVES, ("m", "children: a"), ("r", "children: m,b"))),
    Files("", "several roots", tree(*LEAVES)),
    *(Files("", f"sizes {t}", _sizes(t)) for t in ("2", "[]", "['2']", "[0x2]", "[02]", "[2,2]", "[2,8,4]")),
    Files("", "sizes up to k=15", _sizes("[1,32768]")),
    Files("", "a block's name that is no list, in no larger block",
          block(*BLOCKS, ("'z['",), sizes="    block_sizes: [2,4]\n")),
    Files("", "no sizes", block(("z",), *BLOCKS, sizes="")),
    Files("", "unnamed topology", TREE.replace("topology: t", "name: t")),
    Files("", "two of a name", FLAT + TREE),
    *(Files("", f"name {n}", tree((n, "nodes: n[1-4]"), ("r", f"children: '{n}'"))) for n in ("007", "1e5", "a.b")),
    Files("", "word", TREE, partitions=_word("t")),
    Files("", "word default without a file", None, partitions=_word("default")),
    Files("", "node word", TREE, nodes=f"{NODES} Topology=t:a"),
    Files("", "plugin that the file outdoes", TREE, extra="TopologyPlugin=topology/bogus"),
    *(Files("", f"plugin {p}", None, extra=f"TopologyPlugin=topology/{p}") for p in ("flat", "default", "none")),
    Files("", "topology.conf", None, "SwitchName=a Nodes=n[1-4]\n", extra="TopologyPlugin=topology/tree"),
)  # fmt: skip

_TREE24 = "SwitchName=a Nodes=n[1-2]\nSwitchName=b Nodes=n[3-4]\nSwitchName=r Switches=a,b\n"
_BLOCK24 = "BlockName=x Nodes=n[1-2]\nBlockName=y Nodes=n[3-4]\n"
_CHAIN24 = ["SwitchName=l Nodes=n[1-4]\n", "SwitchName=s1 Switches=l\n"] + [
    f"SwitchName=s{i} Switches=s{i - 1}\n" for i in range(2, 25)
]


def _tree24(rule: str, why: str, more: str) -> Files:
    return Files(rule, why, None, _TREE24 + more, extra="TopologyPlugin=topology/tree", version=V24)


def _block24(rule: str, why: str, more: str, text: str = _BLOCK24) -> Files:
    return Files(rule, why, None, text + more, extra="TopologyPlugin=topology/block", version=V24)


BREAKS_24 = (
    Files("word-unsupported", "partition", partitions=_word("default"), version=V24),
    Files("word-unsupported", "node", nodes=f"{NODES} Topology=t:a", version=V24),
    Files("plugin-unknown", "flat (BR-16)", extra="TopologyPlugin=topology/flat", version=V24),
    Files("plugin-unknown", "bogus", extra="TopologyPlugin=topology/bogus", version=V24),
    Files("conf-missing", "tree (BR-15)", extra="TopologyPlugin=topology/tree", version=V24),
    Files("conf-missing", "block", extra="TopologyPlugin=topology/block", version=V24),
    _tree24("conf-line", "unknown key", "Foo=1\n"),
    _tree24("conf-line", "unknown key in a line", "SwitchName=q Nodes=n1 Foo=1\n"),
    _tree24("conf-line", "text", "hello\n"),
    _tree24("conf-line", "of blocks", _BLOCK24),
    _tree24("conf-line", "speed", "SwitchName=q Nodes=n1 LinkSpeed=x\n"),
    _block24("conf-line", "of switches", "", _TREE24),
    _block24("conf-line", "sizes empty", "BlockSizes=\n"),
    _tree24("unit-twice", "switch", "SwitchName=a Nodes=n1\n"),
    _tree24("child-undefined", "", "SwitchName=q Switches=zz\n"),
    _tree24("child-undefined", "itself", "SwitchName=q Switches=q\n"),
    _tree24("switch-loop", "", "SwitchName=q Switches=s\nSwitchName=s Switches=q\n"),
    _tree24("children-empty", "", 'SwitchName=q Switches=""\n'),
    _tree24("unit-empty", "switch", "SwitchName=q\n"),
    _tree24("nodes-and-children", "", "SwitchName=q Switches=a Nodes=n1\n"),
    _tree24("hostlist-invalid", "", "SwitchName=q Nodes=n[1-\n"),
    _tree24("name-long", "", f"SwitchName={'a' * 65} Nodes=n1\n"),
    Files(
        "tree-too-deep", "", None, "".join(_CHAIN24[::-1]), extra="TopologyPlugin=topology/tree", version=V24
    ),
    _block24("unit-twice", "block", "BlockName=x Nodes=n[1-2]\nBlockSizes=2\n"),
    _block24("unit-empty", "block", "BlockName=z\nBlockSizes=2\n"),
    _block24("block-short", "(BR-12)", "BlockName=z Nodes=n1\nBlockSizes=2\n"),
    _block24("block-short", "base above all", "BlockSizes=3\n"),
    _block24("block-short", "of unknown nodes", "BlockName=z Nodes=zz1,zz2\nBlockSizes=2\n"),
    _block24("block-short", "without sizes", "BlockName=z Nodes=n1\n"),
    _block24("hostlist-invalid", "block", "BlockName=z Nodes=n[1-\nBlockSizes=2\n"),
    *(_block24("block-sizes", size, f"BlockSizes={size}\n") for size in ("2,3", "2,6", "4,2", "0", "-1", "2,131072")),
    _block24("block-sizes-type", "(BR-11)", "BlockSizes=x\n"),
    _block24("block-sizes-overflow", "", "BlockSizes=65536\n"),
    _block24("block-name", "", "BlockSizes=2,4\n", _BLOCK24.replace("=y", "=y[")),
    Files("plugin-empty", "", extra="TopologyPlugin=", version=V24, seen_by_rehearsal=False),
)  # fmt: skip

# slurmctld starts, and takes no job (under block: no topology).
IDLE_24 = (Files("conf-empty-idle", "", None, "", extra="TopologyPlugin=topology/tree", version=V24),)

STARTS_24 = (
    _tree24("", "tree", ""),
    _block24("", "block", "BlockSizes=2,4\n"),
    _block24("", "no sizes", ""),
    _block24("", "longer blocks", "", "BlockName=x Nodes=n1\nBlockName=y Nodes=n[2-4]\n"),
    Files("", "a broken topology.yaml", "[]\n", version=V24),
    _tree24("", "leaf with an empty list", 'SwitchName=q Nodes=""\n'),
    _tree24("", "two parents, node twice, unknown node", "SwitchName=q Switches=a\nSwitchName=s Nodes=n1,zz\n"),
    Files("", "lower case", None, _TREE24.lower(), extra="TopologyPlugin=topology/tree", version=V24),
    Files(
        "", "continued lines, quotes, comments, CRLF", None,
        _TREE24.replace(" Nodes=n[3-4]", ' \\\n Nodes="n[3-4]" # b').replace("\n", "\r\n").replace("\\\r", "\\"),
        extra="TopologyPlugin=topology/tree", version=V24,
    ),
    Files("", "25 levels bottom-up", None, "".join(_CHAIN24), extra="TopologyPlugin=topology/tree", version=V24),
    Files("", "a list of switches", None, "SwitchName=s[1-2] Nodes=n[1-4]\n", extra="TopologyPlugin=topology/tree",
          version=V24),
    *(Files("", f"plugin {p}", extra=f"TopologyPlugin=topology/{p}", version=V24) for p in ("default", "none")),
    Files("", "unused topology.conf", None, "hello\n", version=V24),
)  # fmt: skip
