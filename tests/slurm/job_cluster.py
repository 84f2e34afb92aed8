"""A real slurmctld with the cluster of a State, and the product's job commands run against it as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.core import state_json
from topology_plugin.core.state import State
from topology_plugin.core.topology_yaml import render


@dataclass(frozen=True)
class JobCluster:
    """`slurm`: the slurmctld; `state`: what the last pass knew, in `state_file`."""

    slurm: Cluster
    state: State
    state_file: Path

    def command(
        self, *arguments: str, check: bool = True, state: bool = True, stdin: str = ""
    ) -> subprocess.CompletedProcess[str]:
        """`hyperpod-topology …` as a process of its own. `state` False: nobody has left one."""
        name, *more = arguments
        given = ("--from", str(self.state_file)) if state and "--from" not in more else ()
        done = subprocess.run(
            [sys.executable, "-m", "topology_plugin", name, *given, *more],
            env={**self.slurm.env, "HYPERPOD_TOPOLOGY_ROOT": str(self.state_file.parent / "root")},
            cwd=self.state_file.parent,
            input=stdin,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert not check or done.returncode == 0, done.stderr
        return done

    def submit(self, *arguments: str) -> int:
        """Through `submit`; the id of the job."""
        done = self.command("submit", *arguments, "-o", "/dev/null", "--wrap", "sleep 3600")
        return int(done.stdout.split()[-1])

    def nodes(self, partition: str) -> tuple[str, ...]:
        return self.state.inventory.partitions[partition].nodes

    def fill(self, partition: str, nodes: list[str] | tuple[str, ...]) -> int:
        """A job on exactly these nodes, one each where a block partition would not take them together."""
        job = self.slurm.submit("-p", partition, "-w", ",".join(nodes), f"-N{len(nodes)}")
        self.slurm.wait_running(job)
        return job


def job_cluster(slurmctld: NewCluster, tmp_path: Path, state: State, extra: str = "", start: bool = True) -> JobCluster:
    """CLOUD nodes of one CPU each, so that a job gets whole nodes."""
    configuration = state.desired
    partitions = []
    for partition in state.inventory.partitions.values():
        word = configuration.words.get(partition.name)
        named = f" Topology={word}" if word else ""
        default = " Default=YES" if partition.all_nodes else ""
        partitions.append(f"PartitionName={partition.name} Nodes={','.join(partition.nodes)} State=UP{default}{named}")
    slurm = slurmctld(
        "\n".join(f"NodeName={name} State=CLOUD CPUs=1" for name in state.inventory.nodes),
        "\n".join(partitions),
        topology=render(configuration),
        extra=extra,
        start=start,
    )
    state_file = tmp_path / "state.json"
    state_file.write_text(json.dumps(state_json.dump(state)))
    (tmp_path / "root").mkdir()
    return JobCluster(slurm, state, state_file)
