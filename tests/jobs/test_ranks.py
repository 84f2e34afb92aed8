"""Rank order: neighbours in the list are neighbours in the network."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import states
from topology_plugin.core.topology import FLAT_ONLY
from topology_plugin.jobs import distance, ranks
from topology_plugin.jobs.distance import Network

STATE = states.state()
TRAIN, ULTRA = (distance.of_state(STATE, name) for name in ("train", "ultra"))


@given(st.sets(st.sampled_from(TRAIN.nodes), min_size=1), st.integers(0, 99))
def test_every_leaf_and_spine_is_one_run_of_ranks_whatever_the_order_given(chosen: set[str], seed: int) -> None:
    nodes = sorted(chosen)
    random.Random(seed).shuffle(nodes)
    found = ranks.order(nodes, TRAIN)
    assert sorted(found) == sorted(nodes)
    assert found == ranks.order(sorted(nodes), TRAIN)
    for domain in (TRAIN.leaf, TRAIN.spine):
        runs = [domain(node) for i, node in enumerate(found) if i == 0 or domain(node) != domain(found[i - 1])]
        assert len(runs) == len(set(runs))
    assert ranks.borders(found, TRAIN) <= ranks.borders(nodes, TRAIN)


def test_the_fullest_parts_come_first_and_unplaced_nodes_last() -> None:
    network = Network(("a", "b", "c", "lost"), {"a": ("t", "s1", "x"), "b": ("t", "s2", "y"), "c": ("t", "s2", "y")})
    assert ranks.order(["lost", "a", "b", "c"], network) == ("b", "c", "a", "lost")


def test_an_ultraserver_stays_together_also_over_several_leaves() -> None:
    network = Network(
        ("a", "b", "c", "d"),
        {"a": ("t", "l1"), "b": ("t", "l2"), "c": ("t", "l1"), "d": ("t", "l2")},
        {"a": "us-1", "b": "us-1", "c": "us-2", "d": "us-2"},
    )
    found = ranks.order(["a", "c", "b", "d"], network)
    first, second, third, fourth = (network.blocks[node] for node in found)
    assert first == second != third == fourth


def test_ultraservers_keep_their_nodes_together() -> None:
    shuffled = list(ULTRA.nodes)
    random.Random(1).shuffle(shuffled)
    found = ranks.order(shuffled, ULTRA)
    assert len({ULTRA.blocks[node] for node in found[:18]}) == 1


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("slurm", "a\na\nb\nb\n"),
        ("openmpi", "a slots=2\nb slots=2\n"),
        ("mpich", "a:2\nb:2\n"),
        ("nodes", "a\nb\n"),
    ],
)
def test_hostfiles_in_each_form(form: ranks.Form, text: str) -> None:
    assert ranks.hostfile(["a", "b"], form, 2) == text


@pytest.mark.parametrize("form", ranks.FORMS)
def test_notes_say_how_to_use_the_file_and_where_slurm_refuses_it(form: ranks.Form) -> None:
    said = " ".join(ranks.notes(form, 8, 4, STATE.desired, ""))
    assert "Slurm orders tasks by its node table" in said
    assert ("srun -n32" in said) == (form == "slurm")
    assert ("refuses it together with -N" in said) == (form == "slurm")


def test_notes_say_where_slurm_does_it_itself() -> None:
    tree_default = states.state(states.inventory(16, 0, 0)).desired
    kinds = tree_default.default.kind
    said = ranks.notes("nodes", 1, 2, tree_default, "RouteTree,SwitchAsNodeRank")[0]
    assert ("by itself" in said) == (kinds == "tree")
    assert "unless" in ranks.notes("nodes", 1, 2, FLAT_ONLY, "SwitchAsNodeRank")[0]
