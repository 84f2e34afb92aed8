"""Which file system a path lies on: a registry on the root volume would be seen by nobody else."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

NETWORK = ("nfs", "nfs4", "lustre", "ceph", "gpfs", "beegfs", "cifs", "fuse.sshfs", "9p")  # of a diskless root


@dataclass(frozen=True)
class Mount:
    """`options`: of the file system itself, such as `rw,flock`."""

    point: str
    kind: str
    options: str = field(default="", compare=False)


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
            best = Mount(point, kinds[0], kinds[2] if len(kinds) > 2 else "")
    return best


def shared_only(mounts: Mounts) -> Callable[[Path], str]:
    """Says why a path is not on a shared file system, "" if it is: something is mounted above it, other than a local
    root volume and other than an automounter that has not mounted yet."""

    def why(path: Path) -> str:
        mount = mounts.holding(path)
        if mount is not None and (mount.point != "/" or mount.kind in NETWORK) and mount.kind != "autofs":
            return ""
        top = "/" + path.parts[1]
        return (
            f"no shared file system is mounted at {top} (yet): {path} would lie on this machine's own disk "
            "(HYPERPOD_TOPOLOGY_REGISTRY names a directory that is taken as it is)"
        )

    return why
