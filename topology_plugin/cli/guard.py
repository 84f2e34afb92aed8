"""`guard`: before slurmctld starts, make what is on disk startable, or leave it alone, and never keep it waiting."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import click

from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say

LIMIT = 15.0  # seconds; slurmctld's start waits for this command
LOCK_WAIT = 3.0


@click.command()
@click.pass_obj
def guard(door: Door) -> int:
    """Make what is on disk startable, or leave it alone. Always exits 0, within 20 seconds.

    \b
    For slurmctld's unit:
      ExecStartPre=-+/opt/hyperpod-topology/current/bin/hyperpod-topology guard

    What slurmctld would die of becomes the last good generation, if that fits slurm.conf as it is, else flat alone
    without any Topology= word. The broken files are kept in the state directory. What starts is not touched.

    \b
    Examples:
      hyperpod-topology guard && slurmctld
      hyperpod-topology guard -v            also says that nothing had to be done
    """
    return within(LIMIT, lambda: _guard(door))


def within(seconds: float, work: Callable[[], None]) -> int:
    """Do `work` in a process of its own, as a read from a hung file system cannot be interrupted; 0, come what may."""
    sys.stdout.flush()
    sys.stderr.flush()
    try:
        child = os.fork()
    except OSError as error:
        say(f"guard gave up: {error.strerror}")
        return 0
    if child == 0:
        try:
            work()
        except BaseException as error:  # whatever it is, slurmctld is to start
            with suppress(Exception):
                say(f"guard gave up: {error or type(error).__name__}")
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(0)
    deadline = time.monotonic() + seconds
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        if time.monotonic() > deadline:
            with suppress(OSError):
                os.kill(child, signal.SIGKILL)
            say(f"guard gave up after {seconds:g} s: a file system does not answer; nothing more was changed")
            return 0
        time.sleep(0.01)
    return 0


def _guard(door: Door) -> None:
    from topology_plugin.adapters.pass_lock import PassLock
    from topology_plugin.app.guard import guard as mend
    from topology_plugin.core.issues import PassError

    wiring = door.wiring()
    if wiring.settings.mode == "off":
        say("mode is off: nothing was looked at")
        return
    live, generations = wiring.live_files(), wiring.local_generations()
    lock = PassLock(generations.state_dir, LOCK_WAIT)
    with suppress(PassError):  # a pass under way, or a state_dir that cannot be written: slurmctld starts now anyway
        lock.__enter__()
    done = mend(live, generations, wiring.judge.deadly, wiring.classic(), wiring.settings.mode)
    if done.outcome == "startable":
        if door.verbose:
            say("no rule for topologies that keeps slurmctld from starting is broken on disk")
        return
    for issue in done.issues:
        say(str(issue))
    if done.outcome == "unreadable":
        say("nothing was changed: that is not about topologies")
    if done.steps:
        kept = f"; the broken files are in {done.kept}" if done.kept else ""
        say(f"mended with {done.what}: {'; '.join(done.steps)}{kept}")
    if done.outcome == "failed":
        say("slurmctld may not start with what is on disk")
