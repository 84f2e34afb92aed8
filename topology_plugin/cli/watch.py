"""`watch`: the controller's service."""

from __future__ import annotations

import contextlib
import os
import select
import signal
from types import FrameType

import click

from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say


@click.command()
@click.pass_obj
def watch(door: Door) -> None:
    """Passes for ever, settled: a change waits until nothing changed for settle_seconds, failures back off.

    \b
    Polls every poll_seconds without calling Slurm; asks Slurm when something changed, and every 300 s for drift.
    Of several controllers one writes, the others observe and take over when it is gone.
    Stops cleanly on SIGTERM and SIGINT: a pass under way is finished first (a second SIGINT does not wait for it).

    \b
    Examples:
      systemctl start hyperpod-topology-watch          the service runs it
      hyperpod-topology watch --settle-seconds 10      by hand, with less patience
    """
    with Stop() as stop:
        door.wiring().watcher(say, door.wiring).run(stop.wait)


class Stop:
    """SIGTERM and SIGINT as something to wait for. The handler only writes to a pipe: it may run in the middle of
    anything, and threading.Event could then wait for itself for ever."""

    def __enter__(self) -> Stop:
        self._asked = 0
        self._read, self._write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        self._former = {number: signal.signal(number, self._handle) for number in (signal.SIGTERM, signal.SIGINT)}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._former.items():
            signal.signal(number, handler)
        os.close(self._read)
        os.close(self._write)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        self._asked += 1
        if self._asked > 1 and number == signal.SIGINT:
            raise KeyboardInterrupt
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")

    def wait(self, seconds: float) -> bool:
        """True as soon as a stop is asked for, False after so many seconds."""
        return bool(select.select([self._read], [], [], seconds)[0])
