"""Refused sizes against what the real slurmctld refused; more shapes: tests/slurm/test_job_sizes_real.py."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core.job_sizes import Ranges, accepts, lost, next_accepted, refused, told
from topology_plugin.core.topology import Block, Blocks, Flat, Switch, Topology, Tree


def blocks(counts: list[int], sizes: list[int], named: list[str] | None = None) -> Topology:
    names = iter(named or nodes(sum(counts)))
    made = tuple(Block(f"b{i}x", tuple(next(names) for _ in range(count))) for i, count in enumerate(counts))
    return Topology("b", Blocks(tuple(sizes), made), True)


def nodes(count: int) -> list[str]:
    return [f"n{number}" for number in range(1, count + 1)]


# counts, sizes, what `sbatch --test-only` of 26.05.5 refused
SEEN: list[tuple[list[int], list[int], str]] = [
    ([18, 18], [18], ""),
    ([18, 18], [18, 36], ""),
    ([18, 18], [17], ""),
    ([18, 18], [9], ""),
    ([18, 18], [1], ""),
    ([18, 18], [36], "19-36"),
    ([18, 18], [1, 2, 4, 8, 16, 32], "33-36"),
    ([18, 12, 6], [18], "31-36"),
    ([18, 12, 6], [6], ""),
    ([18, 17, 1], [18], "36"),
    ([17, 17, 2], [18], "18, 35-36"),
    ([17, 17, 2], [16], ""),
    ([18, 0, 18], [18, 36], "19-36"),
    ([18, 18, 0], [18, 36], ""),
    ([4, 4, 4], [4, 8], "9-12"),
    ([4, 4, 4, 0], [4, 8], ""),
    ([4, 3, 4, 4, 1, 1], [4, 8], "16"),
    ([4, 4, 4, 4, 4, 4, 4, 4], [4, 8, 16], ""),
    ([4, 4, 3, 4, 4, 2, 4], [4, 8, 16], "16-25"),
    ([4, 4, 3, 4, 4, 2, 4, 0], [4, 8, 16], "16"),
    ([4, 1, 1, 1, 1], [4], "6-8"),
    ([18, 18, 18, 0, 18, 0], [10, 20], "61-72"),
    # tried again without n9, then also without n10, until another pair is the fullest
    ([2, 2, 2, 2, 0, 4], [2, 4], ""),
    ([2, 2, 2, 2, 0, 5], [2, 4], "13"),
    ([1, 1, 1, 1, 0, 5], [1, 2], "7-9"),
    ([3, 1, 2, 2, 0, 4, 1, 1], [2, 4], "12"),
    ([3, 0, 4, 0, 2, 1, 1, 1], [2, 4], "6-12"),
    # an odd number of blocks: the last one is not counted, but taken
    ([1, 0, 1, 3, 1, 2, 1, 0, 1], [1, 2], "10"),
    ([0, 0, 3, 3, 2, 3, 3, 0, 6, 4, 6], [3, 6, 12], "15-30"),
]


# What is refused depends on the order of the nodes' names.
STALLS_BY_ORDER = ([3, 2, 1, 0, 0, 4, 1, 2], [2, 4])


@pytest.mark.parametrize(("counts", "sizes", "seen"), SEEN, ids=[f"{c}-{s}" for c, s, _ in SEEN])
def test_blocks_refuse_what_slurmctld_refused(counts: list[int], sizes: list[int], seen: str) -> None:
    assert told(refused(blocks(counts, sizes), nodes(sum(counts)))) == seen


def test_255_of_256_nodes_cannot_run_14_full_blocks() -> None:
    counts = [17, *[18] * 13, 4]
    assert told(refused(blocks(counts, [18]), nodes(255))) == "252"


def test_flat_refuses_nothing() -> None:
    assert refused(Topology("f", Flat(), True), nodes(9)) == ()


TREES: list[tuple[str, tuple[Switch, ...], int, str]] = [
    ("one root", (Switch("a", ("n1", "n2")), Switch("b", ("n3",)), Switch("r", (), ("a", "b"))), 3, ""),
    ("listed top-down", (Switch("r", (), ("a", "b")), Switch("a", ("n1", "n2")), Switch("b", ("n3",))), 3, ""),
    ("two roots", (Switch("a", ("n1", "n2")), Switch("b", ("n3",))), 3, "3"),
    ("a node outside", (Switch("a", ("n1", "n2")),), 4, "3-4"),
    ("a node twice", (Switch("a", ("n1", "n2")), Switch("b", ("n2",)), Switch("r", (), ("a", "b"))), 2, ""),
    ("no node of it", (Switch("a", ("m1",)),), 4, ""),
]


@pytest.mark.parametrize(("switches", "count", "seen"), [row[1:] for row in TREES], ids=[row[0] for row in TREES])
def test_a_tree_refuses_what_no_root_holds(switches: tuple[Switch, ...], count: int, seen: str) -> None:
    assert told(refused(Topology("t", Tree(switches), True), nodes(count))) == seen


def test_a_loop_of_switches_ends() -> None:
    tree = Tree((Switch("r", (), ("a",)), Switch("a", (), ("b",)), Switch("b", (), ("a",))))
    refused(Topology("t", tree, True), nodes(2))


def test_only_the_partitions_nodes_count() -> None:
    assert told(refused(blocks([4, 4], [4]), ["n1", "n2", "n3", "n5", "n6", "n7"])) == "4"


@pytest.mark.parametrize(
    ("counts", "sizes"),
    [
        pytest.param([18] * 910 + [4], [18, 36, 72, 144], id="as it should be"),
        pytest.param([9, 0, 20, 18, 0, 20] * 200, [9, 18, 288], id="every choice stalls"),
    ],
)
def test_sixteen_thousand_nodes_take_no_time(counts: list[int], sizes: list[int]) -> None:
    topology = blocks(counts, sizes)
    everyone = nodes(sum(counts))
    begun = time.process_time()
    refused(topology, everyone)
    assert time.process_time() - begun < 0.5  # 0.02 s and 0.1 s alone


def test_which_node_is_left_out_first_goes_by_the_names() -> None:
    counts, sizes = STALLS_BY_ORDER
    assert told(refused(blocks(counts, sizes), nodes(13))) == "10-12"
    assert told(refused(blocks(counts, sizes, nodes(13)[::-1]), nodes(13))) == "11-12"


def expanded(ranges: Ranges) -> set[int]:
    return {size for low, high in ranges for size in range(low, high + 1)}


@st.composite
def some_ranges(draw: st.DrawFn) -> Ranges:
    sizes = sorted(draw(st.sets(st.integers(1, 30))))
    result: list[tuple[int, int]] = []
    for size in sizes:
        if result and result[-1][1] == size - 1:
            result[-1] = (result[-1][0], size)
        else:
            result.append((size, size))
    return tuple(result)


@given(some_ranges(), some_ranges())
def test_lost_is_what_only_the_later_one_refuses(before: Ranges, after: Ranges) -> None:
    assert expanded(lost(before, after)) == expanded(after) - expanded(before)


@given(some_ranges(), st.integers(1, 32))
def test_next_accepted_is_the_smallest_that_runs(ranges: Ranges, size: int) -> None:
    found = next_accepted(ranges, size, 32)
    expected = next((k for k in range(size, 33) if k not in expanded(ranges)), None)
    assert found == expected
    assert accepts(ranges, size) == (size not in expanded(ranges))


@given(st.lists(st.integers(0, 6), min_size=1, max_size=9), st.integers(1, 5), st.sets(st.integers(1, 6), max_size=3))
def test_ranges_are_ascending_and_apart(counts: list[int], base: int, levels: set[int]) -> None:
    found = refused(blocks(counts, [base, *(base << level for level in sorted(levels))]), nodes(sum(counts)))
    for low, high in found:
        assert 1 <= low <= high <= sum(counts)
    for (_, high), (low, _) in pairwise(found):
        assert high + 1 < low
