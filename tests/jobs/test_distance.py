"""Distances count the switches that a packet meets, not the switches that Slurm's tree needs."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import states
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Block, Blocks, Flat, Switch, Topology, Tree
from topology_plugin.core.tree import grow
from topology_plugin.jobs import distance
from topology_plugin.jobs.distance import Network

THREE = Network(
    ("a", "b", "c", "d", "e", "lost"),
    {
        "a": ("t", "s1", "l1"),
        "b": ("t", "s1", "l1"),
        "c": ("t", "s1", "l2"),
        "d": ("t", "s2", "l3"),
        "e": ("other", "s9", "l9"),
    },
    kind="tree",
)


@pytest.mark.parametrize(
    ("first", "second", "hops"),
    [
        pytest.param("a", "a", 0, id="itself"),
        pytest.param("a", "b", 1, id="one leaf"),
        pytest.param("a", "c", 3, id="one spine"),
        pytest.param("a", "d", 5, id="one top"),
        pytest.param("a", "e", 7, id="nothing shared"),
        pytest.param("a", "lost", 7, id="unplaced is as far as can be"),
    ],
)
def test_hops_are_counted_to_the_lowest_shared_switch(first: str, second: str, hops: int) -> None:
    assert THREE.hops(first, second) == hops == THREE.hops(second, first)


def test_two_unplaced_nodes_are_never_near_each_other() -> None:
    network = Network(("x", "y", "z"), {"z": ("t", "s", "l")})
    assert network.hops("x", "y") == 7
    assert network.leaf("x") != network.leaf("y")


def test_types_with_three_and_four_layers_are_measured_along_their_own_paths() -> None:
    network = Network(("p5", "b200"), {"p5": ("t", "s", "l"), "b200": ("t", "a", "b", "c")})
    assert network.hops("p5", "b200") == 2 + 3 + 1


def test_nodes_of_an_ultraserver_are_one_switch_apart_wherever_the_network_puts_them() -> None:
    network = Network(
        ("a", "b", "c"),
        {"a": ("t", "l1"), "b": ("t", "l2"), "c": ("t", "l1")},
        {"a": "us-1", "b": "us-1", "c": "us-2"},
        kind="block",
    )
    assert (network.hops("a", "b"), network.hops("a", "c"), network.hops("b", "c")) == (1, 1, 3)


ids = st.sampled_from("abcd")
paths = st.dictionaries(
    st.integers(0, 40).map(lambda n: f"n{n}"),
    st.one_of(st.tuples(ids, ids, ids), st.tuples(ids, ids, ids, ids)).map(
        # one id per place, as a network has them
        lambda path: tuple("-".join(path[: depth + 1]) for depth in range(len(path)))
    ),
    min_size=2,
    max_size=24,
)


@given(paths, st.sets(st.integers(50, 60).map(lambda n: f"n{n}"), max_size=3))
def test_all_pairs_at_once_equal_each_pair_on_its_own(paths: dict[str, tuple[str, ...]], lost: set[str]) -> None:
    nodes = (*paths, *lost)
    network = Network(nodes, paths)
    spread = network.spread(nodes)
    hops = [network.hops(a, b) for a, b in combinations(nodes, 2)]
    assert spread.pairs == len(hops)
    assert spread.mean_hops == pytest.approx(sum(hops) / len(hops))
    assert spread.worst_hops == max(hops)
    assert spread.one_leaf == pytest.approx(
        sum(network.leaf(a) == network.leaf(b) for a, b in combinations(nodes, 2)) / len(hops)
    )
    assert spread.unplaced == len(lost)


@given(paths, st.booleans())
def test_fillers_and_folded_layers_of_slurms_tree_change_no_distance_between_nodes(
    paths: dict[str, tuple[str, ...]], unplaced: bool
) -> None:
    lost = ["lost"] if unplaced else []
    positions = {node: Position(path) for node, path in paths.items()}
    tree = grow(positions, lost, separate_fabrics=False).tree
    real = distance.of_positions((*paths, *lost), positions, None)
    seen = distance.of_topology(Topology("tree", tree))
    assert set(seen.nodes) == set(real.nodes)
    for a, b in combinations(paths, 2):
        assert seen.hops(a, b) == real.hops(a, b)
        assert (seen.leaf(a) == seen.leaf(b)) == (real.leaf(a) == real.leaf(b))
    assert seen.unplaced == real.unplaced == tuple(lost)


def test_a_foreign_tree_is_read_by_its_switches() -> None:
    tree = Tree((Switch("s0", ("a",)), Switch("s1", ("b",)), Switch("core", (), ("s0", "s1"))))
    network = distance.of_topology(Topology("t", tree))
    assert (network.hops("a", "b"), network.layers_known) == (3, False)


def test_blocks_of_a_topology_keep_unplaced_nodes_apart() -> None:
    body = Blocks((18,), (Block("us-1", ("a", "b")), Block("unplaced-c", ("c",)), Block("pad-1")))
    network = distance.of_topology(Topology("block", body))
    assert (network.hops("a", "b"), network.unplaced) == (1, ("c",))


def test_a_partition_of_the_last_pass_keeps_the_networks_own_layers() -> None:
    network = distance.of_state(states.state(), "train")
    assert network.layers_known
    assert {len(path) for path in network.paths.values()} == {3}  # the tree has the top layer folded
    assert network.kind == "tree"


def test_a_flat_partition_still_knows_what_its_nodes_reported() -> None:
    network = distance.of_state(states.state(), "dev")
    assert network.kind == "flat"
    assert len(network.paths) == 64 + 36
    assert len(network.unplaced) == 8 + 1


def test_a_flat_topology_tells_nothing() -> None:
    network = distance.of_topology(Topology("flat", Flat()), ["a", "b"])
    assert network.unplaced == ("a", "b")
