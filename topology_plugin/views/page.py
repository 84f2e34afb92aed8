"""The topology as one self-contained HTML page: data, style and script inside, nothing loaded, nothing sent.

Made for 16 nodes and for 16,000: the data is columns of small numbers, and the script draws only what is near the
screen (views/assets/*.js).
"""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, TypeVar

from topology_plugin.core import holding
from topology_plugin.core.hostlists import node_order
from topology_plugin.core.live import STATES, Job
from topology_plugin.core.position import Position
from topology_plugin.views.scene import Scene, Unit, View

T = TypeVar("T")

_NOTHING: Mapping[str, Any] = {}
SCRIPTS = ("data.js", "stage.js", "panel.js", "main.js")


@dataclass(frozen=True)
class GenerationNote:
    """A generation for the page: `time` seconds since the epoch or None, `by` who made it, `lines` what changed."""

    number: int
    time: float | None = None
    by: str = ""
    lines: tuple[str, ...] = ()


def page(
    scene: Scene, *, generations: Sequence[GenerationNote] = (), pending: Sequence[str] = (), origin: str = ""
) -> str:
    """The page's text. `pending`: the change that a pass would make, in lines; `origin`: where the State comes from."""
    assets = files("topology_plugin.views") / "assets"
    script = "\n".join((assets / name).read_text(encoding="utf-8") for name in SCRIPTS)
    content = _Content(scene)
    made = content.document(generations, pending, origin)
    # "<" is the one character that could end the script element or begin a comment in it.
    data = json.dumps(made, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    text = (assets / "page.html").read_text(encoding="utf-8")
    text = text.replace("@TITLE@", html.escape(f"{scene.cluster} topology"))
    text = text.replace("@CSS@", (assets / "page.css").read_text(encoding="utf-8").strip())
    text = text.replace("@JS@", '(() => {\n"use strict";\n' + script + "\n})();")
    return text.replace("@DATA@", data)


class _Content:
    """Names and sentences become numbers in tables, lists of nodes become runs [start, length, …]."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        inventory = scene.state.inventory
        held = {n for view in scene.views for n in (*view.nodes, *view.uncovered)}
        shown = held if scene.partition is not None else held | set(inventory.nodes)
        self.names = sorted(shown, key=node_order)
        self.index = {name: i for i, name in enumerate(self.names)}
        self.strings: dict[str, int] = {}
        self.answers: dict[tuple[Any, ...], int] = {}
        self.silent: dict[tuple[Any, ...], int] = {}

    def document(self, generations: Iterable[GenerationNote], pending: Sequence[str], origin: str) -> dict[str, Any]:
        scene, live = self.scene, self.scene.live
        partitions = self._partitions()
        made = {
            "meta": self._meta(origin),
            "live": live is not None and bool(live.states),
            "states": list(STATES),
            "nodes": self._nodes(),
            "topologies": [self._topology(view) for view in scene.views],
            "partitions": partitions,
            "first": self._first(partitions),
            "sources": self._sources(),
            "jobs": [self._job(job) for job in live.jobs] if live is not None and live.jobs_known else None,
            "generations": [
                {"number": g.number, "time": g.time, "by": g.by, "lines": list(g.lines)} for g in generations
            ],
            "pending": list(pending),
            "notes": list(scene.state.notes),
            "answers": [list(answer) for answer in self.answers],
            "silent": [list(why) for why in self.silent],
        }
        return {**made, "strings": list(self.strings)}

    def string(self, text: str | None) -> int:
        return -1 if text is None else self.strings.setdefault(text, len(self.strings))

    def column(self, texts: Iterable[str | None]) -> list[int]:
        """The number of each; few of them differ."""
        texts = list(texts)
        numbers = {text: self.string(text) for text in dict.fromkeys(texts)}
        return [numbers[text] for text in texts]

    def runs(self, nodes: Iterable[str], keep_order: bool = False) -> list[int]:
        numbers = [self.index[node] for node in nodes if node in self.index]
        if not keep_order:
            numbers.sort()
        found: list[int] = []
        for number in numbers:
            if found and number == found[-2] + found[-1]:
                found[-1] += 1
            else:
                found += [number, 1]
        return found

    def _meta(self, origin: str) -> dict[str, Any]:
        state = self.scene.state
        owner = state.owner
        foot = [f"hyperpod-topology {state.version}".strip()]
        if origin:
            foot.append(f"from {origin}")
        return {
            "cluster": self.scene.cluster,
            "generation": state.generation,
            "slurm": state.slurm_version,
            "shown": self.scene.which,
            "known": state.in_force is not None,
            "drift": state.drift,
            "hold": holding.told(state.hold_note) if state.hold else "",
            "failed": state.last.error if state.last.result == "failed" else "",
            "kubernetes": not state.of_slurm,
            "owner": None if owner.writes or not state.of_slurm else [f"owner: {owner.owner}", owner.reason],
            "foot": " · ".join(foot),
        }

    def _nodes(self) -> dict[str, Any]:
        inventory, live = self.scene.state.inventory, self.scene.live
        numbers = {state: i for i, state in enumerate(STATES)}
        unknown = numbers["unknown"]
        known = [inventory.nodes.get(name) for name in self.names]
        states = live.states if live else {}
        reasons = live.reasons if live else {}
        return {
            "name": self.names,
            "instance": [node.instance_id if node else None for node in known],
            "type": self.column(node.instance_type if node else None for node in known),
            "group": self.column(node.group if node else None for node in known),
            "zone": self.column(node.zone if node else None for node in known),
            "state": [numbers.get(states.get(name, ""), unknown) for name in self.names],
            "reason": {self.index[n]: self.string(why) for n, why in reasons.items() if n in self.index},
            "answers": self._rows(self.answers, [node.answers if node else _NOTHING for node in known], self._answer),
            "silent": self._rows(self.silent, [node.silent if node else _NOTHING for node in known], self._silence),
        }

    def _rows(
        self, table: dict[tuple[Any, ...], int], said: list[Mapping[str, T]], row: Callable[[str, T], tuple[Any, ...]]
    ) -> list[int]:
        """For each node the place in `table` of what sources say of it; -1: nothing. Neighbours share it."""
        places: dict[int, int] = {}
        for one in {id(one): one for one in said}.values():
            key = tuple(row(source, what) for source, what in one.items())
            places[id(one)] = table.setdefault(key, len(table)) if key else -1
        return [places[id(one)] for one in said]

    def _answer(self, source: str, position: Position) -> tuple[Any, ...]:
        path, ultraserver = tuple(map(self.string, position.path)), self.string(position.ultraserver)
        return self.string(source), path, ultraserver

    def _silence(self, source: str, why: str) -> tuple[Any, ...]:
        text = self.string(why)
        return self.string(source), text

    def _topology(self, view: View) -> dict[str, Any]:
        return {
            "name": view.name,
            "kind": view.kind,
            "default": view.default,
            "partitions": list(view.partitions),
            "sizes": list(view.sizes),
            "units": [self._unit(unit) for unit in view.units],
            "unplaced": [[self.index[n], self.string(why)] for n, why in view.unplaced.items() if n in self.index],
            "uncovered": self.runs(view.uncovered),
        }

    def _unit(self, unit: Unit) -> list[Any]:
        below = [self._unit(child) for child in unit.children]
        return [unit.name, unit.role, self.runs(unit.nodes), below, int(unit.unplaced)]

    def _partitions(self) -> list[dict[str, Any]]:
        scene = self.scene
        at = {partition: (i, view) for i, view in enumerate(scene.views) for partition in view.partitions}
        made = []
        for name, partition in scene.state.inventory.partitions.items():
            if name not in at or scene.partition not in (None, name):
                continue
            number, view = at[name]
            decision = scene.state.decision.partitions.get(name)
            made.append(
                {
                    "name": name,
                    "topology": number,
                    "word": scene.configuration.words.get(name),
                    "rule": decision.rule if decision else "",
                    "refused": [list(pair) for pair in view.refused.get(name, ())],
                    "nodes": self.runs(partition.nodes),
                }
            )
        return made

    def _first(self, partitions: list[dict[str, Any]]) -> int:
        """The partition to open with: the largest that has structure, else the largest."""
        if not partitions:
            return -1

        def weight(number: int) -> tuple[bool, int, int]:
            found = partitions[number]
            kind = self.scene.views[found["topology"]].kind
            return kind != "flat", sum(found["nodes"][1::2]), -number

        return max(range(len(partitions)), key=weight)

    def _sources(self) -> dict[str, dict[int, int]]:
        shown = {view.name for view in self.scene.views}
        return {
            name: {self.index[n]: self.string(source) for n, source in placement.source.items() if n in self.index}
            for name, placement in self.scene.state.decision.placements.items()
            if name in shown
        }

    def _job(self, job: Job) -> list[Any]:
        asks = [f"--switches={job.switches}"] if job.switches else []
        if job.segment:
            asks.append(f"--segment={job.segment}")
        where = self.runs(job.nodes, keep_order=True)
        row = [job.label, job.name, job.user, job.state, job.partition, where, job.nodes_wanted, job.reason]
        return [*row, " ".join(asks)]
