"""The topology for a terminal: a tree of switches or blocks, and a table of nodes. Lines of styled pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from topology_plugin.core import holding, job_sizes
from topology_plugin.core.hostlists import fold, node_order
from topology_plugin.views.scene import Scene, Unit, View

Style = Literal["", "title", "name", "dim", "ok", "warn", "bad"]


@dataclass(frozen=True)
class Line:
    """Pieces of text with a style each; how a style looks is the terminal's business."""

    pieces: tuple[tuple[str, Style], ...]

    def __str__(self) -> str:
        return "".join(text for text, _ in self.pieces).rstrip()


def line(*pieces: str | tuple[str, Style]) -> Line:
    return Line(tuple((piece, "") if isinstance(piece, str) else piece for piece in pieces))


def tree(scene: Scene) -> list[Line]:
    """`show`: a header, then each topology with its switches or blocks; node names folded, on one line each."""
    lines = list(_header(scene))
    for view in scene.views:
        lines.append(line())
        lines.extend(_view(scene, view))
    return lines


def plain(lines: Iterable[Line]) -> str:
    return "".join(f"{row}\n" for row in lines)


def _header(scene: Scene) -> Iterator[Line]:
    state = scene.state
    parts = [f"Slurm {state.slurm_version}"] if state.slurm_version else []
    parts.append("no generation yet" if state.generation is None else f"generation {state.generation}")
    parts.append(f"shown: {scene.which}")
    yield line((scene.cluster, "title"), "  " + " · ".join(parts))
    if state.owner.owner != "us" or not state.owner.writes:
        yield line(("owner: " + state.owner.owner, "warn"), f" ({state.owner.reason})" if state.owner.reason else "")
    if state.in_force is None:
        yield line(("not known what is in force: slurmctld could not be asked, nothing was ever applied", "warn"))
    elif state.drift and scene.which == "in force":
        yield line(("in force is not what is desired", "warn"), ": see `diff`")
    if state.hold:
        yield line((holding.told(state.hold_note), "warn"))
    if state.last.result == "failed":
        yield line(("the last pass failed", "bad"), f": {state.last.error}")


def _view(scene: Scene, view: View) -> Iterator[Line]:
    counts = [counted(len(view.nodes), "node")]
    if view.unplaced:
        counts.append(f"{len(view.unplaced)} unplaced")
    if scene.live is not None and scene.knows_idle:
        counts.append(f"{scene.live.free(view.nodes)} idle")
    if view.sizes:
        counts.append("block size " + ",".join(map(str, view.sizes)))
    if view.others:
        counts.append(f"{view.others} more nodes of other partitions")
    kind = view.kind if view.kind != view.name else ""
    marks = ", ".join(mark for mark in (kind, "cluster default" if view.default else "") if mark)
    yield line((view.name, "title"), f" ({marks})" if marks else "", "  " + " · ".join(counts))
    for partition in view.partitions:
        if scene.partition in (None, partition):
            yield line("  partition ", (partition, "name"), *_rule(scene, partition))
            if partition in view.refused:
                yield line("    ", (f"refused job sizes: {job_sizes.told(view.refused[partition])}", "warn"))
    if view.uncovered:
        yield line("  ", (f"{len(view.uncovered)} in no switch or block: {fold(view.uncovered)}", "bad"))
    rows = list(_rows(view.units))
    if rows:
        yield from _columns(scene, view, rows)
    elif view.nodes:
        yield line("  ", (fold(view.nodes), ""))


def _rule(scene: Scene, partition: str) -> list[tuple[str, Style]]:
    decision = scene.state.decision.partitions.get(partition)
    return [("  " + decision.rule, "dim")] if decision else []


def _rows(units: Sequence[Unit]) -> Iterator[tuple[str, Unit]]:
    """(branch drawing, unit). Roots and blocks stand at the margin."""
    for unit in units:
        yield "", unit
        yield from _below(unit, "")


def _below(unit: Unit, margin: str) -> Iterator[tuple[str, Unit]]:
    for i, child in enumerate(unit.children):
        last = i == len(unit.children) - 1
        yield margin + ("└─ " if last else "├─ "), child
        yield from _below(child, margin + ("   " if last else "│  "))


def _columns(scene: Scene, view: View, rows: list[tuple[str, Unit]]) -> Iterator[Line]:
    width = max(len(drawing) + len(unit.name) for drawing, unit in rows)
    digits = len(str(max(unit.size for _, unit in rows)))
    base = view.sizes[0] if view.sizes else 0
    for drawing, unit in rows:
        gap = " " * (width - len(drawing) - len(unit.name) + 2)
        style: Style = "dim" if unit.role == "pad" else "warn" if unit.unplaced else "name"
        size = f"{unit.size:>{digits}}"
        pieces: list[tuple[str, Style]] = [(drawing, "dim"), (unit.name, style), (gap, ""), (size, "")]
        if base:
            short = unit.role == "block" and unit.size < base
            pieces.append((f"/{base}", "warn" if short else "dim"))
        free = scene.free(unit)
        if free is not None:
            idle: Style = "ok" if free == unit.size and free else "dim" if not free else ""
            pieces.append((f"  {free:>{digits}} idle", idle))
        if unit.nodes:
            pieces.append(("  " + fold(unit.nodes), ""))
            whys = {view.unplaced[n] for n in unit.nodes if n in view.unplaced}
            if len(whys) == 1:
                pieces.append(("  " + whys.pop(), "dim"))
        elif unit.role == "pad":
            pieces.append(("  empty, keeps a position", "dim"))
        yield Line(tuple(pieces))


HEADINGS = ("NODE", "STATE", "PARTITIONS", "PLACE", "TYPE", "INSTANCE", "SOURCE")


def table(scene: Scene) -> list[Line]:
    """A row a node. PLACE: `<topology>:<switches from the top>` or `<topology>:<block>`, `-` if only in flat ones."""
    rows = [HEADINGS, *_rows_of_nodes(scene)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEADINGS))]
    made = []
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        style: Style = "title" if number == 0 else ""
        made.append(line(("  ".join(cells).rstrip(), style)))
    return made


def places(scene: Scene) -> dict[str, list[str]]:
    """Node → where it stands in each topology that has structure, as PLACE says it."""
    found: dict[str, list[str]] = {}
    for view in scene.views:
        for unit in view.units:
            for node, way in ways(unit):
                found.setdefault(node, []).append(f"{view.name}:{'/'.join(way)}")
    return found


def ways(unit: Unit, above: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(node, names of the units that hold it, from the top) for every node of a unit."""
    way = (*above, unit.name)
    for node in unit.nodes:
        yield node, way
    for child in unit.children:
        yield from ways(child, way)


def _rows_of_nodes(scene: Scene) -> Iterator[tuple[str, ...]]:
    inventory = scene.state.inventory
    known = places(scene)
    shown = {view.name for view in scene.views}
    sources: dict[str, list[str]] = {}
    for name, placement in scene.state.decision.placements.items():
        if name in shown:
            for node, source in placement.source.items():
                sources.setdefault(node, []).append(source)
    partitions: dict[str, list[str]] = {}
    for partition in inventory.partitions.values():
        for node in partition.nodes:
            partitions.setdefault(node, []).append(partition.name)
    for node in sorted({n for view in scene.views for n in (*view.nodes, *view.uncovered)}, key=node_order):
        behind = inventory.nodes.get(node)
        yield (
            node,
            scene.live.states.get(node, "unknown") if scene.live else "-",
            ",".join(partitions.get(node, ())) or "-",
            ",".join(known.get(node, ())) or "-",
            (behind.instance_type if behind else None) or "-",
            (behind.instance_id if behind else None) or "-",
            ",".join(dict.fromkeys(sources.get(node, ()))) or "-",
        )


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")
