"""Required and preferred levels, where a real slurmctld decides."""

from __future__ import annotations

import time
from datetime import datetime
from pathlib import Path

import pytest

from tests import states
from tests.slurm.conftest import NewCluster
from tests.slurm.job_cluster import JobCluster, job_cluster
from topology_plugin.jobs import distance, levels

# Two spines with four leaves of four, and two UltraServers.
STATE = states.state(states.inventory(32, 36, 2, per_leaf=4, leaves=4))
TRAIN = distance.of_state(STATE, "train")
ULTRA = distance.of_state(STATE, "ultra")


@pytest.fixture
def cluster(slurmctld: NewCluster, tmp_path: Path) -> JobCluster:
    return job_cluster(slurmctld, tmp_path, STATE)


def domains(nodes: list[str], word: str = "layer-2") -> set[str | None]:
    level = levels.parse(word, TRAIN, "train")
    return {level.domain(TRAIN, node) for node in nodes}


def test_a_required_spine_is_waited_for_beyond_max_switch_wait_and_never_left(
    slurmctld: NewCluster, tmp_path: Path
) -> None:
    quick = "SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1,max_switch_wait=1"
    cluster = job_cluster(slurmctld, tmp_path, STATE, extra=quick)
    blocking = [cluster.fill("train", cluster.nodes("train")[start : start + 12]) for start in (0, 16)]
    # four nodes free under each spine: eight together, but under no one spine
    preferred = cluster.submit("--preferred", "leaf", "--", "-p", "train", "-N2")
    assert len(domains(cluster.slurm.wait_running(preferred))) == 1
    cluster.slurm.cancel(preferred)
    required = cluster.submit("--required", "layer-2", "--", "-p", "train", "-N6")
    free = cluster.submit("--", "-p", "train", "-N6")  # the same without a word starts over both spines
    assert len(domains(cluster.slurm.wait_running(free))) == 2
    cluster.slurm.cancel(free)
    time.sleep(3)  # three times max_switch_wait, with eight nodes idle
    assert cluster.slurm.job(required).state == "PENDING"
    cluster.slurm.cancel(*blocking)
    assert len(domains(cluster.slurm.wait_running(required))) == 1


def test_a_preferred_spine_starts_over_both_after_its_wait(cluster: JobCluster) -> None:
    # one node of each leaf is free: eight leaves, four under each spine
    cluster.fill("train", [node for i, node in enumerate(cluster.nodes("train")) if i % 4])
    job = cluster.submit("--preferred", "layer-2", "--patience", "3", "--", "-p", "train", "-N6")
    assert len(domains(cluster.slurm.wait_running(job))) == 2
    times = cluster.slurm.run("squeue", "-h", "-j", str(job), "-o", "%V %S").stdout.split()
    submitted, started = map(datetime.fromisoformat, times)
    assert (started - submitted).total_seconds() >= 3


@pytest.mark.parametrize("word", ["leaf", "layer-2", "topology.k8s.aws/network-node-layer-3"])
def test_a_required_job_starts_at_once_in_a_domain_that_has_room(cluster: JobCluster, word: str) -> None:
    cluster.fill("train", cluster.nodes("train")[:18])
    job = cluster.submit("--required", word, "--", "-p", "train", "-N4")
    assert len(domains(cluster.slurm.wait_running(job), word)) == 1


def test_a_waiting_job_chooses_again_when_another_domain_gets_room(cluster: JobCluster) -> None:
    first = cluster.fill("train", cluster.nodes("train")[:16])
    second = cluster.fill("train", cluster.nodes("train")[16:30])
    job = cluster.submit("--required", "layer-2", "--", "-p", "train", "-N8", "-x", cluster.nodes("train")[31])
    cluster.slurm.cancel(first)
    time.sleep(2.5)
    assert cluster.slurm.job(job).state == "PENDING"  # fixed to the second spine, which had idle nodes
    told = cluster.command("explain", f"job:{job}").stdout
    assert f"-x leaves it 15 of 32 nodes (all in {TRAIN.paths[cluster.nodes('train')[16]][1]})" in told, told
    assert f"`submit --again {job}` chooses the domain anew" in told
    done = cluster.command("submit", "--again", str(job))
    assert "now waits for" in done.stdout
    assert len(domains(cluster.slurm.wait_running(job))) == 1
    running = cluster.command("submit", "--again", str(job), check=False)
    assert (running.returncode, "only a job that waits" in running.stderr) == (2, True)
    cluster.slurm.cancel(second)


def test_choosing_again_keeps_what_the_user_excluded(cluster: JobCluster) -> None:
    nodes = cluster.nodes("train")
    cluster.fill("train", nodes[:16])
    cluster.fill("train", nodes[16:20])
    job = cluster.submit("--required", "layer-2", "--", "-p", "train", "-N12", "-x", nodes[20])
    cluster.command("submit", "--again", str(job))
    excluded = cluster.slurm.run("squeue", "-h", "-j", str(job), "-O", "ExcNodes:2000").stdout.strip()
    assert nodes[20] in cluster.slurm.expand(excluded)


@pytest.mark.parametrize("size", [4, 18])
def test_an_ultraserver_is_kept_by_slurm_whichever_has_room_first(cluster: JobCluster, size: int) -> None:
    ultra = cluster.nodes("ultra")
    for start in (0, 18):
        cluster.fill("ultra", ultra[start : start + 19 - size])
    job = cluster.submit("--required", "ultraserver", "--", "-p", "ultra", f"-N{size}")
    time.sleep(2.5)
    assert cluster.slurm.job(job).state == "PENDING"
    busy = [int(i) for i in cluster.slurm.run("squeue", "-h", "-t", "CF,R", "-o", "%i").stdout.split()]
    cluster.slurm.cancel(busy[-1])
    assert len({ULTRA.blocks[node] for node in cluster.slurm.wait_running(job)}) == 1


def test_segments_of_a_required_job_stay_in_one_ultraserver(cluster: JobCluster) -> None:
    ultra = cluster.nodes("ultra")
    cluster.fill("ultra", ultra[:10])
    cluster.fill("ultra", ultra[18:28])
    job = cluster.submit("--required", "ultraserver", "--", "-p", "ultra", "-N12", "--segment=4")
    loose = cluster.submit("--", "-p", "ultra", "-N12", "--segment=4")
    assert len({ULTRA.blocks[node] for node in cluster.slurm.wait_running(loose)}) == 2
    assert cluster.slurm.job(job).state == "PENDING"


def test_a_preferred_ultraserver_parts_when_none_has_room_and_does_not_when_one_has(cluster: JobCluster) -> None:
    ultra = cluster.nodes("ultra")
    whole = cluster.submit("--preferred", "ultraserver", "--", "-p", "ultra", "-N16")
    assert len({ULTRA.blocks[node] for node in cluster.slurm.wait_running(whole)}) == 1
    cluster.slurm.cancel(whole)
    cluster.fill("ultra", ultra[:8])
    cluster.fill("ultra", ultra[18:26])
    parted = cluster.submit("--preferred", "ultraserver", "--", "-p", "ultra", "-N16")
    assert len({ULTRA.blocks[node] for node in cluster.slurm.wait_running(parted)}) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(
            ("--required", "rack", "--", "-p", "train", "-N2"), "network-node-layer-3 (leaf", id="unknown level"
        ),
        pytest.param(("--required", "leaf", "--", "-p", "train", "-N5"), "can hold 5 nodes (most: 4)", id="too large"),
        pytest.param(("--required", "leaf", "--", "-p", "nowhere", "-N2"), "there is no 'nowhere'", id="no partition"),
        pytest.param(("--required", "leaf", "--", "-p", "train,dev", "-N2"), "name one", id="two partitions"),
        pytest.param(("--required", "leaf", "--", "-p", "train", "-n4"), "how many nodes", id="no size"),
    ],
)
def test_what_cannot_be_is_said_and_nothing_is_submitted(
    cluster: JobCluster, arguments: tuple[str, ...], words: str
) -> None:
    done = cluster.command("submit", *arguments, "--wrap", "true", check=False)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert cluster.slurm.run("squeue", "-h").stdout == ""


def test_the_user_sees_what_was_passed_and_sbatchs_own_exit_code(cluster: JobCluster) -> None:
    done = cluster.command("submit", "--required", "leaf", "--", "-p", "train", "-N2", "--parsable", "--wrap", "true")
    assert done.stdout.strip().isdigit()
    assert "sbatch -p train -N2 --parsable --wrap true '--exclude=ip-" in done.stderr
    refused = cluster.command("submit", "--", "-p", "train", "-N400", "-t", "nonsense", "--wrap", "true", check=False)
    own = cluster.slurm.run("sbatch", "-p", "train", "-N400", "-t", "nonsense", "--wrap", "true", check=False)
    assert refused.returncode == own.returncode != 0
    assert "Invalid --time specification" in refused.stderr


def test_a_script_through_a_pipe_is_read_and_passed_on(cluster: JobCluster) -> None:
    script = "#!/bin/sh\n#SBATCH -p train -N3\n#SBATCH -o /dev/null\ntrue\n"
    done = cluster.command("submit", "--required", "leaf", "--", "--parsable", stdin=script)
    assert len(domains(cluster.slurm.wait_running(int(done.stdout)), "leaf")) == 1


def test_a_dry_run_submits_nothing(cluster: JobCluster) -> None:
    done = cluster.command("submit", "--required", "leaf", "--dry-run", "--", "-N2", "-p", "train", "--wrap", "true")
    assert "--exclude=" in done.stdout
    assert cluster.slurm.run("squeue", "-h").stdout == ""
