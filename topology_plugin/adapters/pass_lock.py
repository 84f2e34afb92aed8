"""One writer at a time on this machine: a pass holds the lock from its first look to its last note."""

from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from topology_plugin.core.issues import PassError

NAME = "pass.lock"


class PassLock:
    """`with PassLock(state_dir, wait=10): …`; the kernel lets go of it when its holder dies.

    Raises PassError if another holds it after `wait` seconds, or if state_dir cannot be written.
    """

    def __init__(self, state_dir: Path, wait: float = 30) -> None:
        self.path, self.wait = state_dir / NAME, wait
        self._fd: int | None = None

    def __enter__(self) -> PassLock:
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            self._fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise PassError(f"{self.path} cannot be opened: {error.strerror or error}") from None
        deadline = time.monotonic() + self.wait
        while True:
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return self
            except BlockingIOError:
                if time.monotonic() >= deadline:
                    self._close()
                    raise PassError(f"another pass is under way (it holds {self.path}); try again later") from None
                time.sleep(0.05)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._close()

    def _close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
