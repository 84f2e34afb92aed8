"""Records of instances that are gone: absent for an hour on this machine's own clock, not by any stamp of another's."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

ABSENT_SECONDS = 3600.0


@dataclass(frozen=True)
class Absence:
    """`since`: id → when a run on this machine first found it absent (seconds since the epoch); `due`: absent for long
    enough, sorted."""

    since: Mapping[str, float]
    due: tuple[str, ...]


def note(recorded: Collection[str], present: Collection[str], former: Mapping[str, float], now: float) -> Absence:
    """What is absent now, and since when. Whoever is present again starts anew; a clock that was set back only makes
    the wait longer."""
    here = set(present)
    since = {i: min(former.get(i, now), now) for i in sorted(recorded) if i not in here}
    return Absence(since, tuple(i for i, first in since.items() if now - first >= ABSENT_SECONDS))


def parse(document: object) -> dict[str, float]:
    """The memory of former runs; what cannot be read of it is forgotten, so that the wait begins anew."""
    found = document.get("absent_since") if isinstance(document, Mapping) else None
    if not isinstance(found, Mapping):
        return {}
    return {
        i: float(first)
        for i, first in found.items()
        if isinstance(i, str) and isinstance(first, int | float) and not isinstance(first, bool) and first == first
    }
