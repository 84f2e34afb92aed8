"""The table of generations."""

from __future__ import annotations

from topology_plugin.core.generation import Generation
from topology_plugin.core.history import entries
from topology_plugin.views.history import table
from topology_plugin.views.text import plain

TREE = b"- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n    - switch: s1\n      nodes: n[1-4]\n"
META = {"time": 1_700_000_000.0, "by": "merge", "slurm_version": "26.05.5"}


def test_newest_first_with_what_was_in_force() -> None:
    kept = [
        Generation(1, TREE, words={"train": "tree", "dev": None}, meta=META, finished=True),
        Generation(2, None, b"SwitchName=s Nodes=n[1-3]\n", meta={**META, "by": "rollback", "of": 1}, finished=True),
        Generation(3, b"[]\n", words={}, meta={"time": "odd"}),
    ]
    found = list(entries(kept, kept[1]))
    assert [(e.number, e.status, e.by, e.topologies) for e in found] == [
        (3, "begun", "merge", {}),
        (2, "current", "rollback to 1", {"tree": 3}),
        (1, "finished", "merge", {"tree": 4}),
    ]
    assert found[2].to_json() == {
        "number": 1,
        "status": "finished",
        "time": 1_700_000_000.0,
        "by": "merge",
        "slurm_version": "26.05.5",
        "topologies": {"tree": 4},
        "words": {"train": "tree"},
        "block_sizes": {},
    }
    assert plain(table(found)).splitlines() == [
        "GENERATION  STATUS    TIME (UTC)           BY             TOPOLOGIES AND WORDS",
        "3           begun     -                    merge          -",
        "2           current   2023-11-14 22:13:20  rollback to 1  tree (3 nodes)",
        "1           finished  2023-11-14 22:13:20  merge          tree (4 nodes); train=tree",
    ]


def test_sizes_of_blocks_stand_there_as_a_change_may_be_of_them_alone() -> None:
    text = "- topology: block\n  cluster_default: true\n  block:\n    block_sizes: [{}]\n    blocks:\n"
    text += "    - block: b1\n      nodes: n[1-4]\n"
    kept = [Generation(n, text.format(sizes).encode(), meta=META, finished=True) for n, sizes in ((1, "4"), (2, "2,4"))]
    found = list(entries(kept, kept[1]))
    assert [e.to_json()["block_sizes"] for e in found] == [{"block": [2, 4]}, {"block": [4]}]
    rows = plain(table(found)).splitlines()[1:]
    assert [row.rpartition("  ")[2] for row in rows] == [
        "block (4 nodes, block size 2,4)",
        "block (4 nodes, block size 4)",
    ]


def test_none_is_said() -> None:
    assert plain(table([])) == "no generation is kept yet: `merge` makes the first\n"
