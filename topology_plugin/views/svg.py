"""A picture of the topology as SVG, for documents: frames for switches, leaves and blocks, a cell a node.

Coloured by state where that is known; titles carry names, so that a browser shows them on hover. Sizes in pixels.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from topology_plugin.core import job_sizes
from topology_plugin.views.scene import Scene, Unit, View

WIDTH = 1200
_CELL, _GAP, _PAD, _HEAD = 12, 3, 8, 18
_FILLS = {
    "idle": ("#d6efe2", "#69b893"), "ready": ("#d6efe2", "#69b893"), "allocated": ("#3a6fd8", "#3a6fd8"),
    "mixed": ("#93b4f0", "#3a6fd8"), "draining": ("#f3cf86", "#3a6fd8"), "drained": ("#f3cf86", "#e2a313"),
    "down": ("#d0382f", "#d0382f"), "reserved": ("#8a6ad0", "#8a6ad0"), "unknown": ("#c9ced6", "#b3bac4"),
}  # fmt: skip


@dataclass(frozen=True)
class _Drawn:
    """A piece with its size; `parts` are relative to its corner."""

    width: int
    height: int
    parts: tuple[str, ...]

    def at(self, x: int, y: int) -> str:
        return f'<g transform="translate({x} {y})">{"".join(self.parts)}</g>'


def picture(scene: Scene) -> str:
    """The SVG document. Its height follows from the cluster; its width is fixed."""
    y = 14
    parts: list[str] = []
    for view in scene.views:
        words = _caption(scene, view)
        parts.append(_text(14, y + 14, words, 14, "650"))
        y += 24
        if view.refused:
            sizes = "; ".join(f"{name} cannot run {job_sizes.told(pairs)}" for name, pairs in view.refused.items())
            parts.append(_text(14, y + 10, sizes, 11, fill="#b3261e"))
            y += 18
        for drawn in _body(scene, view):
            parts.append(drawn.at(14, y))
            y += drawn.height + 10
        y += 12
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{y}" viewBox="0 0 {WIDTH} {y}" '
        'font-family="system-ui, sans-serif" role="img">'
        f"<title>{escape(scene.cluster)} topology ({scene.which})</title>"
        f'<rect width="{WIDTH}" height="{y}" fill="#f4f5f7"/>' + "".join(parts) + "</svg>\n"
    )


def _caption(scene: Scene, view: View) -> str:
    serves = ", ".join(view.partitions) or "no partition"
    marks: list[str] = [] if view.kind == view.name else [view.kind]
    marks += ["cluster default"] if view.default else []
    marks += [f"block size {','.join(map(str, view.sizes))}"] if view.sizes else []
    free = f", {scene.live.free(view.nodes)} idle" if scene.live is not None and scene.knows_idle else ""
    extra = f" ({', '.join(marks)})" if marks else ""
    return f"{serves}: {view.name}{extra}, {len(view.nodes)} nodes{free}"


def _body(scene: Scene, view: View) -> Iterator[_Drawn]:
    inside = WIDTH - 28
    if not view.units:
        if view.nodes:
            yield _cells(scene, view.nodes, (inside + _GAP) // (_CELL + _GAP))
        return
    leaves = [unit for top in view.units for _, unit in top.walk() if not unit.children and not unit.unplaced]
    largest = max((len(unit.nodes) for unit in leaves), default=1)
    columns = max(1, largest if largest <= 9 else -(-largest // 2) if largest <= 36 else 16)
    switches = [unit for unit in view.units if unit.children]
    if switches:
        for unit in switches:
            yield _switch(scene, unit, columns, inside)
    else:
        yield _flow([_leaf(scene, unit, columns) for unit in view.units], inside)


def _switch(scene: Scene, unit: Unit, columns: int, width: int) -> _Drawn:
    inside = width - 2 * _PAD
    below = [child for child in unit.children if not child.children]
    rows = [_flow([_leaf(scene, child, columns) for child in below], inside)] if below else []
    rows += [_switch(scene, child, columns, inside) for child in unit.children if child.children]
    parts: list[str] = []
    y = _PAD + _HEAD
    for row in rows:
        parts.append(row.at(_PAD, y))
        y += row.height + _PAD
    dash = ' stroke-dasharray="4 3"' if unit.unplaced else ""
    frame = f'<rect width="{width}" height="{y}" rx="8" fill="#fff" stroke="#cfd4dc"{dash}/>'
    free = scene.free(unit)
    count = f"{unit.size} nodes" if free is None else f"{free} idle of {unit.size}"
    head = _text(_PAD + 2, _PAD + 11, unit.name, 12, "600", mono=True)
    end = _text(width - _PAD - 2, _PAD + 11, count, 11, fill="#566170", anchor="end")
    return _Drawn(width, y, (frame, head, end, *parts))


def _leaf(scene: Scene, unit: Unit, columns: int) -> _Drawn:
    cells = _cells(scene, unit.nodes, columns)
    width = columns * (_CELL + _GAP) - _GAP + 2 * _PAD
    height = cells.height + _HEAD + 2 * _PAD - 4
    dash = ' stroke-dasharray="4 3"' if unit.unplaced or unit.role == "pad" else ""
    frame = f'<rect width="{width}" height="{height}" rx="6" fill="#f4f5f7" stroke="#e2e5ea"{dash}/>'
    most = max(4, (width - 2 * _PAD - 34) // 6)
    name = unit.name if len(unit.name) <= most else f"…{unit.name[-(most - 1) :]}"
    free = scene.free(unit)
    count = str(unit.size) if free is None else f"{free}/{unit.size}"
    head = _text(_PAD, _PAD + 8, name, 10, mono=True, fill="#566170", title=unit.name)
    end = _text(width - _PAD, _PAD + 8, count, 10, fill="#18704a", anchor="end")
    return _Drawn(width, height, (frame, head, end, cells.at(_PAD, _PAD + _HEAD - 4)))


def _cells(scene: Scene, nodes: Sequence[str], columns: int) -> _Drawn:
    parts = []
    for number, node in enumerate(nodes):
        state = scene.live.states.get(node, "unknown") if scene.live else "unknown"
        fill, edge = _FILLS[state]
        x, y = number % columns * (_CELL + _GAP), number // columns * (_CELL + _GAP)
        words = f"{node} ({state})" if scene.live else node
        parts.append(
            f'<rect x="{x}" y="{y}" width="{_CELL}" height="{_CELL}" rx="2" fill="{fill}" stroke="{edge}">'
            f"<title>{escape(words)}</title></rect>"
        )
    rows = -(-len(nodes) // columns) or 1
    return _Drawn(min(len(nodes), columns) * (_CELL + _GAP), rows * (_CELL + _GAP) - _GAP, tuple(parts))


def _flow(pieces: Sequence[_Drawn], width: int) -> _Drawn:
    """Pieces side by side, in as many rows as they need."""
    parts: list[str] = []
    x = y = tall = 0
    for piece in pieces:
        if x and x + piece.width > width:
            x, y, tall = 0, y + tall + _PAD, 0
        parts.append(piece.at(x, y))
        x += piece.width + _PAD
        tall = max(tall, piece.height)
    return _Drawn(width, y + tall, tuple(parts))


def _text(
    x: int, y: int, words: str, size: int, weight: str = "400", *,
    fill: str = "#16202c", anchor: str = "start", mono: bool = False, title: str = "",
) -> str:  # fmt: skip
    family = ' font-family="ui-monospace, monospace"' if mono else ""
    end = "" if anchor == "start" else f' text-anchor="{anchor}"'
    tip = f"<title>{escape(title)}</title>" if title and title != words else ""
    return (
        f'<text x="{x}" y="{y}" font-size="{size}" font-weight="{weight}" fill="{fill}"{family}{end}>'
        f"{tip}{escape(words)}</text>"
    )
