"""Which file system a path lies on: a registry on the root volume would be seen by nobody else."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Mount:
    point: str
    kind: str


class Mounts(Protocol):
    def holding(self, path: Path) -> Mount | None:
        """The mount that `path` lies on, also where the path does not exist yet; None: cannot be told."""
        ...


class SystemMounts:
    """From /proc/self/mountinfo, read anew on each call: mounts appear while we wait for them."""

    def holding(self, path: Path) -> Mount | None:
        try:
            text = Path("/proc/self/mountinfo").read_text(errors="surrogateescape")
        except OSError:
            return None
        return holding(text, path.resolve())


def holding(mountinfo: str, path: Path) -> Mount | None:
    """The mount with the longest mount point above `path`; of several on one point the last, which hides the others.

    Each line: id, parent, major:minor, root, mount point, options, any optional fields, "-", type, … (proc(5))."""
    best: Mount | None = None
    for line in mountinfo.splitlines():
        before, separator, after = line.partition(" - ")
        fields, kinds = before.split(" "), after.split(" ")
        if not separator or len(fields) < 5:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), fields[4])
        if path.is_relative_to(point) and (best is None or len(point) >= len(best.point)):
            best = Mount(point, kinds[0])
    return best


def shared(mount: Mount | None) -> bool:
    """Something is mounted there: not the root volume, nor an automounter that has not mounted yet."""
    return mount is not None and mount.point != "/" and mount.kind != "autofs"
