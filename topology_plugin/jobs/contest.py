"""One trace under several policies, each on a slurmctld of its own, at the same time."""

from __future__ import annotations

import signal
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from topology_plugin.adapters.private_slurmctld import CommandFailed, SlurmctldDied
from topology_plugin.core.issues import PassError
from topology_plugin.jobs.outcome import Outcome
from topology_plugin.jobs.play import Play
from topology_plugin.jobs.policies import Place, Policy
from topology_plugin.jobs.programs import gathered
from topology_plugin.jobs.scheduler import PrivateScheduler
from topology_plugin.jobs.simulator import Player
from topology_plugin.jobs.traces import TraceJob

Told = Callable[[str, float, int, int], None]
"""Policy, time of the trace in seconds, starts so far, jobs of the trace."""


def end_cleanly_on_sigterm() -> None:
    """SIGTERM ends the program as Ctrl-C does: slurmctlds stop and their directories go. Main thread only."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    signal.signal(signal.SIGTERM, interrupt)
    signal.signal(signal.SIGINT, interrupt)  # ignored in the background of a shell, unless said


def contest(
    place: Place,
    policies: Sequence[Policy],
    trace: Sequence[TraceJob],
    play: Play,
    slurm_bin: Path | None,
    told: Told | None = None,
    parallel: int = 4,
) -> list[Outcome]:
    """Outcomes in the order of `policies`. Slurm mostly waits for its own clock, so several fit one machine.

    Raises InputError where no slurmctld is installed, PassError if one dies.
    """
    with tempfile.TemporaryDirectory(prefix="hyperpod-topology-simulate-") as name:
        root = Path(name)
        root.chmod(0o755)
        programs = gathered(slurm_bin, root)
        stop = threading.Event()

        def run(number: int, policy: Policy) -> Outcome:
            def heard(now: float, starts: int, jobs: int) -> None:
                if stop.is_set():
                    raise PassError("stopped")
                if told:
                    told(policy.name, now, starts, jobs)

            directory = root / f"policy-{number}"
            with PrivateScheduler(directory, programs, place.nodes, policy.configuration(place)) as scheduler:
                return Player(policy, place, scheduler, play, heard).run(trace)

        pool = ThreadPoolExecutor(max_workers=max(1, parallel))
        try:
            runs = [pool.submit(run, number, policy) for number, policy in enumerate(policies)]
            return [one.result() for one in runs]
        except (SlurmctldDied, CommandFailed, TimeoutError) as error:
            raise PassError(f"the simulation ended early: {error}") from None
        finally:
            stop.set()
            pool.shutdown(cancel_futures=True)
