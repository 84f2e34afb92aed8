"""`-o json`: every key is documented, and none has gone."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.states import live, state
from tests.views.test_golden import change
from topology_plugin.core.checkup import Check, ok
from topology_plugin.core.diff import compare
from topology_plugin.core.explanation import explain_node, explain_partition
from topology_plugin.core.job_explanation import explain_job
from topology_plugin.core.settings import Settings
from topology_plugin.views import doctored, document, explained, words
from topology_plugin.views.scene import arrange

FORMATS = (Path(__file__).parents[2] / "docs" / "formats.md").read_text(encoding="utf-8")
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
    "doctor": lambda: doctored.document([Check("a", "b", ok("c"))], Settings(), "0.1"),
}


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_key_is_documented_and_the_whole_is_json(name: str) -> None:
    made = json.loads(json.dumps(DOCUMENTS[name]()))
    section = FORMATS.split("## `-o json` of the reading commands")[1]
    documented = set(re.findall(r"`([a-z_]+)`", section))
    assert set(made) <= documented, f"not in docs/formats.md: {sorted(set(made) - documented)}"
    for value in made.values():
        if isinstance(value, list) and value and isinstance(value[0], dict):
            assert set(value[0]) - {"source", "position", "silent", "fits"} <= documented | _inner(name)


def _inner(name: str) -> set[str]:
    """Keys of what is documented only by its name: seats, groups, lies."""
    return (
        {"in_force", "desired", "space", "won", "instance_type", "role", "ability", "evidence", "kind", "least"}
        if "explain" in name
        else set()
    )


def test_the_units_of_show_hold_every_node_of_the_topology_once() -> None:
    made = document.document(arrange(STATE, LIVE))

    def nodes(units: list[dict[str, Any]]) -> list[str]:
        return [n for unit in units for n in (*unit["nodes"], *nodes(unit["units"]))]

    tree = next(t for t in made["topologies"] if t["name"] == "tree")
    assert sorted(nodes(tree["units"])) == sorted(made["partitions"]["train"]["nodes"])
    root = tree["units"][0]
    assert root["size"] == 64 and root["idle"] == LIVE.free(made["partitions"]["train"]["nodes"])
    assert made["nodes"]["ip-10-1-0-1"]["jobs"] == [101]
