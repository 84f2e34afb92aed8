"""Signs that something changed, for the price of a few stat calls: no file is read and Slurm is not called."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TypeAlias

Sign: TypeAlias = "tuple[int, ...] | None"


class Signs:
    """`files`: names → paths to look at, asked anew each time (Includes come and go). `registry`: its directory.

    A record is replaced, never changed in place, so its name and inode tell, without a stat call for each (inotify does
    not see what other hosts write to a shared file system). An inode may be used again by the next replacement but one;
    that changes the directory's time.
    """

    def __init__(self, files: Callable[[], Mapping[str, Path]], registry: Callable[[], Path | None]) -> None:
        self._files, self._registry = files, registry

    def read(self) -> dict[str, Sign]:
        signs: dict[str, Sign] = {name: file_sign(path) for name, path in self._files().items()}
        directory = self._registry()
        signs["registry"] = None if directory is None else _listing(directory / "nodes")
        return signs


def file_sign(path: Path) -> Sign:
    """What changes when a file is replaced or rewritten; None if it is not there."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _listing(directory: Path) -> Sign:
    """Changes with every record that comes, goes or is replaced; None: the directory can't be read."""
    try:
        found = directory.stat()
        with os.scandir(directory) as entries:
            records = frozenset((entry.name, entry.inode()) for entry in entries if entry.name.endswith(".json"))
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, hash(records)


def changed(before: Mapping[str, Sign], now: Mapping[str, Sign]) -> list[str]:
    """Names whose sign differs."""
    return sorted(name for name in before.keys() | now.keys() if before.get(name) != now.get(name))


def taken_over(before: Mapping[str, Sign], after: Mapping[str, Sign], own: Iterable[str]) -> dict[str, Sign]:
    """`before`, but with what we wrote ourselves (`own`) as it is after: our own writing is no sign of a change."""
    return {**before, **{name: after[name] for name in own if name in after}}
