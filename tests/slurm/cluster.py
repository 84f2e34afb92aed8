"""A slurmctld of a test's own, with the questions tests ask."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

from topology_plugin.adapters.private_slurmctld import CommandFailed, PrivateSlurmctld


@dataclass(frozen=True)
class Job:
    state: str  # RUNNING, CONFIGURING (a CLOUD node's job stays so), PENDING, …
    reason: str  # why it is pending: BadConstraints, Resources, …
    nodes: tuple[str, ...]
    priority: int  # 0: held


class Cluster(PrivateSlurmctld):
    def write_topology(self, text: str, name: str = "topology.yaml") -> Path:
        """Put a topology file beside slurm.conf, atomically, as slurmctld and the commands may be reading it."""
        path = self.conf.parent / name
        fresh = path.with_name(f".{name}.new")
        fresh.write_text(text)
        fresh.replace(path)
        return path

    def edit_conf(self, old: str, new: str) -> None:
        text = self.conf.read_text()
        assert old in text, f"slurm.conf has no {old!r}"
        self.conf.write_text(text.replace(old, new))

    def reconfigure(self) -> bool:
        """True if it worked, as far as the exit code says."""
        return self.scontrol("reconfigure", check=False).returncode == 0

    def submit(self, *arguments: str) -> int:
        """A batch job that would run for an hour; its id. Raises CommandFailed if sbatch refuses it."""
        done = self.run("sbatch", "--parsable", *arguments, "--wrap", "sleep 3600")
        return int(done.stdout.split(";")[0])

    def accepts(self, *arguments: str) -> bool:
        """Does Slurm think that such a job could ever run? (`--test-only`; wrong with -w under block, run.)"""
        try:
            self.run("sbatch", "--test-only", *arguments, "--wrap", "true")
        except CommandFailed as refused:
            if "allocation failure" not in refused.stderr:
                raise
            return False
        return True

    def job(self, job_id: int) -> Job:
        line = self.run("squeue", "-h", "-t", "all", "-j", str(job_id), "-o", "%T|%r|%N|%Q").stdout.strip()
        state, reason, nodes, priority = line.split("|")
        return Job(state, reason, tuple(self.expand(nodes)) if nodes else (), int(priority))

    def wait_running(self, job_id: int, timeout: float = 60) -> list[str]:
        """The job's nodes, once it has some. Raises AssertionError when it gets none."""
        deadline = time.monotonic() + timeout
        while not (job := self.job(job_id)).nodes:
            assert time.monotonic() < deadline, f"job {job_id} got no nodes within {timeout:g} s: {job}"
            time.sleep(0.02)
        return list(job.nodes)

    def wait_pending(self, job_id: int, reason: str, timeout: float = 60) -> Job:
        """The job, once it waits for this reason. Raises AssertionError when that doesn't happen."""
        deadline = time.monotonic() + timeout
        while (job := self.job(job_id)).state != "PENDING" or job.reason != reason:
            assert time.monotonic() < deadline, f"job {job_id} is not pending for {reason} after {timeout:g} s: {job}"
            time.sleep(0.02)
        return job

    def cancel(self, *job_ids: int) -> None:
        """Cancel and wait until their nodes are free again."""
        self.run("scancel", *map(str, job_ids), check=False)
        deadline = time.monotonic() + 60
        wanted = ",".join(map(str, job_ids))
        while active := self.run("squeue", "-h", "-j", wanted, "-t", "PD,R,CF,CG", check=False).stdout.strip():
            assert time.monotonic() < deadline, f"jobs do not end: {active}"
            time.sleep(0.02)

    def expand(self, hostlist: str) -> list[str]:
        return self.scontrol("show", "hostnames", hostlist).stdout.split()

    def topoconf(self) -> str:
        """The topologies in force (25.05+)."""
        return self.scontrol("show", "topoconf").stdout

    def partitions(self) -> dict[str, str | None]:
        """Partition → the topology it names."""
        found = json.loads(self.scontrol("show", "partitions", "--json").stdout)["partitions"]
        return {str(one["name"]): one.get("topology") or None for one in found}

    def leftovers(self) -> list[int]:
        """Processes of this cluster that are alive: daemons, commands, jobs."""
        return self.processes.find(())
