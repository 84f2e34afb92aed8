"""What `doctor` found, in words and as data."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from topology_plugin.core.checkup import Check
from topology_plugin.core.settings import NAMES, Settings
from topology_plugin.views.text import Line, Style, counted, line

_STYLES: dict[str, Style] = {"ok": "ok", "warn": "warn", "bad": "bad", "unknown": "dim"}


def lines(checks: Sequence[Check], settings: Settings | None, skipped: int = 0) -> list[Line]:
    """A line a check, a second one with the remedy where one is needed; then every setting with its origin."""
    width = max((len(check.id) for check in checks), default=0)
    made: list[Line] = []
    for check in checks:
        verdict = check.verdict
        made.append(
            line((f"{verdict.result:<8}", _STYLES[verdict.result]), (f"{check.id:<{width}}  ", "name"), verdict.reason)
        )
        if verdict.remedy and verdict.result != "ok":
            made.append(line(" " * (8 + width + 2), (f"→ {verdict.remedy}", "dim")))
    made += [line(), line((summary(checks, skipped), "title"))]
    if settings is not None:
        made += [line(), line(("Settings", "title"))]
        widest = max(len(name) for name in NAMES)
        for name in NAMES:
            origin = settings.origin(name)
            style: Style = "dim" if origin == "default" else ""
            made.append(line((f"  {name:<{widest}}  {value(settings, name)}", style), (f"  ({origin})", "dim")))
    return made


def summary(checks: Sequence[Check], skipped: int = 0) -> str:
    counts = Counter(check.verdict.result for check in checks)
    parts = [f"{counts[result]} {result}" for result in ("bad", "warn", "unknown", "ok") if counts[result]]
    more = f"; {skipped} more are for the controller" if skipped else ""
    return f"{counted(len(checks), 'check')}: {', '.join(parts)}{more}"


def document(checks: Sequence[Check], settings: Settings | None, version: str) -> dict[str, Any]:
    """`doctor -o json`: stable keys. `result`: ok, warn, bad or unknown; ids of checks stay."""
    return {
        "schema": 1,
        "version": version,
        "checks": [
            {
                "id": check.id,
                "title": check.title,
                "result": check.verdict.result,
                "reason": check.verdict.reason,
                "remedy": check.verdict.remedy,
            }
            for check in checks
        ],
        "settings": {name: {"value": plain(settings, name), "origin": settings.origin(name)} for name in NAMES}
        if settings is not None
        else {},
    }


def value(settings: Settings, name: str) -> str:
    found = plain(settings, name)
    if isinstance(found, list):
        return ", ".join(map(str, found)) or "none"
    if isinstance(found, dict):
        return "; ".join(f"{key}: {options}" for key, options in found.items()) or "none"
    return "null" if found is None else str(found).lower() if isinstance(found, bool) else f"{found}"


def plain(settings: Settings, name: str) -> Any:
    """The value as JSON would hold it."""
    found = getattr(settings, name)
    if name == "partitions":
        return {
            partition: {key: option for key, option in vars(options).items() if option is not None}
            for partition, options in found.items()
        }
    return list(found) if isinstance(found, tuple) else found
