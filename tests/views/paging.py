"""Pages for a browser: a cluster with something of everything, written as an operator gets it."""

from __future__ import annotations

from pathlib import Path

from tests.states import inventory, state, without
from topology_plugin.core.live import Live
from topology_plugin.core.state import State
from topology_plugin.views.page import GenerationNote, page
from topology_plugin.views.scene import arrange

NOTES = (
    GenerationNote(7, 1_799_900_000.0, "merge", ("block us-0001 shrinks from 18 to 17 nodes",)),
    GenerationNote(6, 1_799_800_000.0, "rollback", ("partition train: flat → tree",)),
)


def small() -> State:
    seen = without(inventory(gb200s=54, unlabelled=(3,)), "ip-10-9-0-3", "ip-10-9-1-3")
    return state(seen)


def written(directory: Path, of: State, seen: Live | None, name: str = "page.html", **more: object) -> Path:
    path = directory / name
    path.write_text(page(arrange(of, seen), **more), encoding="utf-8")  # type: ignore[arg-type]
    return path


def cell(name: str) -> str:
    return f'#stage i.n[aria-label^="{name},"]'
