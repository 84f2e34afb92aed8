"""Time, injected, so that an hour can pass in a second."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Seconds since the epoch; only for showing and for comparing with this machine's own stamps."""
        ...

    def monotonic(self) -> float:
        """Seconds that never go backwards; for intervals and budgets."""
        ...

    def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)
