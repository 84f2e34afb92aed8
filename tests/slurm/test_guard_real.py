"""guard as a process of its own, then a real slurmctld: what would not start starts and takes jobs; the rest stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.app.guarding import stand
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.adapters.last_words import SlurmctldDied
from topology_plugin.adapters.private_slurmctld import CommandFailed

NODES = "NodeName=n[1-8] State=CLOUD CPUs=1"
PARTITIONS = "PartitionName=all Nodes=ALL Default=YES{all}\nPartitionName=half Nodes=n[1-4]{half}"
GOOD = """- topology: flat
  cluster_default: true
  flat: true
- topology: tree
  cluster_default: false
  tree:
    switches:
    - switch: a
      nodes: n[1-4]
    - switch: b
      nodes: n[5-8]
    - switch: root
      children: a,b
"""
TREE_CONF = "SwitchName=a Nodes=n[1-4]\nSwitchName=b Nodes=n[5-8]\nSwitchName=root Switches=a,b\n"
BLOCK_CONF = "BlockName=a Nodes=n[1-4]\nBlockName=b Nodes=n[5-8]\nBlockSizes=4\n"


def guard(cluster: Cluster, *more: str) -> tuple[float, str]:
    """(seconds, what it said); asserts that it exits 0."""
    command = [sys.executable, "-m", "topology_plugin", "--state-dir", str(cluster.directory / "var"), *more, "guard"]
    begin = time.monotonic()
    done = subprocess.run(command, env=cluster.env, capture_output=True, text=True, timeout=40, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "" and "Traceback" not in done.stderr
    return time.monotonic() - begin, done.stderr


def words(all_: str = "", half: str = "") -> str:
    return PARTITIONS.format(all=all_ and f" Topology={all_}", half=half and f" Topology={half}")


def dies(cluster: Cluster) -> bool:
    """It does not start; with a missing topology.conf it waits for a minute first (run)."""
    try:
        cluster.start(timeout=5)
    except (SlurmctldDied, TimeoutError):
        return True
    cluster.stop()
    return False


def takes_jobs(cluster: Cluster) -> bool:
    try:
        job = cluster.submit("-N2")
    except CommandFailed:
        return False
    return len(cluster.wait_running(job)) == 2


MODERN = [
    pytest.param(words(half="tree"), "[]\n", "", id="br-15a-empty-list-and-a-word"),
    pytest.param(words(half="tree"), GOOD[:-40] + "[", "", id="truncated"),
    pytest.param(words(half="tree"), GOOD[: GOOD.index("tree:")], "", id="truncated-between-two-lines"),
    pytest.param(words(half="nothing"), GOOD, "", id="a-word-that-names-nothing"),
    pytest.param(words("tree", "tree"), None, "", id="words-without-topology-yaml"),
    pytest.param(words(), None, "TopologyPlugin=topology/tree", id="plugin-without-topology-conf"),
    pytest.param(words(half="tree"), "", "", id="empty-file"),
]


@pytest.mark.parametrize(("partitions", "topology", "extra"), MODERN)
def test_br_15_what_kills_26_05_starts_and_takes_jobs_after_guard(
    slurmctld: NewCluster, partitions: str, topology: str | None, extra: str
) -> None:
    cluster = slurmctld(NODES, partitions, topology=topology, extra=extra, start=False)
    assert dies(cluster)
    seconds, said = guard(cluster)
    assert seconds < 20 and "mended with topology.yaml with flat alone" in said
    cluster.start()
    assert takes_jobs(cluster)
    assert set(cluster.partitions().values()) == {None}
    assert guard(cluster)[1] == "", "and then there is nothing to say"


@pytest.mark.parametrize("what", ["directory", "pipe", "device", "link to itself"])
def test_a_topology_yaml_that_is_no_file_is_moved_aside(slurmctld: NewCluster, what: str) -> None:
    """With it slurmctld dies or, before a pipe, waits for ever."""
    cluster = slurmctld(NODES, words(), start=False)
    stand(cluster.conf.parent / "topology.yaml", what)
    with pytest.raises(TimeoutError if what == "pipe" else SlurmctldDied):
        cluster.start(timeout=2)
    cluster.stop()
    seconds, said = guard(cluster)
    assert seconds < 5 and "topology.yaml, which is no file, becomes topology.yaml.not-a-file-1" in said
    cluster.start()
    assert takes_jobs(cluster)
    assert guard(cluster)[1] == ""


def test_on_24_11_slurmctld_takes_no_jobs_with_a_topology_conf_that_is_no_file(
    slurmctld: NewCluster, slurm_bin_24: Path
) -> None:
    cluster = slurmctld(NODES, words(), extra="TopologyPlugin=topology/tree", slurm_bin=slurm_bin_24, start=False)
    stand(cluster.conf.parent / "topology.conf", "directory")
    cluster.start()
    assert not takes_jobs(cluster)
    cluster.stop()
    assert "topology.conf, which is no file, becomes topology.conf.not-a-file-1" in guard(cluster)[1]
    cluster.start()
    assert takes_jobs(cluster)


CLASSIC = [
    pytest.param(words(), None, "TopologyPlugin=topology/tree", True, id="br-15b-plugin-without-topology-conf"),
    pytest.param(words(half="tree"), None, "", True, id="a-topology-word"),
    pytest.param(words("tree", "tree"), TREE_CONF, "TopologyPlugin=topology/tree", True, id="a-word-and-a-good-tree"),
    pytest.param(words(), BLOCK_CONF, "TopologyPlugin=topology/tree", True, id="tree-with-blocks"),
    pytest.param(words(), TREE_CONF, "TopologyPlugin=topology/block", True, id="block-with-switches"),
    pytest.param(words(), "", "TopologyPlugin=topology/tree", False, id="empty-topology-conf"),
    pytest.param(words(), "# nothing\n", "TopologyPlugin=topology/tree", False, id="nothing-but-a-comment"),
]


@pytest.mark.parametrize(("partitions", "conf", "extra", "deadly"), CLASSIC)
def test_br_15_what_24_11_dies_of_or_takes_no_jobs_with_works_after_guard(
    slurmctld: NewCluster, slurm_bin_24: Path, partitions: str, conf: str | None, extra: str, deadly: bool
) -> None:
    cluster = slurmctld(NODES, partitions, extra=extra, slurm_bin=slurm_bin_24, start=False)
    if conf is not None:
        cluster.write_topology(conf, "topology.conf")
    if deadly:
        assert dies(cluster)
    elif not dies(cluster):
        cluster.start()
        assert not takes_jobs(cluster)
        cluster.stop()
    seconds, said = guard(cluster)
    assert seconds < 20 and "mended with flat" in said
    assert "Topology=" not in cluster.conf.read_text()
    assert not (cluster.conf.parent / "topology.yaml").exists(), "br-16: nothing that would take over after an upgrade"
    cluster.start()
    assert takes_jobs(cluster)
    assert guard(cluster)[1] == ""


@pytest.mark.parametrize(
    ("release", "partitions", "name", "text", "extra"),
    [
        pytest.param("26.05", words(half="tree"), "topology.yaml", GOOD, "", id="26.05-tree"),
        pytest.param("26.05", words(), "topology.yaml", GOOD.replace("\n", "\r\n"), "", id="26.05-hand-written-crlf"),
        pytest.param("26.05", words(), "topology.conf", TREE_CONF, "TopologyPlugin=topology/tree", id="26.05-conf"),
        pytest.param("26.05", words(), "other", "", "", id="26.05-nothing"),
        pytest.param("24.11", words(), "topology.conf", TREE_CONF, "TopologyPlugin=topology/tree", id="24.11-tree"),
        pytest.param("24.11", words(), "topology.conf", BLOCK_CONF, "TopologyPlugin=topology/block", id="24.11-block"),
        pytest.param("24.11", words(), "other", "", "TopologyPlugin=topology/default", id="24.11-default"),
    ],
)  # fmt: skip
def test_what_starts_stays_byte_for_byte(
    slurmctld: NewCluster,
    request: pytest.FixtureRequest,
    release: str,
    partitions: str,
    name: str,
    text: str,
    extra: str,
) -> None:
    bin_dir = request.getfixturevalue("slurm_bin_24") if release == "24.11" else None
    cluster = slurmctld(NODES, partitions, extra=extra, slurm_bin=bin_dir, start=False)
    (cluster.conf.parent / name).write_bytes(text.encode())
    before = {p: (p.stat().st_ino, p.stat().st_mtime_ns, p.read_bytes()) for p in cluster.conf.parent.iterdir()}
    assert guard(cluster)[1] == ""
    assert {p: (p.stat().st_ino, p.stat().st_mtime_ns, p.read_bytes()) for p in cluster.conf.parent.iterdir()} == before
    cluster.start()
    assert takes_jobs(cluster)


def test_a_shared_file_system_that_hangs_costs_the_time_limit_and_no_more(slurmctld: NewCluster) -> None:
    """An Include on a file system that does not answer: here a pipe that nobody writes to."""
    cluster = slurmctld(NODES, words(), start=False)
    os.mkfifo(cluster.directory / "hung.conf")
    cluster.conf.write_text(cluster.conf.read_text() + f"Include {cluster.directory}/hung.conf\n")
    seconds, said = guard(cluster)
    assert 14 < seconds < 20
    assert "gave up after 15 s" in said


def test_a_registry_that_hangs_or_is_missing_costs_nothing(slurmctld: NewCluster) -> None:
    cluster = slurmctld(NODES, words(half="tree"), topology="[]\n", start=False)
    os.mkfifo(cluster.directory / "registry")
    seconds, said = guard(cluster, "--registry", str(cluster.directory / "registry" / "generations"))
    assert seconds < 10 and "mended" in said
    cluster.start()


@pytest.mark.parametrize("mode", ["off", "observe"])
def test_mode_off_changes_nothing_and_observe_mends(slurmctld: NewCluster, mode: str) -> None:
    cluster = slurmctld(NODES, words(half="tree"), topology="[]\n", start=False)
    before = cluster.conf.read_bytes()
    guard(cluster, "--mode", mode)
    assert (cluster.conf.read_bytes() == before) is (mode == "off")


@pytest.mark.parametrize("conf", [None, b"\x00\xff\xfe", b"NodeName=n[1-\nPartitionName"], ids=["gone", "bytes", "cut"])
def test_a_slurm_conf_that_is_gone_or_broken_is_left_alone(slurmctld: NewCluster, conf: bytes | None) -> None:
    cluster = slurmctld(NODES, words(), start=False)
    cluster.conf.unlink()
    if conf is not None:
        cluster.conf.write_bytes(conf)
    guard(cluster)
    assert (cluster.conf.read_bytes() if cluster.conf.exists() else None) == conf
