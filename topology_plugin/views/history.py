"""The table of generations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timezone

from topology_plugin.core.history import Entry
from topology_plugin.views.text import Line, Style, line

_STYLES: dict[str, Style] = {"current": "ok", "finished": "", "begun": "warn"}


def table(entries: Sequence[Entry]) -> Iterator[Line]:
    """One line a generation; times in UTC."""
    if not entries:
        yield line(("no generation is kept yet: `merge` makes the first", "dim"))
        return
    rows = [(str(e.number), e.status, _when(e.time), e.by, _what(e)) for e in entries]
    head = ("GENERATION", "STATUS", "TIME (UTC)", "BY", "TOPOLOGIES AND WORDS")
    widths = [max(len(row[column]) for row in [head, *rows]) for column in range(4)]
    yield line(("  ".join([*(cell.ljust(w) for cell, w in zip(head, widths, strict=False)), head[4]]), "title"))
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=False)]
        rest = f"{cells[2]}  {cells[3]}  {row[4]}"
        yield line((f"{cells[0]}  ", "name"), (f"{cells[1]}  ", _STYLES[row[1]]), rest)


def _when(time: float | None) -> str:
    return "-" if time is None else datetime.fromtimestamp(time, timezone.utc).strftime("%Y-%m-%d %H:%M:%S")


def _topology(entry: Entry, name: str, count: int) -> str:
    sizes = ",".join(map(str, entry.block_sizes.get(name, ())))
    told = [f"{count} nodes"] * bool(count) + [f"block size {sizes}"] * bool(sizes)
    return f"{name} ({', '.join(told)})" if told else name


def _what(entry: Entry) -> str:
    topologies = ", ".join(_topology(entry, name, count) for name, count in entry.topologies.items())
    words = ", ".join(f"{partition}={word}" for partition, word in sorted(entry.words.items()))
    return f"{topologies or '-'}{f'; {words}' if words else ''}"
