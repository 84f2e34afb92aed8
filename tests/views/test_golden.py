"""Every form of a captured cluster of 108 nodes, byte by byte (tests/captured/capture.py made it, with a slurmctld).

When a change is meant: `UPDATE_GOLDEN=1 pytest tests/views/test_golden.py`, and read the diff before you commit it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.views.captured import captured, change
from topology_plugin.core.diff import compare
from topology_plugin.views import document, mermaid, metrics, page, svg, text, words
from topology_plugin.views.scene import Scene, arrange

GOLDEN = Path(__file__).parent / "golden"


def scene(**more: str) -> Scene:
    return arrange(*captured(), **more)  # type: ignore[arg-type]


def told() -> str:
    state, live = change()
    return text.plain(words.told(compare(state, live.jobs), state))


def told_as_data() -> str:
    state, live = change()
    return json.dumps(words.document(compare(state, live.jobs), state), indent=1, ensure_ascii=False) + "\n"


def page_data() -> str:
    """The page without its style and script, which have tests of their own."""
    made = page.page(scene(), generations=[page.GenerationNote(1, 1.8e9, "merge", ("the first one",))], origin="x")
    data = made.split('type="application/json">')[1].split("</script>")[0]
    return (
        json.dumps(json.loads(data), indent=None, ensure_ascii=False, separators=(",", ":")).replace("},", "},\n")
        + "\n"
    )


FORMS: dict[str, Callable[[], str]] = {
    "show.txt": lambda: text.plain(text.tree(scene())),
    "show-gb200.txt": lambda: text.plain(text.tree(scene(partition="gb200"))),
    "table.txt": lambda: text.plain(text.table(scene())),
    "show.json": lambda: json.dumps(document.document(scene()), indent=1, ensure_ascii=False) + "\n",
    "show.mmd": lambda: mermaid.chart(scene()),
    "show.svg": lambda: svg.picture(scene()),
    "page-data.json": page_data,
    "metrics.prom": lambda: metrics.text(captured()[0]),
    "diff.txt": told,
    "diff.json": told_as_data,
}


@pytest.mark.parametrize("name", FORMS)
def test_the_form_is_as_it_was(name: str) -> None:
    made = FORMS[name]()
    path = GOLDEN / name
    if os.environ.get("UPDATE_GOLDEN"):
        path.write_text(made)
    assert made == path.read_text()


def test_the_captured_cluster_is_the_one_that_these_files_are_about() -> None:
    state, live = captured()
    compute = [n for n in state.inventory.nodes.values() if n.group != "login-group"]
    assert len(compute) == 108 and len(live.states) == len(state.inventory.nodes)
    assert len(live.running) == 4 and len(live.pending) == 1
    assert state.refused["block"] == ((36, 36),) and len(state.decision.placements["tree"].unplaced) == 1
    assert not state.drift
