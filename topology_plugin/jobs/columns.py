"""Plain text tables: columns as wide as they need, numbers to the right."""

from __future__ import annotations

import re
from collections.abc import Sequence

_NUMBER = re.compile(r"[0-9.]+( %| \(of [0-9]+\))?|-")


def columns(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Lines with a heading; columns that are empty in every row are left out."""
    kept = [i for i in range(len(head)) if any(row[i] not in ("", "-") for row in rows) or (not rows and head[i])]
    cells = [[head[i] for i in kept], *([row[i] for i in kept] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(kept))]
    right = [all(_NUMBER.fullmatch(row[i]) for row in cells[1:]) for i in range(len(kept))]
    lines = []
    for row in cells:
        placed = zip(row, widths, right, strict=True)
        lines.append("  ".join(cell.rjust(width) if to else cell.ljust(width) for cell, width, to in placed).rstrip())
    return "\n".join(lines) + "\n"
