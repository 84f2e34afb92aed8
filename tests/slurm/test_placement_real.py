"""What the job commands say, against what a real slurmctld does."""

from __future__ import annotations

import json
import random
import re
import time
from datetime import datetime
from pathlib import Path

import pytest

from tests import states
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from tests.slurm.job_cluster import JobCluster, job_cluster
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.core.topology_yaml import render
from topology_plugin.jobs import distance, ranks
from topology_plugin.jobs.segments import divisors, fits

STATE = states.state(states.inventory(32, 36, 2, per_leaf=4, leaves=4))
TRAIN = distance.of_state(STATE, "train")
ULTRA = distance.of_state(STATE, "ultra")


@pytest.fixture
def cluster(slurmctld: NewCluster, tmp_path: Path) -> JobCluster:
    return job_cluster(slurmctld, tmp_path, STATE)


SHAPES = {
    "two full": ([18, 18], [18]),
    "short ones": ([18, 12, 6], [18]),
    "nodes missing": ([18, 17, 17], [18]),
    "an unplaced node": ([18, 17, 1], [18]),
    "several unplaced": ([18, 16, 1, 1, 1], [18]),
    "one base size below": ([17, 17, 2], [17]),
    "sixteens": ([17, 17, 2], [16]),
    "halves of full ones": ([18, 18], [9]),
    "half ones": ([9, 9, 8, 9], [9]),
    "two levels": ([4, 4, 4, 4], [4, 8]),
    "two levels, padded": ([18, 0, 18, 18], [18, 36]),
    "single nodes": ([5, 9, 2, 7], [1]),
    "fours": ([5, 9, 2, 7], [4]),
}


@pytest.mark.parametrize("shape", SHAPES)
def test_segments_that_we_offer_are_those_that_slurm_accepts(slurmctld: NewCluster, shape: str) -> None:
    counts, sizes = SHAPES[shape]
    total = sum(counts)
    made, at = [], 1
    for number, count in enumerate(counts):
        made.append(Block(f"us-{number}x", tuple(f"n{i}" for i in range(at, at + count))))
        at += count
    topology = Topology("block", Blocks(tuple(sizes), tuple(made)))
    slurm = slurmctld(
        f"NodeName=n[1-{total}] State=CLOUD CPUs=1",
        "PartitionName=p Nodes=ALL Default=YES State=UP Topology=block",
        topology=render(Configuration((Topology("flat", Flat(), True), topology))),
    )
    wrong = []
    for size in range(1, total + 1):
        segments = list(divisors(size, sizes[0]))
        for segment in {segments[0], segments[len(segments) // 2], segments[-1]}:
            if slurm.accepts(f"-N{size}", f"--segment={segment}") != fits(counts, size, segment):
                wrong.append((size, segment))
    assert wrong == []


def starts_now(slurm: Cluster, *arguments: str) -> bool:
    """By Slurm's own plan for such a job. Its clock has seconds."""
    done = slurm.run("sbatch", "--test-only", "-t", "60", *arguments, "--wrap", "true", check=False)
    match = re.search(r"to start at (\S+)", done.stderr)
    if match is None:
        return False
    return (datetime.fromisoformat(match[1]) - datetime.now()).total_seconds() < 600


@pytest.mark.parametrize(("partition", "units"), [("train", 8), ("ultra", 2)])
def test_advise_knows_what_can_start_now(cluster: JobCluster, partition: str, units: int) -> None:
    chance = random.Random(3)
    nodes = cluster.nodes(partition)
    each = len(nodes) // units
    for unit in range(units):
        busy = chance.sample(nodes[unit * each : (unit + 1) * each], chance.randint(0, each - 1))
        if busy:
            cluster.fill(partition, busy)
    wrong = []
    for size in (1, 2, 3, 4, 5, 8, 9, 12, 16, 18, 19, 20, 27, 36):
        if size > len(nodes):
            continue
        told = json.loads(cluster.command("advise", "-p", partition, "-N", str(size), "-o", "json").stdout)
        if told["startable_now"] != starts_now(cluster.slurm, "-p", partition, f"-N{size}"):
            wrong.append((size, told["startable_now"]))
        for option in told["options"]:
            if option["option"].startswith("--segment=") and option["now"] != starts_now(
                cluster.slurm, "-p", partition, f"-N{size}", option["option"]
            ):
                wrong.append((size, option["option"], option["now"]))
    assert wrong == []


def test_advise_names_refused_sizes_and_the_segment_that_still_works(slurmctld: NewCluster, tmp_path: Path) -> None:
    seen = states.inventory(0, 35, 0)  # an UltraServer lacks a node
    cluster = job_cluster(slurmctld, tmp_path, states.state(seen))
    told = json.loads(cluster.command("advise", "-p", "ultra", "-N", "36", "-o", "json").stdout)
    assert (told["refused"], told["next_size"]) == (True, None)
    told = json.loads(cluster.command("advise", "-p", "ultra", "-N", "34", "-o", "json").stdout)
    assert told["options"][0]["option"] == "--segment=17"
    job = cluster.slurm.submit("-p", "ultra", "-N34", "--segment=17")
    assert len(cluster.slurm.wait_running(job)) == 34


def test_placement_shows_running_jobs_and_the_room_that_is_left(cluster: JobCluster) -> None:
    job = cluster.fill("train", [TRAIN.nodes[0], TRAIN.nodes[4], TRAIN.nodes[16]])
    told = json.loads(cluster.command("placement", "-o", "json").stdout)
    (one,) = told["jobs"]
    assert (one["job"], one["leaves"], one["least_leaves"], one["worst_hops"]) == (str(job), 3, 1, 5)
    assert told["room"]["train"]["idle"] == 29
    assert told["room"]["train"]["largest_in_leaf"] == 4
    assert told["room"]["ultra"]["largest_in_block"] == 18
    metrics = cluster.command("placement", "-o", "metrics").stdout
    assert f'hyperpod_topology_job_leaves{{job="{job}",partition="train"}} 3.0' in metrics
    assert "leaves" in cluster.command("placement").stdout


def test_a_job_that_ended_a_moment_ago_can_still_be_asked_for(cluster: JobCluster) -> None:
    job = cluster.fill("train", TRAIN.nodes[:4])
    cluster.slurm.cancel(job)
    told = json.loads(cluster.command("placement", str(job), "-o", "json").stdout)
    assert told["jobs"][0]["nodes"] == 4
    missing = cluster.command("placement", "4711", check=False)
    assert missing.returncode == 2
    assert "squeue does not know it" in missing.stderr


def test_a_job_lands_on_one_leaf_under_our_tree(cluster: JobCluster) -> None:
    job = cluster.slurm.submit("-p", "train", "-N4")
    cluster.slurm.wait_running(job)
    told = json.loads(cluster.command("placement", str(job), "-o", "json").stdout)
    assert (told["jobs"][0]["leaves"], told["jobs"][0]["one_leaf_share"]) == (1, 1.0)


def test_without_any_state_slurm_alone_tells_leaves_and_blocks(cluster: JobCluster) -> None:
    missing = cluster.command("placement", "--from", "none.json", check=False)
    assert missing.returncode == 2  # a file that was named must be there
    job = cluster.slurm.submit("-p", "train", "-N5")
    cluster.slurm.wait_running(job)
    done = cluster.command("placement", str(job), "-o", "json", state=False)
    assert json.loads(done.stdout)["jobs"][0]["leaves"] == 2
    assert "layers have no numbers" in done.stderr
    line = ("--", "-p", "train", "-N2", "--wrap", "true")
    assert "--exclude=" in cluster.command("submit", "--required", "leaf", "--dry-run", *line, state=False).stdout
    refused = cluster.command("submit", "--required", "layer-2", *line, state=False, check=False)
    assert (refused.returncode, "leaf" in refused.stderr) == (2, True)
    assert "one UltraServer" in cluster.command("advise", "-p", "ultra", "-N", "9", state=False).stdout


@pytest.fixture
def real_tree(slurm_bin: Path, tmp_path: Path) -> Cluster:
    return Cluster(tmp_path / "cluster", slurm_bin)


@pytest.mark.parametrize("param", ["", "SwitchAsNodeRank"])
def test_a_hostfile_puts_near_nodes_next_to_each_other_where_slurm_does_not(real_tree: Cluster, param: str) -> None:
    names = [f"real-{number}" for number in range(1, 5)]
    leaves = (Switch("l-a", ("real-1", "real-3")), Switch("l-b", ("real-2", "real-4")))
    tree = Tree((*leaves, Switch("top", (), ("l-a", "l-b"))))
    topology = Topology("tree", tree, True)
    with real_tree as slurm:
        slurm.write_conf(
            slurm.real_nodes(names),
            "PartitionName=real Nodes=ALL Default=YES MaxTime=INFINITE Topology=tree",
            extra=f"TopologyParam={param}" if param else "",
        )
        slurm.write_topology(render(Configuration((topology,))))
        slurm.start()
        slurm.start_slurmds(names)
        network = distance.of_topology(topology)
        hosts = slurm.directory / "hosts"
        hosts.write_text(ranks.hostfile(ranks.order(names, network), "slurm", 1))
        assert hosts.read_text().split() == ["real-1", "real-3", "real-2", "real-4"]
        said = "srun -n4 -l printenv SLURMD_NODENAME | sort | cut -d' ' -f2 | xargs"
        plain = output(slurm, said)
        assert plain == (hosts.read_text().split() if param else names)
        assert output(slurm, f"export SLURM_HOSTFILE={hosts}; {said}") == hosts.read_text().split()
        refused = output(
            slurm, f"export SLURM_HOSTFILE={hosts}; srun -N4 -m arbitrary true 2>&1; srun -n8 -O true 2>&1"
        )
        assert "incompatible" in " ".join(refused)
        assert "Too few NodeNames" in " ".join(refused)


def output(slurm: Cluster, script: str) -> list[str]:
    path = slurm.directory / f"out-{time.monotonic_ns()}"
    slurm.run("sbatch", "-W", "-N4", "-n4", "-o", str(path), "--wrap", f"bash -c {json.dumps(script)}", check=False)
    return path.read_text().split()
