"""Machines of a small cluster for the entry scripts, and a bundle with settings of its own."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.bundle.machine import BareMachine
from topology_plugin.jobs.simulated_cluster import SimulatedCluster, mixed

CLUSTER = mixed(p5=4, ultraservers=(), cpu=0)
NODE_UNITS = [
    "hyperpod-topology-register.path",
    "hyperpod-topology-register.service",
    "multi-user.target.wants/hyperpod-topology-register.path",
    "multi-user.target.wants/hyperpod-topology-register.service",
]
CONTROLLER_UNITS = sorted(
    [
        *NODE_UNITS,
        "hyperpod-topology-watch.service",
        "multi-user.target.wants/hyperpod-topology-watch.service",
        "slurmctld.service.d/50-hyperpod-topology.conf",
    ]
)
WORKER, LOGIN, CONTROLLER = "worker-p5", "login-group", "controller-machine"


def machine(tmp_path: Path, group: str = WORKER, cluster: SimulatedCluster = CLUSTER, **more: Any) -> BareMachine:
    found = BareMachine(tmp_path / group, cluster.members(group)[0].instance_id, **more)
    found.describe(cluster, cluster.provisioning_parameters())
    return found


def with_settings(bundle: Path, tmp_path: Path, text: str) -> Path:
    unpacked = tmp_path / "with-settings"
    shutil.copytree(bundle, unpacked)
    (unpacked / "hyperpod-topology/hyperpod_topology.json").write_text(text)
    return unpacked
