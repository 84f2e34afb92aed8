"""Fixtures with a real Slurm. Each test gets its own slurmctld, ports, state and configuration.

    def test_…(slurmctld):                       # 26.05 (or the Slurm in SLURM_PREFIX)
        cluster = slurmctld(nodes=…, partitions=…, topology=…)   # any number of them; see Cluster
    def test_…(slurmctld, slurm_bin_24):         # 24.11
        cluster = slurmctld(slurm_bin=slurm_bin_24)
    def test_…(real_cluster):                    # four real slurmds

Where no Slurm can be had these tests are skipped and say why; with REQUIRE_SLURM=1 they fail.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.room import Room
from topology_plugin.adapters.loopback_conf import QUICK

HERE = Path(__file__).parent
NODES = "NodeName=n[1-2000] State=CLOUD CPUs=8"
PARTITIONS = "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE"


class NewCluster(Protocol):
    def __call__(
        self,
        nodes: str = NODES,
        partitions: str = PARTITIONS,
        *,
        topology: str | None = None,
        extra: str = "",
        scheduler: str = QUICK,
        foreground: bool = False,
        slurm_bin: Path | None = None,
        start: bool = True,
    ) -> Cluster: ...


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.slurm)


def provided(release: str) -> Path:
    done = subprocess.run([sys.executable, HERE / "slurm_root.py", release], capture_output=True, text=True)
    if done.returncode == 0:
        return Path(done.stdout.strip())
    reason = f"no real Slurm ({release}): {done.stderr.strip().splitlines()[-1]}"
    if os.environ.get("REQUIRE_SLURM") == "1":
        pytest.fail(reason, pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="session")
def slurm_bin() -> Path:
    """Directory with the executables of the newest Slurm there is: Debian's 26.05, or SLURM_PREFIX."""
    return provided("forky")


@pytest.fixture(scope="session")
def slurm_bin_24() -> Path:
    """Directory with the executables of Slurm 24.11."""
    return provided("trixie")


@pytest.fixture
def slurmctld(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewCluster]:
    """Makes clusters: CLOUD nodes (jobs get them and stay CONFIGURING), running unless start=False."""
    made: list[Cluster] = []

    def new(
        nodes: str = NODES,
        partitions: str = PARTITIONS,
        *,
        topology: str | None = None,
        extra: str = "",
        scheduler: str = QUICK,
        foreground: bool = False,
        slurm_bin: Path | None = None,
        start: bool = True,
    ) -> Cluster:
        chosen = slurm_bin or request.getfixturevalue("slurm_bin")
        cluster = Cluster(tmp_path / f"cluster-{len(made) + 1}", chosen, foreground=foreground)
        made.append(cluster)
        cluster.write_conf(nodes, partitions, extra=extra, scheduler=scheduler)
        if topology is not None:
            cluster.write_topology(topology)
        if start:
            cluster.start()
        return cluster

    try:
        yield new
    finally:
        for cluster in made:
            cluster.stop()


@pytest.fixture
def real_cluster(slurm_bin: Path, tmp_path: Path) -> Iterator[Cluster]:
    """Partition `real` with real-1 … real-4: four slurmds on this machine, where srun runs real processes."""
    with Cluster(tmp_path / "cluster", slurm_bin) as cluster:
        names = [f"real-{number}" for number in range(1, 5)]
        cluster.write_conf(cluster.real_nodes(names), "PartitionName=real Nodes=ALL Default=YES MaxTime=INFINITE")
        cluster.start()
        cluster.start_slurmds(names)
        yield cluster


class NewRoom(Protocol):
    def __call__(self, *, extra: str = "", slurm_bin: Path | None = None) -> Room: ...


@pytest.fixture
def room(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[NewRoom]:
    """Makes machine rooms: a simulated cluster's files and root directories around a real slurmctld (see Room)."""
    made: list[Room] = []

    def new(*, extra: str = "", slurm_bin: Path | None = None) -> Room:
        chosen = slurm_bin or request.getfixturevalue("slurm_bin")
        made.append(Room(tmp_path / f"room-{len(made) + 1}", chosen, extra=extra))
        return made[-1]

    try:
        yield new
    finally:
        for one in made:
            one.ctld.stop()
