"""A job's place is judged against the best one that its partition could ever give."""

from __future__ import annotations

import json

import pytest

from tests import states
from topology_plugin.core.live import Job
from topology_plugin.jobs import columns, distance, placement
from topology_plugin.jobs.placement import place

STATE = states.state()
TRAIN = distance.of_state(STATE, "train")
ULTRA = distance.of_state(STATE, "ultra")


def job(nodes: tuple[str, ...], partition: str = "train") -> Job:
    return Job(7, "llama", "ana", "RUNNING", nodes, partition)


def train(*numbers: int) -> tuple[str, ...]:
    return tuple(TRAIN.nodes[n] for n in numbers)


@pytest.mark.parametrize(
    ("numbers", "leaves", "least", "spines", "mean", "worst", "one_leaf"),
    [
        pytest.param(range(8), 1, 1, 1, 1.0, 1, 1.0, id="fills one leaf"),
        pytest.param((0, 8), 2, 1, 1, 3.0, 3, 0.0, id="two leaves where one would do"),
        pytest.param((0, 1, 8), 2, 1, 1, (1 + 3 + 3) / 3, 3, 1 / 3, id="one of three pairs together"),
        pytest.param((0, 32), 2, 1, 2, 5.0, 5, 0.0, id="through the top"),
        pytest.param(range(12), 2, 2, 1, (28 + 6 + 32 * 3) / 66, 3, 34 / 66, id="as good as it gets"),
        pytest.param((5,), 1, 1, 1, 0.0, 0, 1.0, id="one node"),
    ],
)
def test_leaves_spines_and_hops_of_a_job(
    numbers: range, leaves: int, least: int, spines: int, mean: float, worst: int, one_leaf: float
) -> None:
    found = place(job(train(*numbers)), TRAIN)
    assert (found.leaves, found.least_leaves, found.spines) == (leaves, least, spines)
    assert found.spread.mean_hops == pytest.approx(mean)
    assert (found.spread.worst_hops, found.spread.one_leaf) == (worst, pytest.approx(one_leaf))
    assert found.least_blocks == 0  # nothing to say about UltraServers


def test_ultraservers_and_the_jobs_share_of_each() -> None:
    found = place(job((*ULTRA.nodes[:6], *ULTRA.nodes[18:22]), "ultra"), ULTRA)
    assert (found.blocks, found.least_blocks, found.block_ratio) == (2, 1, 2.0)
    assert found.per_block == {"us-0001": 6, "us-0002": 4}


def test_an_unplaced_node_counts_as_a_leaf_of_its_own_and_is_told() -> None:
    seen = states.state(states.inventory(unlabelled=(3,)))
    network = distance.of_state(seen, "train")
    found = place(job(network.nodes[:4]), network)
    assert (found.leaves, found.spread.unplaced, found.spread.worst_hops) == (2, 1, 7)
    assert "1 unplaced" in columns.columns(placement.HEAD, placement.rows([found]))


def test_nodes_that_left_the_partition_since_are_told() -> None:
    found = place(job((*train(0), "ip-gone")), TRAIN)
    assert found.outside == 1
    assert "1 no longer in the partition" in columns.columns(placement.HEAD, placement.rows([found]))


def test_one_node_jobs_do_not_flatter_the_mean() -> None:
    placed = [place(job(train(0)), TRAIN), place(job(train(0, 8)), TRAIN), place(job(train(0, 1)), TRAIN)]
    found = placement.summary(placed)
    assert (found.jobs, found.leaf_ratio, found.block_ratio) == (2, 1.5, None)
    assert placement.summary(placed[:1]).leaf_ratio is None


def test_the_json_is_plain_and_has_the_documented_keys() -> None:
    found = json.loads(json.dumps(place(job((*ULTRA.nodes[:6],), "ultra"), ULTRA).to_json()))
    assert list(found) == [
        "job", "name", "user", "state", "partition", "nodes", "leaves", "least_leaves", "spines", "least_spines",
        "blocks", "least_blocks", "per_block", "mean_hops", "worst_hops", "one_leaf_share", "unplaced", "outside",
    ]  # fmt: skip


def test_a_table_leaves_out_what_no_row_has() -> None:
    text = columns.columns(placement.HEAD, placement.rows([place(job(train(0, 8)), TRAIN)]))
    assert "blocks" not in text
    assert "2 (of 1)" in text
