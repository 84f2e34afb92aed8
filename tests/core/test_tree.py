"""Trees: level, rooted, named by the network's ids, and honest about what is not known."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core import tree as trees
from topology_plugin.core.names import is_safe
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Switch, Tree


def grow(paths: Mapping[str, trees.Path], unplaced: Iterable[str] = (), **options: Any) -> trees.Grown:
    return trees.grow({node: Position(path) for node, path in paths.items()}, unplaced, **options)


def depths(tree: Tree) -> dict[str, dict[str, int]]:
    """root → leaf → depth."""
    by_name = {switch.name: switch for switch in tree.switches}
    found: dict[str, dict[str, int]] = {}
    for root in tree.roots():
        found[root.name] = {}
        pending = [(root, 0)]
        while pending:
            switch, depth = pending.pop()
            if not switch.children:
                found[root.name][switch.name] = depth
            pending.extend((by_name[child], depth + 1) for child in switch.children)
    return found


def parents(tree: Tree) -> dict[str, str]:
    return {child: switch.name for switch in tree.switches for child in switch.children}


def chain(tree: Tree, node: str) -> list[str]:
    """The switches from the root to the node."""
    above = parents(tree)
    here = next(switch.name for switch in tree.switches if node in switch.nodes)
    names = [here]
    while names[-1] in above:
        names.append(above[names[-1]])
    return names[::-1]


def rows(tree: Tree) -> list[tuple[str, str]]:
    return [(s.name, ",".join(s.nodes or s.children)) for s in tree.switches]


SHAPES = [
    pytest.param(
        {"a": ("t0", "s1", "x1"), "b": ("t0", "s1", "x2"), "c": ("t0", "s2", "x3")},
        [],
        [("x1", "a"), ("x2", "b"), ("x3", "c"), ("s1", "x1,x2"), ("s2", "x3"), ("root", "s1,s2")],
        id="the-layer-all-share-is-folded-into-the-root",
    ),
    pytest.param({"a": ("t0", "s", "x"), "b": ("t0", "s", "x")}, [], [("x", "a,b"), ("root", "x")], id="one-leaf-keeps-its-name"),
    pytest.param(
        {"a": ("t0", "s", "x1"), "b": ("u", "v", "x2")},
        [],
        [("x1", "a"), ("x2", "b"), ("s", "x1"), ("v", "x2"), ("t0", "s"), ("u", "v"), ("root", "t0,u")],
        id="nothing-shared-nothing-folded",
    ),
    pytest.param(
        {"a": ("t0", "s", "x1"), "b": ("u", "v", "w", "x2")},
        [],
        [
            ("x1", "a"), ("x2", "b"), ("s", "x1"), ("w", "x2"), ("t0", "s"), ("v", "w"),
            ("t0-l1", "t0"), ("u", "v"), ("root", "t0-l1,u"),
        ],
        id="three-layers-are-raised-to-four-above-their-top",
    ),
    pytest.param(
        {"a": ("t0", "s"), "b": ("t0", "s", "x"), "c": ("t0", "r", "y0")},
        [],
        [("s-l1", "a"), ("x", "b"), ("y0", "c"), ("r", "y0"), ("s", "s-l1,x"), ("root", "r,s")],
        id="nodes-on-an-inner-switch-get-a-leaf-of-their-own",
    ),
    pytest.param(
        {"a": ("t0", "s", "x")},
        ["n2", "n1"],
        [
            ("unplaced-n1", "n1"), ("unplaced-n2", "n2"), ("x", "a"),
            ("s", "x"), ("unplaced", "unplaced-n1,unplaced-n2"), ("root", "s,unplaced"),
        ],
        id="unplaced-nodes-hang-apart-a-leaf-each",
    ),
    pytest.param(
        {"a": ("x",)},
        ["n1"],
        [("unplaced-n1", "n1"), ("x", "a"), ("unplaced", "unplaced-n1"), ("x-l1", "x"), ("root", "unplaced,x-l1")],
        id="single-layer-is-raised-beside-unplaced",
    ),
    pytest.param(
        {"a": ("t0", "t0", "x"), "b": ("t0", "t0", "y0")},
        [],
        [("x", "a"), ("y0", "b"), ("root", "x,y0")],
        id="a-layer-repeating-the-one-above-is-no-layer",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("paths", "unplaced", "expected"), SHAPES)
def test_a_tree_has_these_switches(
    paths: dict[str, tuple[str, ...]], unplaced: list[str], expected: list[tuple[str, str]]
) -> None:
    assert rows(grow(paths, unplaced).tree) == expected


def test_an_id_that_slurm_cannot_take_is_hashed_and_an_id_that_looks_like_ours_too() -> None:
    names = {
        s.name
        for s in grow({"a": ("Top", "root", "nn-12345678901234567"), "b": ("Top", "s-l1", "unplaced")}).tree.switches
    }
    assert all(is_safe(name) for name in names)
    assert names.isdisjoint({"s-l1", "unplaced", "Top"})
    assert sum(name.startswith("sw-") for name in names) == 4


def test_an_id_below_two_parents_stays_with_the_place_that_more_nodes_report() -> None:
    grown = grow({"a": ("t", "s1", "x"), "b": ("t", "s1", "x"), "c": ("t", "s2", "x")})
    assert chain(grown.tree, "a") == ["root", "s1", "x"]
    assert chain(grown.tree, "c")[:2] == ["root", "s2"]
    assert chain(grown.tree, "c")[2].startswith("sw-")
    assert any("x is reported below different switches" in note for note in grown.notes)


def test_an_id_that_returns_further_down_makes_no_loop() -> None:
    tree = grow({"a": ("x", "y", "x"), "b": ("z", "y2", "w")}).tree
    assert len(chain(tree, "a")) == len(set(chain(tree, "a"))) == 4


def test_more_unplaced_nodes_than_allowed_share_one_leaf_and_it_is_said() -> None:
    grown = grow({"a": ("t", "s", "x")}, [f"n{i}" for i in range(65)])
    assert next(s for s in grown.tree.switches if s.name == "unplaced-all").nodes[:3] == ("n0", "n1", "n2")
    assert any("65 unplaced nodes share" in note for note in grown.notes)
    few = grow({"a": ("t", "s", "x")}, [f"n{i}" for i in range(64)])
    assert not any(s.name == "unplaced-all" for s in few.tree.switches)


def test_br_14_known_different_zones_get_roots_of_their_own_and_it_is_said() -> None:
    paths = {"a": ("nn-1a", "s", "x"), "b": ("nn-1b", "r", "y")}
    grown = grow(paths, zones={"a": "usw2-az1", "b": "usw2-az2"})
    assert [root.name for root in grown.tree.roots()] == ["root-usw2-az1", "root-usw2-az2"]
    assert "a job cannot span root-usw2-az1 and root-usw2-az2" in grown.notes


@pytest.mark.parametrize(
    "zones", [{}, {"a": "usw2-az1"}, {"a": "usw2-az1", "b": "usw2-az1"}], ids=["unknown", "one-unknown", "same"]
)
def test_br_14_same_or_unknown_zones_are_joined_and_the_tops_are_named(zones: dict[str, str]) -> None:
    grown = grow({"a": ("nn-1a", "s", "x"), "b": ("nn-1b", "r", "y")}, zones=zones)
    assert [root.name for root in grown.tree.roots()] == ["root"]
    assert "one root joins the top network nodes nn-1a, nn-1b" in grown.notes


def test_br_14_the_setting_decides_otherwise() -> None:
    paths = {"a": ("nn-1a", "s", "x"), "b": ("nn-1b", "r", "y")}
    assert len(grow(paths, separate_fabrics=True).tree.roots()) == 2
    assert len(grow(paths, zones={"a": "z1", "b": "z2"}, separate_fabrics=False).tree.roots()) == 1


def test_unplaced_nodes_beside_separated_fabrics_are_near_to_neither() -> None:
    tree = grow({"a": ("t", "s", "x"), "b": ("u", "r", "y")}, ["n"], zones={"a": "z1", "b": "z2"}).tree
    assert chain(tree, "n") == ["unplaced", "unplaced-n"]


ids = st.sampled_from([f"nn-{i}" for i in range(9)] + ["Top", "root", "nn-12345678901234567", "s-l1"])
random_paths = st.dictionaries(
    st.sampled_from([f"ip-10-1-{i}-{j}" for i in range(3) for j in range(12)]),
    st.lists(ids, min_size=1, max_size=5).map(tuple),
    min_size=1,
    max_size=30,
)
random_unplaced = st.lists(st.sampled_from([f"login-{i}" for i in range(5)] + ["all", "l1", "Odd.Name"]), unique=True)
random_zones = st.dictionaries(
    st.sampled_from([f"ip-10-1-{i}-{j}" for i in range(3) for j in range(12)]), st.sampled_from(["z1", "z2"])
)


@given(random_paths, random_unplaced, random_zones, st.sampled_from([True, False, "auto"]))
def test_every_tree_is_level_complete_and_well_named(paths, unplaced, zones, separate) -> None:  # type: ignore[no-untyped-def]
    tree = grow(paths, unplaced, zones=zones, separate_fabrics=separate, max_unplaced_leaves=3).tree
    names = [switch.name for switch in tree.switches]
    assert len(names) == len(set(names))
    assert all(is_safe(name) for name in names)
    assert sorted(tree.nodes()) == sorted([*paths, *unplaced])
    assert all(bool(switch.nodes) != bool(switch.children) for switch in tree.switches)
    seen: set[str] = set()
    children: list[str] = []
    for switch in tree.switches:
        assert seen.issuperset(switch.children), "children stand before their parents"
        seen.add(switch.name)
        children.extend(switch.children)
    assert len(children) == len(set(children)), "one parent each"
    for leaves in depths(tree).values():
        assert len(set(leaves.values())) == 1, "all leaves of a root are equally deep"


@given(random_paths, random_unplaced, st.randoms())
def test_the_order_in_which_facts_arrive_does_not_matter(paths, unplaced, random) -> None:  # type: ignore[no-untyped-def]
    shuffled = list(paths.items())
    random.shuffle(shuffled)
    assert grow(dict(shuffled), unplaced[::-1]) == grow(paths, unplaced)


@given(random_paths, random_unplaced)
def test_an_unplaced_node_never_looks_nearer_to_a_placed_one_than_any_other_placed_one_does(paths, unplaced) -> None:  # type: ignore[no-untyped-def]
    tree = grow(paths, unplaced).tree
    for lost in unplaced:
        ours = set(chain(tree, lost))
        for node in paths:
            assert ours & set(chain(tree, node)) == {"root"}


@given(random_paths)
def test_nodes_that_share_switches_lie_as_deep_together_as_their_paths_say(paths) -> None:  # type: ignore[no-untyped-def]
    tree = grow(paths).tree
    by_path: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for node, path in paths.items():
        by_path[path].append(node)
    for nodes in by_path.values():
        assert len({tuple(chain(tree, node)) for node in nodes}) == 1


@given(random_paths, st.data())
def test_a_node_less_changes_only_the_lines_that_concern_it(paths, data) -> None:  # type: ignore[no-untyped-def]
    """Where no layer appears or vanishes and no id is contradictory (the exceptions that the design names)."""
    gone = data.draw(st.sampled_from(sorted(paths)))
    rest = {node: path for node, path in paths.items() if node != gone}
    twins = [node for node, path in rest.items() if path == paths[gone]]
    if not twins:
        return
    before, after = (set(map(repr, grow(p).tree.switches)) for p in (paths, rest))
    reports_tied = len({s for p in paths.values() for s in p}) != len(
        {p[: i + 1] for p in paths.values() for i in range(len(p))}
    )
    if not reports_tied:
        assert len(before - after) == len(after - before) == 1
        assert isinstance(next(iter(grow(paths).tree.switches)), Switch)
