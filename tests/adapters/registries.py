"""Registries in a directory, and disks that fail where a test says so."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.fakes import FakeClock
from topology_plugin.adapters.files import Operations, RealFiles
from topology_plugin.adapters.registry import Reading, RegistryDirectory
from topology_plugin.core.position import Position
from topology_plugin.core.records import Record

ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456"


def record(number: int = 1, **more: Any) -> Record:
    position = Position(("nn-1", f"nn-2{number // 16}"))
    return Record(ARN, f"i-0{number:016x}", f"worker-a-{number}", answers={"resource-config": position}, **more)


class Faulty(Operations):
    """Fails where `fault` says so; it is asked before each operation: (operation, path or None) → error or None."""

    def __init__(self, fault: Callable[[str], int | None]) -> None:
        self.fault = fault
        self.done: list[str] = []

    def _maybe(self, operation: str) -> None:
        number = self.fault(operation)
        self.done.append(operation)
        if number is not None:
            raise OSError(number, os.strerror(number))

    def mkdir(self, path: Path, mode: int) -> None:
        self._maybe("mkdir")
        super().mkdir(path, mode)

    def write(self, fd: int, data: memoryview) -> int:
        self._maybe("write")
        return super().write(fd, data[: max(1, len(data) // 2)])

    def rename(self, source: Path, target: Path) -> None:
        self._maybe("rename")
        super().rename(source, target)

    def pause(self, seconds: float) -> None:
        """No time passes in tests."""


def directory(
    path: Path, clock: FakeClock | None = None, operations: Operations | None = None, **more: Any
) -> RegistryDirectory:
    return RegistryDirectory(path, RealFiles(operations), clock or FakeClock(), **more)


def issues(reading: Reading) -> list[str]:
    return [str(issue) for issue in reading.issues]
