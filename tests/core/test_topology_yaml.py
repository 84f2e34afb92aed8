from __future__ import annotations

import time

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core import topology_yaml
from topology_plugin.core.issues import InputError
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.core.topology_yaml import parse, render, same

LEAVES = (Switch("nn-a", ("ip-10-1-1-11", "ip-10-1-1-12")), Switch("nn-b", ("ip-10-1-1-14",)))
TREE = Tree((*LEAVES, Switch("root", (), ("nn-a", "nn-b"))))
BLOCKS = Blocks((2, 4), (Block("us-1", ("ip-10-1-1-11", "ip-10-1-1-12")), Block("pad-1"), Block("us-2", ("x",))))
ALL = Configuration((Topology("flat", Flat(), True), Topology("tree", TREE), Topology("block", BLOCKS)))

WRITTEN = f"""\
{topology_yaml.HEADER}- topology: flat
  cluster_default: true
  flat: true
- topology: tree
  cluster_default: false
  tree:
    switches:
    - switch: nn-a
      nodes: ip-10-1-1-[11-12]
    - switch: nn-b
      nodes: ip-10-1-1-14
    - switch: root
      children: nn-a,nn-b
- topology: block
  cluster_default: false
  block:
    block_sizes:
    - 2
    - 4
    blocks:
    - block: us-1
      nodes: ip-10-1-1-[11-12]
    - block: pad-1
    - block: us-2
      nodes: x
"""

# `scontrol show topoconf` of 26.05.5, captured.
TOPOCONF = """\
%YAML 1.1
---
- topology: tree
  cluster_default: true
  block: {}
  flat: {}
  ring: {}
  torus3d: {}
  tree:
    switches:
    - switch: a
      children:
      nodes: n[1-2]
    - switch: e
      children:
      nodes:
    - switch: root
      children: a,e
      nodes:
- topology: block
  cluster_default: false
  block:
    block_sizes:
    - 4
    - 8
    blocks:
    - block: x
      nodes: n[1-4]
    - block: pad
      nodes:
  flat: {}
  ring: {}
  torus3d: {}
  tree: {}
- topology: flat
  cluster_default: false
  block: {}
  flat: true
  ring: {}
  torus3d: {}
  tree: {}
...
"""
LOADED = Configuration(
    (
        Topology("tree", Tree((Switch("a", ("n1", "n2")), Switch("e"), Switch("root", (), ("a", "e")))), True),
        Topology("block", Blocks((4, 8), (Block("x", ("n1", "n2", "n3", "n4")), Block("pad")))),
        Topology("flat", Flat()),
    )
)


def test_the_text_is_what_the_documentation_shows() -> None:
    assert render(ALL) == WRITTEN


def test_the_default_comes_first_wherever_it_stands() -> None:
    moved = Configuration((ALL.topologies[1], ALL.topologies[0], ALL.topologies[2]))
    assert render(moved) == WRITTEN


def test_it_names_no_version_and_no_time() -> None:
    assert not any(character.isdigit() for character in topology_yaml.HEADER)


def test_what_is_written_reads_back() -> None:
    assert parse(render(ALL)).topologies == ALL.topologies


def test_what_slurmctld_prints_reads_as_what_it_loaded() -> None:
    assert parse(TOPOCONF).topologies == LOADED.topologies
    assert same(LOADED, TOPOCONF) == []


NAMES = st.text("abcxyz-_019", min_size=1, max_size=12).map(lambda text: "n" + text)


@st.composite
def any_configuration(draw: st.DrawFn) -> Configuration:
    names = iter(draw(st.lists(NAMES, unique=True, min_size=8, max_size=30)))
    nodes = st.lists(NAMES, max_size=5, unique=True).map(lambda found: tuple(sorted(found)))
    leaves = [Switch(next(names), draw(nodes)) for _ in range(draw(st.integers(1, 3)))]
    tree = Tree((*leaves, Switch(next(names), (), tuple(leaf.name for leaf in leaves))))
    blocks = tuple(Block(next(names), draw(nodes)) for _ in range(draw(st.integers(1, 3))))
    return Configuration(
        (Topology("t", tree, True), Topology("b", Blocks((draw(st.integers(1, 99)),), blocks)), Topology("f", Flat()))
    )


@given(any_configuration())
def test_any_configuration_reads_back_up_to_the_order_of_nodes(configuration: Configuration) -> None:
    text = render(configuration)
    assert same(configuration, text) == []
    assert len(text.encode()) % 4096
    assert render(configuration) == text
    assert isinstance(yaml.safe_load(text), list)


@given(any_configuration(), any_configuration())
def test_two_configurations_differ_in_words_exactly_if_their_texts_do(one: Configuration, two: Configuration) -> None:
    assert bool(same(one, render(two))) == (render(one) != render(two))


LOADED_TREE, LOADED_BLOCK, LOADED_FLAT = LOADED.topologies
LOADED_UNITS = (Block("x", ("n1", "n2", "n3", "n4")), Block("pad"))
OTHER_LEAF = Tree((Switch("a", ("n1", "n3")), Switch("e"), Switch("root", (), ("a", "e"))))
CHANGES: list[tuple[str, tuple[Topology, ...], str]] = [
    ("gone", (LOADED_TREE, LOADED_BLOCK), "topology flat is loaded but not wanted"),
    ("new", (*LOADED.topologies, Topology("x", Flat())), "topology x is not loaded"),
    ("kind", (LOADED_TREE, Topology("block", Flat()), LOADED_FLAT),
     "topology block: is loaded as block, wanted is flat"),
    ("default", (Topology("tree", LOADED_TREE.body), LOADED_BLOCK, LOADED_FLAT),
     "topology tree: is loaded as the cluster default"),
    ("nodes", (Topology("tree", OTHER_LEAF, True), LOADED_BLOCK, LOADED_FLAT),
     "topology tree: switch a has nodes n1, n2, wanted are n1, n3"),
    ("sizes", (LOADED_TREE, Topology("block", Blocks((4,), LOADED_UNITS)), LOADED_FLAT),
     "topology block: block sizes 4, 8 are loaded, wanted are 4"),
    ("order", (LOADED_TREE, Topology("block", Blocks((4, 8), LOADED_UNITS[::-1])), LOADED_FLAT),
     "topology block: blocks are loaded in another order"),
]  # fmt: skip


@pytest.mark.parametrize(("wanted", "sentence"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES])
def test_a_difference_is_a_sentence(wanted: tuple[Topology, ...], sentence: str) -> None:
    assert same(Configuration(wanted), TOPOCONF) == [sentence]


ODD = [
    ("a map for the list", "topology: t\nflat: yes\n", Flat()),
    ("one size alone", "- topology: t\n  block:\n    block_sizes: 2\n    blocks:\n    - {block: x, nodes: n1}\n",
     Blocks((2,), (Block("x", ("n1",)),))),
    ("no size", "- topology: t\n  block:\n    blocks:\n    - block: e\n    - {block: x, nodes: 'n[1-3]'}\n",
     Blocks((3,), (Block("e"), Block("x", ("n1", "n2", "n3"))))),
    ("nodes win over children", "- topology: t\n  tree:\n    switches:\n    - {switch: a, nodes: n1, children: b}\n",
     Tree((Switch("a", ("n1",)),))),
    ("names stay texts", "- topology: t\n  tree:\n    switches:\n    - {switch: 007, nodes: null}\n",
     Tree((Switch("007", ("null",)),))),
    ("the last of two keys", "- topology: t\n  flat: false\n  flat: true\n", Flat()),
]  # fmt: skip


@pytest.mark.parametrize(("text", "body"), [row[1:] for row in ODD], ids=[row[0] for row in ODD])
def test_oddities_read_as_slurm_reads_them(text: str, body: object) -> None:
    assert [topology.body for topology in parse(text).topologies] == [body]


def test_the_first_of_a_name_and_the_first_default_count() -> None:
    text = """
- {topology: a, cluster_default: false, flat: true}
- {topology: b, cluster_default: true, flat: true}
- {topology: c, cluster_default: true, flat: true}
- {topology: b, block: {blocks: [{block: x, nodes: n1}]}}
"""
    assert [(t.name, t.default, t.kind) for t in parse(text).topologies] == [
        ("b", True, "flat"), ("a", False, "flat"), ("c", False, "flat"),
    ]  # fmt: skip


def test_every_fault_is_told_at_once() -> None:
    text = "- topology: a\n- {topology: b, tree: {switches: [{nodes: n1}, {switch: s, nodes: 'n['}]}}\n- x\n"
    with pytest.raises(InputError) as refused:
        parse(text)
    assert len(refused.value.issues) == 4
    assert "topology.yaml: topology a" in str(refused.value)


@pytest.mark.parametrize("text", ["", "[]", "# x\n", "hello", "- [", "- &a {}\n- *a\n", "\ud800"], ids=repr)
def test_what_holds_no_topology_is_an_input_error(text: str) -> None:
    with pytest.raises(InputError):
        parse(text)


def large(nodes: int, a_leaf: int = 18) -> Tree:
    names = [f"ip-10-{2 + i // 62500}-{(i // 250) % 250}-{i % 250 + 1}" for i in range(nodes)]
    leaves = [Switch(f"nn-3{i:016x}", tuple(names[i * a_leaf : (i + 1) * a_leaf])) for i in range(-(-nodes // a_leaf))]
    middles = [
        Switch(f"nn-2{i:016x}", (), tuple(leaf.name for leaf in leaves[4 * i : 4 * i + 4]))
        for i in range(-(-len(leaves) // 4))
    ]
    return Tree((*leaves, *middles, Switch("root", (), tuple(switch.name for switch in middles))))


def test_the_largest_clusters_text_is_small_and_made_in_no_time() -> None:
    configuration = Configuration((Topology("tree", large(16_384), True),))
    begun = time.process_time()
    text = render(configuration)
    spent = time.process_time() - begun
    assert len(text) <= 150_000
    assert spent < 0.25  # 0.025 s alone
    begun = time.process_time()
    assert same(configuration, text) == []
    assert time.process_time() - begun < 1  # 0.06 s alone


def test_one_node_replaced_changes_two_lines() -> None:
    tree = large(16_384)
    first, last = tree.switches[0], tree.switches[900]
    moved = {
        first.name: Switch(first.name, first.nodes[1:]),
        last.name: Switch(last.name, (*last.nodes, first.nodes[0])),
    }
    after = Tree(tuple(moved.get(switch.name, switch) for switch in tree.switches))
    old, new = (render(Configuration((Topology("tree", body, True),))).splitlines() for body in (tree, after))
    assert len(old) == len(new)
    assert sum(a != b for a, b in zip(old, new, strict=True)) == 2
