"""A hold: what stands is kept, whoever wrote it and in whatever order, and joiners look near to nobody."""

from __future__ import annotations

import pytest

from topology_plugin.core import rules_topology
from topology_plugin.core.declared import declared
from topology_plugin.core.holding import held
from topology_plugin.core.inventory import Inventory, Node, Partition
from topology_plugin.core.rules import Findings
from topology_plugin.core.topology import Configuration, Switch, Topology, Tree

LEAVES = (Switch("a", ("n1", "n2")), Switch("b", ("n3",)))
ROOT = Switch("root", children=("a", "b"))

TREES = {
    "as we write it": (*LEAVES, ROOT),
    "top-down": (ROOT, *reversed(LEAVES)),
    "three levels, top-down": (
        Switch("top", children=("left", "right")),
        Switch("left", children=("a",)),
        Switch("right", children=("b",)),
        *LEAVES,
    ),
    "roots of two heights": (LEAVES[0], LEAVES[1], Switch("low", children=("a",)),
                             Switch("mid", children=("b",)), Switch("high", children=("mid",))),
    "roots of two heights, top-down": (Switch("high", children=("mid",)), Switch("mid", children=("b",)),
                                       Switch("low", children=("a",)), *LEAVES),
    "a switch alone": (Switch("root", ("n1", "n2", "n3")),),
    "switches alone": LEAVES,
    "with one unplaced before": (*LEAVES, Switch("unplaced-n0", ("n0",)), Switch("l", children=("a", "b")),
                                 Switch("unplaced", children=("unplaced-n0",)),
                                 Switch("root", children=("l", "unplaced"))),
}  # fmt: skip


def held_with(switches: tuple[Switch, ...], nodes: tuple[str, ...], most: int = 64) -> Tree:
    configuration = Configuration((Topology("tree", Tree(switches), default=True),), {"p": None})
    inventory = Inventory({n: Node(n) for n in nodes}, {}, {"p": Partition("p", nodes)})
    body = held(configuration, inventory, most).default.body
    assert isinstance(body, Tree)
    return body


def faults(tree: Tree, nodes: tuple[str, ...]) -> list[str]:
    """What the rules say of it. Several roots are no fault of ours if there were several."""
    findings = Findings((26, 5, 5))
    for one in declared(Configuration((Topology("tree", tree, default=True),), {"p": None})):
        rules_topology.structure(one, findings)
        rules_topology.coverage(one, "p", nodes, findings)
    return [str(found) for found in findings.found if found.rule != "roots-several"]


@pytest.mark.parametrize("most", [64, 1], ids=["a leaf each", "one leaf for all"])
@pytest.mark.parametrize("switches", TREES.values(), ids=TREES)
def test_joiners_are_added_and_what_stands_stays(switches: tuple[Switch, ...], most: int) -> None:
    former = Tree(switches)
    nodes = (*dict.fromkeys((*former.nodes(), "n8", "n9")),)
    tree = held_with(switches, nodes, most)
    assert faults(tree, nodes) == []
    placed = [s for s in switches if s.nodes and not s.name.startswith("unplaced")]
    assert [s for s in tree.switches if s in placed] == placed, "no leaf changes"
    assert len(tree.roots()) == len(former.roots()), "whoever could run together still can"
    near = {node for s in placed for node in s.nodes}
    assert all(near.isdisjoint(s.nodes) for s in tree.switches if {"n8", "n9"} & {*s.nodes})


@pytest.mark.parametrize("switches", TREES.values(), ids=TREES)
def test_a_node_that_left_takes_what_is_empty_then_with_it(switches: tuple[Switch, ...]) -> None:
    tree = held_with(switches, ("n1", "n2"))
    assert faults(tree, ("n1", "n2")) == []
    assert sorted(tree.nodes()) == ["n1", "n2"]


@pytest.mark.parametrize(
    "switches",
    [
        (Switch("x", children=("y",)), Switch("y", children=("x",)), *LEAVES),
        (Switch("x", children=("y",)), Switch("y", children=("y",)), *LEAVES),
        (Switch("x", children=("gone",)), *LEAVES),
        (Switch("x", ("n1",), ("x",)),),
    ],
    ids=["loop", "its own child", "undefined child", "nothing but a loop"],
)
def test_a_tree_that_slurmctld_would_not_load_is_no_endless_walk(switches: tuple[Switch, ...]) -> None:
    held_with(switches, ("n1", "n2", "n3", "n9"))
