"""A simulated cluster on this machine: a root directory for every machine, a real slurmctld, real processes.

The demo's and the tests' stage. Every command runs as its own process with `--root`, as it would on its own machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from topology_plugin.adapters.private_slurmctld import PrivateSlurmctld
from topology_plugin.jobs.simulated_cluster import Machine, SimulatedCluster

DMI_TAG = "sys/devices/virtual/dmi/id/board_asset_tag"
ML_CONFIG = "opt/ml/config"
LOCAL_SOURCES = "resource-config,records"


class MachineRoom:
    """`directory`: everything is below it. `slurm_bin` None: no Slurm; `slurmctld` is None then."""

    def __init__(self, directory: Path, slurm_bin: Path | None, *, extra: str = "") -> None:
        self.directory = directory
        self.slurm_bin = slurm_bin
        self.extra = extra
        self.controller = directory / "controller"
        self.conf = self.controller / "opt/slurm/etc/slurm.conf"
        self.registry = directory / "fsx" / "hyperpod-topology"
        self.slurmctld: PrivateSlurmctld | None = None
        self._written: SimulatedCluster | None = None
        if slurm_bin is not None:
            self.slurmctld = PrivateSlurmctld(directory / "slurm", slurm_bin, conf=self.conf)

    # --- what AWS and the agent write ---

    def write(self, cluster: SimulatedCluster) -> None:
        """The controller's files for this cluster; slurm.conf as the agent rewrites it, without any of our words."""
        self._document(self.controller, "resource_config.json", cluster.resource_config())
        self._document(self.controller, "provisioning_parameters.json", cluster.provisioning_parameters())
        nodes, partitions = cluster.node_lines(), cluster.partition_lines()
        if self.slurmctld is not None and not self.conf.is_file():
            self.slurmctld.write_conf("\n".join(nodes), "\n".join(partitions), extra=self.extra)
        else:
            self.conf.parent.mkdir(parents=True, exist_ok=True)
            former = self.conf.read_text().splitlines() if self.conf.is_file() else ["ClusterName=c1"]
            kept = [line for line in former if not line.startswith(("NodeName=", "PartitionName="))]
            self.conf.write_text("\n".join([*kept, *nodes, *partitions]) + "\n")
        self._written = cluster

    def _document(self, root: Path, name: str, document: Mapping[str, Any]) -> None:
        path = root / ML_CONFIG / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document))

    def prepare(self, machine: Machine, cluster: SimulatedCluster) -> Path:
        """The root of one machine, with its own copy of the documents."""
        root = self.directory / "nodes" / machine.instance_id
        self._document(root, "resource_config.json", cluster.resource_config())
        self._document(root, "provisioning_parameters.json", cluster.provisioning_parameters())
        tag = root / DMI_TAG
        tag.parent.mkdir(parents=True, exist_ok=True)
        tag.write_text(machine.instance_id + "\n")
        return root

    # --- processes ---

    def environment(self) -> dict[str, str]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("HYPERPOD_TOPOLOGY_", "SLURM"))}
        environment["HYPERPOD_TOPOLOGY_REGISTRY"] = str(self.registry)
        environment["HYPERPOD_TOPOLOGY_SOURCES"] = LOCAL_SOURCES  # nothing here may ask AWS
        environment["AWS_EC2_METADATA_DISABLED"] = "true"
        return environment

    def run(
        self, root: Path, *arguments: str, check: bool = False, timeout: float = 120
    ) -> subprocess.CompletedProcess[str]:
        """`hyperpod-topology --root ROOT …` as a process of its own."""
        command = [sys.executable, "-m", "topology_plugin", "--root", str(root), *arguments]
        if self.slurm_bin is not None:
            command[3:3] = ["--slurm-bin", str(self.slurm_bin)]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=timeout, env=self.environment(), check=False
        )
        if check and done.returncode != 0:
            raise subprocess.CalledProcessError(done.returncode, command, done.stdout, done.stderr)
        return done

    def on_controller(self, *arguments: str, check: bool = False) -> subprocess.CompletedProcess[str]:
        return self.run(self.controller, *arguments, check=check)

    def register(self, machines: Iterable[Machine], cluster: SimulatedCluster | None = None, workers: int = 4) -> None:
        """The hook on each of these machines, several at once; the first failure is raised."""
        known = cluster or self._written
        if known is None:
            raise RuntimeError("write the cluster first")

        def hook(machine: Machine) -> None:
            self.run(self.prepare(machine, known), "register", check=True)

        with ThreadPoolExecutor(workers) as pool:
            list(pool.map(hook, machines))
