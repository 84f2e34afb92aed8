"""Blocks: the base size, nodes in no UltraServer, the order of blocks."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.clusters import GB, blocks_of, decide, inventory_of, names, words
from topology_plugin.core.blocks import base_size
from topology_plugin.core.merge import merge
from topology_plugin.core.position import Position
from topology_plugin.core.settings import Settings
from topology_plugin.jobs.simulated_cluster import (
    cluster,
    in_ultraservers,
)


def test_br_12_the_base_size_depends_neither_on_the_first_block_nor_on_the_smallest() -> None:
    for sizes in ([18, 16, 9, 8], [8, 9, 16, 18]):
        decision = decide(cluster(GB).with_machines(in_ultraservers("worker-gb", sizes)))
        assert blocks_of(decision).sizes == (18,)
        assert sorted(len(b.nodes) for b in blocks_of(decision).blocks if b.name.startswith("us-srv")) == [8, 9, 16, 18]


def test_br_12_on_24_11_block_only_if_every_node_is_in_a_full_block() -> None:
    full, short, no_path = (
        cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", sizes, with_layers=layers))
        for sizes, layers in (([18, 18], True), ([18, 9], True), ([18, 9], False))
    )
    kinds = []
    for simulated in (full, short, no_path):
        inventory, memory = inventory_of(simulated)
        decision = merge(inventory, Settings(), memory, classic=True)
        kinds.append(names(decision))
        assert set(words(decision).values()) == {None}
    assert kinds == [["block"], ["tree"], ["flat"]]


@pytest.mark.parametrize(
    ("types", "seen", "spares", "expected"),
    [
        pytest.param(["u-p6e-gb200x72"], 3, 0, 18, id="x72"),
        pytest.param(["u-p6e-gb200x36"], 9, 0, 9, id="x36"),
        pytest.param(["u-p6e-gb200x36", "u-p6e-gb200x72"], 9, 0, 18, id="both"),
        pytest.param([None], 9, 0, 9, id="unknown-and-never-more-than-9"),
        pytest.param([None], 10, 0, 18, id="unknown-and-once-10"),
        pytest.param([None], 18, 1, 17, id="a-spare"),
    ],
)
def test_the_base_size(types: list[str | None], seen: int, spares: int, expected: int) -> None:
    assert base_size(types, seen, spares) == expected


def test_the_base_size_does_not_follow_what_is_broken_today() -> None:
    whole = cluster(GB).with_machines(in_ultraservers("worker-gb", [18, 18]))
    before = decide(whole)
    broken = whole.without({m.name for m in whole.members("worker-gb") if 8 < m.number <= 18 or m.number > 26})
    assert blocks_of(decide(broken, memory=before.memory)).sizes == (18,)


def test_br_08_nodes_whose_ultraserver_is_not_known_yet_share_no_block() -> None:
    machines = in_ultraservers("worker-gb", [6])
    late = cluster(GB, logins=0).with_machines(
        [*machines[:3], *(replace(m, label=Position(m.label.path if m.label else ())) for m in machines[3:])]
    )
    blocks = blocks_of(decide(late)).blocks
    assert [len(b.nodes) for b in blocks] == [3, 1, 1, 1]
    assert [b.name for b in blocks][1:] == [f"unplaced-{m.name}" for m in machines[3:]]
    filled = decide(cluster(GB, logins=0).with_machines(machines))
    assert [len(b.nodes) for b in blocks_of(filled).blocks] == [6]


def test_with_several_sizes_the_order_is_a_fact_new_blocks_append_and_padding_fills_the_largest_level() -> None:
    setting = {"block_sizes": [18, 36]}
    servers = in_ultraservers("worker-gb", [18, 18, 18])
    without_first = cluster(GB, logins=0).with_machines(servers[18:])
    before = decide(without_first, setting)
    assert [b.name for b in blocks_of(before).blocks] == ["us-srv0001", "us-srv0002"]
    after = decide(cluster(GB, logins=0).with_machines(servers), setting, memory=before.memory)
    assert [b.name for b in blocks_of(after).blocks] == ["us-srv0001", "us-srv0002", "us-srv0000", "pad-1"]
