"""`show` on a terminal: everything an operator needs on one screen, names ready to be copied."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.states import inventory, live, state, without
from topology_plugin.core.issues import InputError
from topology_plugin.core.state import Owner, PassResult
from topology_plugin.core.topology import FLAT_ONLY, Block, Blocks, Configuration, Switch, Topology, Tree
from topology_plugin.views.scene import arrange
from topology_plugin.views.text import plain, table, tree


def text_of(*arguments: object, **more: object) -> str:
    return plain(tree(arrange(*arguments, **more)))  # type: ignore[arg-type]


def test_every_partition_and_every_leaf_is_there_with_folded_names() -> None:
    text = text_of(state())
    for words in ("partition train", "partition ultra", "partition dev", "partition cpu", "ip-10-1-0-[1-8]", "us-0002"):
        assert words in text
    assert sum("ip-10-1-0-" in row and "[" in row for row in text.splitlines()) == 9  # 8 leaves, and all in flat


def test_a_long_list_of_names_stays_on_one_line() -> None:
    text = text_of(state(inventory(500, 0, 0, per_leaf=250)))
    assert max(map(len, text.splitlines())) < 300
    odd = state(inventory(500, 0, 0, per_leaf=500, unlabelled=tuple(range(0, 500, 2))))
    rows = [row for row in text_of(odd).splitlines() if "ip-10-1-0-[2," in row or "ip-10-1-0-[2,4" in row]
    assert len(rows) == 1 and len(rows[0]) > 800


def test_a_partition_is_shown_alone_with_only_its_nodes() -> None:
    text = text_of(state(), partition="ultra")
    assert "us-0001" in text and "partition train" not in text and "ip-10-1-0" not in text


def test_nodes_of_other_partitions_in_the_same_topology_are_counted_not_listed() -> None:
    seen = inventory()
    small = replace(seen.partitions["train"], name="small", nodes=seen.partitions["train"].nodes[:8])
    group = replace(seen.groups["worker-a"], partitions=("train", "small"))
    both = replace(seen, partitions={**seen.partitions, "small": small}, groups={**seen.groups, "worker-a": group})
    text = text_of(state(both), partition="small")
    assert "ip-10-1-0-[1-8]" in text and "[9-16]" not in text and "56 more nodes of other partitions" in text


def test_an_unknown_partition_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(InputError, match="known are dev, train, ultra, cpu"):
        arrange(state(), partition="trian")


def test_an_unplaced_node_stands_apart_with_the_reason() -> None:
    text = text_of(state(inventory(unlabelled=(3,))))
    (row,) = [row for row in text.splitlines() if "unplaced-ip-10-1-0-4" in row]
    assert "no source knows its position" in row and "1 unplaced" in text


def test_idle_counts_stand_on_every_unit_when_states_are_known() -> None:
    made = state()
    text = text_of(made, live(made))
    (first,) = [row for row in text.splitlines() if row.endswith("ip-10-1-0-[17-24]")]
    assert "5 idle" in first
    assert "idle" not in text_of(made)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"owner": Owner("agent", "EnableTopology is true", False)}, "owner: agent (EnableTopology is true)"),
        ({"in_force": FLAT_ONLY}, "in force is not what is desired: see `diff`"),
        ({"in_force": None}, "not known what is in force"),
        ({"hold": True, "hold_note": "since noon by `rollback`"}, "on hold since noon by `rollback`: passes only add"),
        ({"last": PassResult("failed", "slurmctld said no")}, "the last pass failed: slurmctld said no"),
    ],
    ids=lambda value: next(iter(value)) if isinstance(value, dict) else "",
)
def test_whatever_an_operator_must_know_stands_in_words(changed: dict[str, object], words: str) -> None:
    assert words in text_of(replace(state(), **changed))  # type: ignore[arg-type]


def test_sizes_that_a_partition_cannot_run_are_listed_at_the_partition() -> None:
    seen = without(inventory(0, 54, 0), "ip-10-9-0-1", "ip-10-9-1-1")
    rows = text_of(state(seen)).splitlines()
    (at,) = [i for i, row in enumerate(rows) if "partition ultra" in row]
    assert rows[at + 1].strip() == "refused job sizes: 36"


def test_nodes_that_no_switch_holds_are_named() -> None:
    made = state()
    holes = Configuration((Topology("flat", Tree((Switch("s", ("ip-10-1-0-1",)),)), True),), {"train": None})
    text = text_of(replace(made, in_force=holes), partition="train")
    assert "63 in no switch or block: ip-10-1-0-[2-64]" in text


def test_pads_and_short_blocks_can_be_told_from_full_ones() -> None:
    made = state()
    blocks = Blocks((18, 36), (Block("a", made.inventory.partitions["ultra"].nodes[:18]), Block("pad-1")))
    text = text_of(replace(made, in_force=Configuration((Topology("block", blocks, True),), {})))
    assert "empty, keeps a position" in text and "18/18" in text and "block size 18,36" in text


def test_a_foreign_tree_with_a_loop_still_ends() -> None:
    loop = Tree(
        (
            Switch("a", children=("b",)),
            Switch("b", children=("a", "c")),
            Switch("c", ("n1",)),
            Switch("r", children=("a",)),
        )
    )
    text = text_of(replace(state(), in_force=Configuration((Topology("t", loop, True),), {})))
    assert "n1" in text


def test_the_table_has_a_row_a_node_and_says_where_it_stands() -> None:
    made = state(inventory(unlabelled=(3,)))
    rows = str(plain(table(arrange(made, live(made))))).splitlines()
    assert len(rows) == 1 + 109
    assert rows[0].split() == ["NODE", "STATE", "PARTITIONS", "PLACE", "TYPE", "INSTANCE", "SOURCE"]
    cells = {row.split()[0]: row.split() for row in rows[1:]}
    assert cells["ip-10-9-0-3"][1:4] == ["allocated", "dev,ultra", "block:us-0001"]
    assert cells["ip-10-8-1-1"][2:4] == ["dev", "-"]
    assert cells["ip-10-1-0-1"][6] == "resource-config"
    assert cells["ip-10-1-0-4"][3].endswith("unplaced/unplaced-ip-10-1-0-4") and cells["ip-10-1-0-4"][6] == "-"
    assert cells["ip-10-1-0-32"][1] == "down"
