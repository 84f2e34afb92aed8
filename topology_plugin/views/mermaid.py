"""A Mermaid flowchart of the topology, for documents and merge requests; what Mermaid can't draw is collapsed.

Mermaid stops at 500 edges and becomes unreadable long before: leaves and blocks are drawn one by one only while they
are few, then one box stands for them, with counts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from topology_plugin.core.hostlists import fold
from topology_plugin.views.scene import Scene, Unit, View
from topology_plugin.views.text import counted

MOST_BOXES = 120
_LONGEST_NAMES = 60


def chart(scene: Scene, most: int = MOST_BOXES) -> str:
    """The text of the chart; at most about `most` boxes in all, whatever the cluster's size."""
    lines = ["flowchart TB"]
    share = max(1, most // max(1, len(scene.views)))
    for number, view in enumerate(scene.views):
        lines.append(f"  subgraph t{number}[{_quoted(_title(view))}]")
        lines.extend(_view(scene, view, f"t{number}", share))
        lines.append("  end")
    lines += [
        "  classDef leaf fill:#e8eefb,stroke:#3a6fd8,color:#16202c",
        "  classDef unplaced fill:#fff,stroke:#8a5200,stroke-dasharray:4 3,color:#16202c",
        "  classDef collapsed fill:#f4f5f7,stroke:#667180,color:#16202c",
    ]
    return "\n".join(lines) + "\n"


def _view(scene: Scene, view: View, key: str, most: int) -> Iterator[str]:
    if not view.units:
        names = fold(view.nodes) if view.nodes else "no nodes"
        yield f"    {key}n[{_quoted(f'{len(view.nodes)} nodes: {_cut(names)}')}]"
        return
    budget = [most]
    numbers = iter(range(10**9))

    def draw(units: Sequence[Unit], above: str | None) -> Iterator[str]:
        room = budget[0] - len(units)
        if (room < 0 and above is not None) or (room < 0 and len(units) > most):
            yield from collapsed(units, above)
            return
        budget[0] = room
        waiting: list[tuple[Unit, str]] = []
        for unit in units:
            box = f"{key}u{next(numbers)}"
            yield f"    {box}{_shape(scene, unit)}"
            if above is not None:
                yield f"    {above} --> {box}"
            if unit.children:
                waiting.append((unit, box))
        for unit, box in waiting:  # level by level, so that what is collapsed is the lowest
            yield from draw(unit.children, box)

    def collapsed(units: Sequence[Unit], above: str | None) -> Iterator[str]:
        box = f"{key}u{next(numbers)}"
        nodes = sum(unit.size for unit in units)
        word = {"block": "blocks", "pad": "blocks", "leaf": "leaves"}.get(units[0].role, "switches")
        yield f"    {box}[{_quoted(f'{len(units)} {word}, {nodes} nodes')}]:::collapsed"
        if above is not None:
            yield f"    {above} --> {box}"

    yield from draw(view.units, None)


def _shape(scene: Scene, unit: Unit) -> str:
    free = scene.free(unit)
    words = [unit.name]
    if unit.role == "pad":
        words.append("empty, keeps a position")
    else:
        words.append(counted(unit.size, "node") + ("" if free is None else f", {free} idle"))
    if unit.nodes:
        words.append(_cut(fold(unit.nodes)))
    label = _quoted("<br/>".join(_escaped(word) for word in words), escaped=True)
    if unit.unplaced:
        return f"[{label}]:::unplaced"
    return f"[{label}]:::leaf" if unit.nodes else f"([{label}])" if unit.children else f"[{label}]:::collapsed"


def _title(view: View) -> str:
    marks: list[str] = [view.kind] if view.kind != view.name else []
    marks += ["cluster default"] if view.default else []
    marks += [f"block size {','.join(map(str, view.sizes))}"] if view.sizes else []
    serves = f": {', '.join(view.partitions)}" if view.partitions else ""
    extra = f" ({', '.join(marks)})" if marks else ""
    return f"{view.name}{extra}{serves}"


def _cut(names: str) -> str:
    if len(names) <= _LONGEST_NAMES:
        return names
    at = names.rfind(",", 0, _LONGEST_NAMES)
    return names[: at if at > 0 else _LONGEST_NAMES] + ", …"


def _escaped(text: str) -> str:
    """Mermaid writes entities with # instead of &; # itself goes first."""
    for character, name in (("#", "35"), ("&", "amp"), ('"', "quot"), ("<", "lt"), (">", "gt")):
        text = text.replace(character, f"#{name};")
    return text


def _quoted(text: str, escaped: bool = False) -> str:
    return f'"{text if escaped else _escaped(text)}"'
