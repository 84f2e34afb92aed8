"""Passes in a process of their own that are killed, or whose disk fails, at a chosen operation."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.slurm.room import Room
from topology_plugin.adapters.files import Operations, RealFiles
from topology_plugin.adapters.generations import Generations
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.slurm import Answer, Slurm
from topology_plugin.app.doors import Doors
from topology_plugin.app.reconcile import Outcome, Reconciler, Wish

CHANGING = ("create", "write", "owner", "mode", "sync", "rename", "unlink", "mkdir", "rmdir")


class Counted(Operations):
    """Calls `at` with the name and the path before each operation that changes something, and amid each write."""

    def __init__(self, at: Callable[[str, str], None]) -> None:
        self.at = at
        self._owed: OSError | None = None

    def _name(self, fd: int) -> str:
        return str(Path(f"/proc/self/fd/{fd}").readlink())

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_CREAT:
            self.at("create", str(path))
        return super().open(path, flags, mode)

    def write(self, fd: int, data: memoryview) -> int:
        if self._owed is not None:
            owed, self._owed = self._owed, None
            raise owed
        self.at("write", self._name(fd))
        half = super().write(fd, data[: len(data) // 2])
        try:
            self.at("write", self._name(fd))
        except OSError as error:
            # As the kernel does it: what was written counts, and the next call fails.
            self._owed = error
            return half
        return half + super().write(fd, data[half:])

    def owner(self, fd: int, uid: int, gid: int) -> None:
        self.at("owner", self._name(fd))
        super().owner(fd, uid, gid)

    def mode(self, fd: int, mode: int) -> None:
        self.at("mode", self._name(fd))
        super().mode(fd, mode)

    def sync(self, fd: int) -> None:
        self.at("sync", self._name(fd))  # but not done: no power is cut here

    def rename(self, source: Path, target: Path) -> None:
        self.at("rename", str(target))
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self.at("unlink", str(path))
        super().unlink(path)

    def mkdir(self, path: Path, mode: int) -> None:
        self.at("mkdir", str(path))
        super().mkdir(path, mode)

    def rmdir(self, path: Path) -> None:
        self.at("rmdir", str(path))
        super().rmdir(path)


class CountedSlurm:
    """Slurm's commands, with a point before and after each reconfigure and before each read-back and release."""

    def __init__(self, slurm: Slurm, at: Callable[[str, str], None]) -> None:
        self._slurm, self._at = slurm, at

    def __getattr__(self, name: str) -> Any:
        return getattr(self._slurm, name)

    def reconfigure(self, timeout: float = 60) -> Answer:
        self._at("scontrol", "before reconfigure")
        answer = self._slurm.reconfigure(timeout)
        self._at("scontrol", "after reconfigure")
        return answer


def reconciler(
    room: Room, operations: Operations, slurm: Callable[[Slurm], Slurm] = lambda slurm: slurm, **settings: Any
) -> Reconciler:
    """Passes whose every file goes through `operations`."""
    made = room.wiring(**settings).reconciler()
    new_doors = made.new_doors

    def doors() -> Doors:
        real = new_doors()
        files = RealFiles(operations)
        kept = real.generations
        return replace(
            real,
            live=LiveFiles(files, real.live.conf, real.live.where),
            generations=Generations(files, kept.registry, kept.state_dir, kept.limit, kept.cluster_arn),
            slurm=slurm(real.slurm),
        )

    return replace(made, new_doors=doors)


def points(room: Room, **settings: Any) -> list[tuple[str, str]]:
    """One whole pass; every point at which it could have been killed: (operation, file)."""
    found: list[tuple[str, str]] = []

    def at(operation: str, what: str) -> None:
        found.append((operation, what))

    reconciler(room, Counted(at), lambda slurm: CountedSlurm(slurm, at), **settings).run(Wish())
    return found


def killed_at(room: Room, point: int, **settings: Any) -> bool:
    """A pass in a forked process, which gets SIGKILL at that point (from 0 on); False if it ended before."""
    child = os.fork()
    if child == 0:
        left = [point]

        def at(operation: str, what: str) -> None:
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            left[0] -= 1

        code = 1
        try:
            reconciler(room, Counted(at), lambda slurm: CountedSlurm(slurm, at), **settings).run(Wish())
            code = 0
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGKILL
        return True
    assert os.WEXITSTATUS(status) == 0, "the pass failed by itself"
    return False


def passed(room: Room, **settings: Any) -> Outcome:
    return room.wiring(**settings).reconciler().run(Wish())


def leftovers(room: Room) -> list[Path]:
    """Temporary files, wherever the product writes."""
    return [path for path in room.directory.rglob(".*") if ".hpt-" in path.name]
