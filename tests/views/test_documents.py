"""`-o json`: every key is documented, and none has gone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.states import live, state
from tests.views.captured import change
from topology_plugin.core.checkup import Check, ok
from topology_plugin.core.diff import compare
from topology_plugin.core.explanation import explain_node, explain_partition
from topology_plugin.core.history import Entry
from topology_plugin.core.job_explanation import explain_job
from topology_plugin.core.settings import Settings
from topology_plugin.jobs import distance
from topology_plugin.jobs.advice import advise
from topology_plugin.views import doctored, document, explained, words
from topology_plugin.views.scene import arrange

DOCS = Path(__file__).parents[2] / "docs"
STATE = state()
LIVE = live(STATE)


def diff() -> dict[str, Any]:
    of, seen = change()
    return words.document(compare(of, seen.jobs), of)


DOCUMENTS = {
    "show": lambda: document.document(arrange(STATE, LIVE)),
    "diff": diff,
    "explain node": lambda: explained.node_document(explain_node(STATE, "ip-10-1-0-1"), LIVE),
    "explain partition": lambda: explained.partition_document(explain_partition(STATE, "train")),
    "explain job": lambda: explained.job_document(explain_job(STATE, LIVE, LIVE.jobs[0])),
    "advise": lambda: advise(
        "train", 8, distance.of_state(STATE, "train"), STATE.desired.of_partition("train"), LIVE, 300
    ).to_json(),
    "history": lambda: {"generations": [Entry(1, "current", 1.0, "merge", "26.05.5", {}, {"p": "t"}).to_json()]},
    "doctor": lambda: doctored.document([Check("a", "b", ok("c"))], Settings(), "0.1"),
}


# What is keyed by names of the cluster; and `job` and `node`, which hold whatever Slurm and the inventory say.
BY_NAME = {"answers", "block_sizes", "nodes", "partitions", "places", "settings", "silent", "unplaced", "words"}
ELSEWHERE = {"job", "node"}


def keys(made: Any, below: str = "") -> Iterator[str]:
    if isinstance(made, list):
        for value in made:
            yield from keys(value, below)
    elif isinstance(made, dict) and below not in ELSEWHERE:
        for key, value in made.items():
            if below not in BY_NAME:
                yield key
            yield from keys(value, "" if below in BY_NAME else key)


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_key_is_documented_and_the_whole_is_json(name: str) -> None:
    made = json.loads(json.dumps(DOCUMENTS[name]()))
    text = (DOCS / "placement.md" if name == "advise" else DOCS / "formats.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"[`\"]([a-z_]+)[`\"]", text.split("## `-o json` of the reading commands")[-1]))
    documented |= {"path", "ultraserver"} if "`answers`" in text else set()  # a position, as in records
    assert set(keys(made)) - documented == set()


def test_the_units_of_show_hold_every_node_of_the_topology_once() -> None:
    made = document.document(arrange(STATE, LIVE))

    def nodes(units: list[dict[str, Any]]) -> list[str]:
        return [n for unit in units for n in (*unit["nodes"], *nodes(unit["units"]))]

    tree = next(t for t in made["topologies"] if t["name"] == "tree")
    assert sorted(nodes(tree["units"])) == sorted(made["partitions"]["train"]["nodes"])
    root = tree["units"][0]
    assert root["size"] == 64 and root["idle"] == LIVE.free(made["partitions"]["train"]["nodes"])
    assert made["nodes"]["ip-10-1-0-1"]["jobs"] == [101]
