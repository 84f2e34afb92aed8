"""The scheduler that a trace is played on: a real slurmctld of our own with CLOUD nodes, seen through a Protocol.

Jobs on CLOUD nodes get their nodes and stay CONFIGURING (nothing ever boots), so a job's end is a `scancel`, and hours
take as long as Slurm needs to decide. Slurm itself must see the trace's time: one minute of a job's limit stands for
one minute of the trace, and `remaining` keeps what is left of each running job true, as backfill plans with it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from topology_plugin.adapters.private_slurmctld import PrivateSlurmctld
from topology_plugin.core.hostlists import expand
from topology_plugin.core.topology import Configuration
from topology_plugin.core.topology_yaml import render
from topology_plugin.jobs.policies import PARTITION

# Slurm looks at the queue once a second at most; bf_window: three weeks of trace; 10 minutes of it are near enough.
SCHEDULER = (
    "batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1,bf_window=30240,bf_resolution=600,"
    "bf_continue,default_queue_depth=1000,bf_max_job_test=1000,max_switch_wait=864000"
)


@dataclass(frozen=True)
class Row:
    """A job in the queue. `nodes` empty: it waits, for `reason`; `held`: Slurm will not try it again by itself."""

    nodes: tuple[str, ...]
    reason: str = ""
    held: bool = False


class Scheduler(Protocol):
    def submit(self, nodes: int, minutes: int, switches: int | None = None) -> int | str:
        """The job's id, or the words with which it was refused. `switches`: it waits for so few until `relax`."""
        ...

    def relax(self, job: int) -> None:
        """The job takes any number of switches from now on."""
        ...

    def end(self, jobs: Sequence[int]) -> None: ...

    def remaining(self, minutes: Mapping[int, int]) -> None:
        """Job → minutes it may still run, for the running ones."""
        ...

    def fail(self, node: str) -> None:
        """The node goes down; Slurm requeues its job."""
        ...

    def restore(self, node: str) -> None: ...

    def reload(self, configuration: Configuration) -> None: ...

    def queue(self) -> Mapping[int, Row]: ...

    def settled(self, enough: Callable[[Mapping[int, Row]], bool]) -> Mapping[int, Row]:
        """The queue when Slurm has gone over all of it since the last change, or when it is `enough` already."""
        ...


class PrivateScheduler:
    """`directory`: of a slurmctld that only this trace uses. A context manager: it ends with the block."""

    def __init__(
        self, directory: Path, slurm_bin: Path | None, nodes: Sequence[str], configuration: Configuration
    ) -> None:
        self.cluster = PrivateSlurmctld(directory, slurm_bin)
        word = configuration.words.get(PARTITION)
        named = f" Topology={word}" if word else ""
        self.cluster.write_conf(
            "\n".join(f"NodeName={node} State=CLOUD CPUs=1" for node in nodes),
            f"PartitionName={PARTITION} Nodes=ALL Default=YES MaxTime=INFINITE State=UP{named}",
            extra="MinJobAge=2",
            scheduler=SCHEDULER,
        )
        self._write(configuration)
        self._started: dict[int, float] = {}

    def _write(self, configuration: Configuration) -> None:
        path = self.cluster.conf.parent / "topology.yaml"
        fresh = path.with_name(".topology.yaml.new")
        fresh.write_text(render(configuration))
        fresh.replace(path)

    def __enter__(self) -> PrivateScheduler:
        self.cluster.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.cluster.stop()

    def submit(self, nodes: int, minutes: int, switches: int | None = None) -> int | str:
        line = ["--parsable", f"-N{nodes}", f"-t{max(1, minutes)}", "-o", "/dev/null", "--wrap", "true"]
        if switches is not None:
            line.append(f"--switches={switches}")  # for as long as max_switch_wait: the trace's time ends it
        done = self.cluster.run("sbatch", *line, check=False)
        if done.returncode:
            return done.stderr.strip().splitlines()[-1] if done.stderr.strip() else f"exit code {done.returncode}"
        return int(done.stdout.split(";")[0])

    def relax(self, job: int) -> None:
        self.cluster.scontrol("update", f"JobId={job}", "Switches=0", check=False)

    def end(self, jobs: Sequence[int]) -> None:
        if jobs:
            self.cluster.run("scancel", *map(str, jobs), check=False)
            for job in jobs:
                self._started.pop(job, None)

    def remaining(self, minutes: Mapping[int, int]) -> None:
        """Limits count from the job's start on the machine's clock."""
        now = time.monotonic()
        lines = []
        for job, left in minutes.items():
            ran = (now - self._started.setdefault(job, now)) / 60
            lines.append(f"update JobId={job} TimeLimit={max(1, round(ran + left))}")
        if lines:
            self.cluster.run("scontrol", check=False, stdin="\n".join([*lines, "quit", ""]))

    def fail(self, node: str) -> None:
        self.cluster.scontrol("update", f"NodeName={node}", "State=DOWN", "Reason=lost")

    def restore(self, node: str) -> None:
        self.cluster.scontrol("update", f"NodeName={node}", "State=RESUME")

    def reload(self, configuration: Configuration) -> None:
        self._write(configuration)
        self.cluster.scontrol("reconfigure")

    def settled(self, enough: Callable[[Mapping[int, Row]], bool]) -> Mapping[int, Row]:
        before = last = self._rounds()
        deadline = time.monotonic() + 10
        # A backfill that had begun before the change may not have seen it.
        wanted = before[1] + (2 if before[2] else 1)
        while True:
            rows = self.queue()
            self._wake(rows)
            if enough(rows) or time.monotonic() > deadline:
                return rows
            while (now := self._rounds()) == last and time.monotonic() < deadline:
                time.sleep(0.15)  # each question costs more than the wait
            last = now
            if now[0] > before[0] and now[1] >= wanted and not now[2]:
                return self.queue()

    def _wake(self, rows: Mapping[int, Row]) -> None:
        """A requeued job rests for two minutes of the machine's time, which are none of the trace's."""
        for job, row in rows.items():
            if not row.nodes and row.reason == "BeginTime":
                self._started.pop(job, None)
                self.cluster.scontrol("update", f"JobId={job}", "StartTime=now", check=False)

    def _rounds(self) -> tuple[int, int, bool]:
        """Rounds of the main scheduler and of backfill so far, and whether backfill is at it now."""
        main = backfill = 0
        active = False
        section = ""
        for line in self.cluster.run("sdiag").stdout.splitlines():
            if line.startswith(("Main schedule", "Backfilling stats")):
                section, active = line, active or "ACTIVE" in line or "WARNING" in line
            name, _, value = line.strip().partition(":")
            if name == "Total cycles":
                if section.startswith("Main"):
                    main = int(value)
                else:
                    backfill = int(value)
        return main, backfill, active

    def queue(self) -> Mapping[int, Row]:
        rows: dict[int, Row] = {}
        out = self.cluster.run("squeue", "-h", "-t", "PD,CF,R", "-o", "%i|%t|%r|%Q|%N").stdout
        now = time.monotonic()
        for line in out.splitlines():
            job, state, reason, priority, nodes = line.split("|", 4)
            waits = state == "PD"
            if not waits:
                self._started.setdefault(int(job), now)
            held = waits and priority == "0"
            rows[int(job)] = Row(() if waits else tuple(expand(nodes)), reason if waits else "", held)
        return rows
