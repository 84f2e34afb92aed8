"""One writer for the whole cluster: a lock in the registry, where its file system has locks that all controllers share.

Lustre has them with the mount option `flock`, NFS unless `nolock` or `local_lock` says otherwise; without them flock()
fails (ENOSYS, ENOLCK, EOPNOTSUPP), or works on each machine for itself, which the mount's options tell.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import socket
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from topology_plugin.adapters.mounts import Mounts

NAME = "writer.lock"
_TAKEN = (errno.EAGAIN, errno.EACCES)
_MAX_NOTE = 4096

Flock = Callable[[int, int], None]


@dataclass(frozen=True)
class Holder:
    """Who holds the lock. `machine`: its PassLock's file, on its kernel; `stays`: for as long as it lives (`watch`)."""

    host: str
    pid: int
    machine: str
    stays: bool = False

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host}" if self.host else "a process that did not say who it is"


@dataclass(frozen=True)
class Turn:
    """`mine`: this machine holds the lock. Else `holder` does, or there is no lock to be had: `lacking` says why."""

    mine: bool = False
    holder: Holder | None = None
    lacking: str = ""


class ClusterLock:
    """`registry`: asked anew each time, as it may be mounted late. `machine`: the file of this machine's PassLock,
    which keeps its processes apart; so they share this lock, and a `merge` by hand works beside `watch`.

    The kernel lets go of it when its holder dies.
    """

    def __init__(
        self,
        registry: Callable[[], Path | None],
        machine: Path,
        mounts: Mounts,
        flock: Flock = fcntl.flock,
    ) -> None:
        self._registry, self._machine, self._mounts, self._flock = registry, machine, mounts, flock
        self._fd: int | None = None
        self._path: Path | None = None
        self._note = b""

    def take(self, stays: bool = False) -> Turn:
        """Hold it from now on, if it can be had; never waits. Once held, says whether it still is."""
        if self._fd is not None:
            if self._still_held():
                return Turn(mine=True)
            self.let_go()
        directory = self._registry()
        if directory is None or not directory.is_dir():
            return Turn(lacking=f"{directory} is not there" if directory else "there is no registry")
        if reason := self._only_local(directory):
            return Turn(lacking=reason)
        path = directory / NAME
        try:
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o644)
        except OSError as error:
            return Turn(lacking=f"{path} cannot be opened: {error.strerror or error}")
        try:
            self._flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = _read(fd)
            os.close(fd)
            if error.errno not in _TAKEN:
                return Turn(lacking=f"the file system of {directory} has no locks: {error.strerror or error}")
            return self._of(holder)
        self._fd, self._path = fd, path
        mine = Holder(socket.gethostname(), os.getpid(), _identity(self._machine), stays)
        self._note = (json.dumps(asdict(mine)) + "\n").encode()
        try:
            os.ftruncate(fd, 0)
            os.pwrite(fd, self._note, 0)
        except OSError as error:
            self.let_go()
            return Turn(lacking=f"{path} cannot be written: {error.strerror or error}")
        return Turn(mine=True)

    def let_go(self) -> None:
        if self._fd is None:
            return
        with contextlib.suppress(OSError):
            os.ftruncate(self._fd, 0)
        os.close(self._fd)
        self._fd, self._path, self._note = None, None, b""

    def _of(self, holder: Holder | None) -> Turn:
        """Someone else's: shared with us if it is a process of this machine."""
        if holder is None:  # it has the lock and is about to say so, or died between the two
            return Turn(holder=Holder("", 0, ""))
        if holder.machine and holder.machine == _identity(self._machine) and _alive(holder.pid):
            return Turn(mine=True, holder=holder)
        return Turn(holder=holder)

    def _still_held(self) -> bool:
        """Locks are lost, silently, when a file server has not heard of us for a while, and with the file itself."""
        if self._fd is None or self._path is None:
            return False
        try:
            named, ours = self._path.stat(follow_symlinks=False), os.fstat(self._fd)
            return (named.st_dev, named.st_ino) == (ours.st_dev, ours.st_ino) and (
                os.pread(self._fd, _MAX_NOTE, 0) == self._note
            )
        except OSError:
            return False

    def _only_local(self, directory: Path) -> str:
        mount = self._mounts.holding(directory)
        options = mount.options.split(",") if mount else []
        for option in ("localflock", "nolock", "local_lock=all", "local_lock=flock"):
            if option in options:
                return f"the file system of {directory} is mounted with {option}: its locks end at this machine"
        return ""


def _read(fd: int) -> Holder | None:
    try:
        found = json.loads(os.pread(fd, _MAX_NOTE, 0))
        return Holder(str(found["host"]), int(found["pid"]), str(found["machine"]), found.get("stays") is True)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def _identity(machine: Path) -> str:
    """The very file, on the very running kernel; "" if it is not there. Host names need not be unique."""
    try:
        found = machine.stat()
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""
    return f"{boot}:{found.st_dev}:{found.st_ino}"


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (OSError, OverflowError):
        return False
    return True
