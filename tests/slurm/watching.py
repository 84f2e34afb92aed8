"""`watch` as a process of its own, and what tests ask of it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from tests.slurm.room import Room

if TYPE_CHECKING:
    from typing_extensions import Self

QUICK = {
    "settle_seconds": "0.4",
    "max_wait_seconds": "10",
    "poll_seconds": "0.1",
    "min_reconfigure_interval": "0",
    "rehearse": "never",
}
PATIENCE = 60.0  # the machine may be busy


class Watching:
    """A running `watch`. `command`: what to run instead of it; `settings` as flags."""

    def __init__(
        self,
        room: Room,
        *,
        slurm_bin: Path | None = None,
        command: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
        log: str = "watch.log",
        **settings: str,
    ) -> None:
        self.log_path = room.directory / log
        flags = {"slurm_bin": str(slurm_bin or room.slurm_bin), **QUICK, **settings}
        options = [word for name, value in flags.items() for word in (f"--{name.replace('_', '-')}", value)]
        start = command or [sys.executable, "-m", "topology_plugin"]
        with self.log_path.open("wb") as out:
            self.process = subprocess.Popen(
                [*start, "--root", str(room.controller), *options, "watch"],
                env={**room.environment(), **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.log_path.read_text()

    def until(self, happened: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not happened():
            assert self.process.poll() is None, f"watch ended with {self.process.returncode}: {self.said}"
            assert time.monotonic() < deadline, f"{what} did not happen; watch said: {self.said}"
            time.sleep(0.05)

    def until_said(self, text: str, times: int = 1) -> None:
        self.until(lambda: self.said.count(text) >= times, f"{text!r}")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def family(self) -> list[int]:
        """Processes that it started and that are still there: by their environment, which only they have."""
        mark = f"HYPERPOD_TOPOLOGY_REGISTRY={self._registry()}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) not in (os.getpid(), self.process.pid):
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        found.append(int(entry.name))
                except OSError:
                    continue
        return found

    def _registry(self) -> Path:
        return self.log_path.parent / "fsx" / "hyperpod-topology"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
