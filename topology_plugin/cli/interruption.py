"""Ctrl-C, SIGTERM and a closed terminal: what a command started and made goes before it does."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Callable, Iterator

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextlib.contextmanager
def cleaned_up(clean: Callable[[], None]) -> Iterator[None]:
    """`clean` runs at the end, whatever ends it, and nothing interrupts it. A signal ends the program with 128 + its
    number (130 for Ctrl-C, 143 for SIGTERM), and further ones change nothing any more. Main thread only."""
    ending = interrupted = False

    def end(number: int, _: object) -> None:
        nonlocal ending, interrupted
        if not ending:
            ending = interrupted = True
            raise SystemExit(128 + number)

    former = {number: signal.signal(number, end) for number in SIGNALS if signal.getsignal(number) != signal.SIG_IGN}
    try:
        try:
            yield
        finally:
            ending = True
    finally:
        try:
            clean()
        finally:
            for number, handler in former.items():  # as it ends, Python would put the deadly ones back
                signal.signal(number, signal.SIG_IGN if interrupted else handler)
