"""`watch`: the controller's service."""

from __future__ import annotations

import click

from topology_plugin.cli.main import Door
from topology_plugin.cli.terminal import say


@click.command()
@click.pass_obj
def watch(door: Door) -> None:
    """Passes for ever, settled: a change waits until nothing changed for settle_seconds, failures back off.

    \b
    Polls every poll_seconds without calling Slurm; asks Slurm when something changed, and every 300 s for drift.
    Stops cleanly on SIGTERM and SIGINT: a pass under way is finished first.
    """
    import signal
    import threading

    stop = threading.Event()
    for name in (signal.SIGTERM, signal.SIGINT):
        signal.signal(name, lambda number, frame: stop.set())
    door.wiring().watcher(say).run(stop.wait)
