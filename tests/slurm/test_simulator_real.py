"""Traces on a real slurmctld: every job ends, places are Slurm's, and a lost node is survived."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topology_plugin.jobs.contest import contest
from topology_plugin.jobs.outcome import Outcome
from topology_plugin.jobs.play import Play
from topology_plugin.jobs.policies import place_of, policies
from topology_plugin.jobs.traces import Mix, TraceJob, synthetic


def trace(count: int, sizes: tuple[int, ...], seed: int, every: float = 60.0) -> list[TraceJob]:
    chance = random.Random(seed)
    return [TraceJob(i * every, chance.choice(sizes), chance.uniform(300, 1500), 3000) for i in range(count)]


def played(
    slurm_bin: Path, cluster: str, names: tuple[str, ...], jobs: list[TraceJob], **how: float
) -> dict[str, Outcome]:
    found = contest(place_of(cluster, seed=3), policies(names), jobs, Play(**how), slurm_bin)  # type: ignore[arg-type]
    return {one.policy: one for one in found}


def test_every_job_ends_and_ours_is_near_where_flat_is_far(slurm_bin: Path) -> None:
    found = played(slurm_bin, "p5:64x8", ("flat", "ours"), trace(30, (1, 2, 4, 8), 1), occupancy=0.75)
    for one in found.values():
        assert (one.started, one.refused, one.held, one.waiting) == (30, 0, 0, 0)
    ours, flat = found["ours"], found["flat"]
    assert ours.then is not None and flat.then is not None
    assert ours.near.leaf_ratio is not None and flat.near.leaf_ratio is not None
    assert ours.near.leaf_ratio <= 1.15
    assert flat.near.leaf_ratio >= 2
    assert 0.5 < ours.occupancy <= 1


def test_waiting_for_few_leaves_costs_time_and_saves_leaves(slurm_bin: Path) -> None:
    # leaves of four, jobs of four, every leaf broken by a single node that runs long
    jobs = [TraceJob(0, 4, 1000 + 200 * i, 9000) for i in range(3)] + [TraceJob(1, 3, 20_000, 40_000)]
    jobs += [TraceJob(2, 4, 100, 200)]
    found = played(slurm_bin, "p5:16x4", ("ours", "ours+60"), jobs)
    patient, plain = found["ours+60"], found["ours"]
    assert (patient.started, plain.started) == (5, 5)
    assert patient.near.leaf_ratio == 1.0
    assert patient.mean_wait >= plain.mean_wait


def test_lost_nodes_are_replaced_elsewhere_and_the_topology_follows(slurm_bin: Path) -> None:
    jobs = trace(16, (2, 4), 5, every=2000.0)
    found = played(slurm_bin, "p5:32x4", ("flat", "ours"), jobs, losses=800.0, same_place=0.0, seed=2)
    assert found["ours"].lost_nodes == found["flat"].lost_nodes > 0
    assert found["ours"].reloads > 0
    assert found["flat"].reloads == 0
    for one in found.values():
        assert (one.started, one.held, one.waiting) == (16, 0, 0)


def test_sizes_that_a_block_topology_refuses_are_counted(slurm_bin: Path) -> None:
    jobs = [TraceJob(0, 35, 100, 200), TraceJob(10, 34, 100, 200)]
    found = played(slurm_bin, "gb200:35x18", ("block-18", "block-17", "flat"), jobs)
    assert {name: one.refused for name, one in found.items()} == {"block-18": 0, "block-17": 0, "flat": 0}
    broken = played(slurm_bin, "gb200:36x17", ("block-18", "block-17", "flat"), jobs)
    assert [broken[name].refused for name in ("block-18", "block-17", "flat")] == [1, 0, 0]
    assert broken["block-18"].never[0][0] == 35


def test_the_command_plays_a_trace_from_a_file_and_leaves_nothing_behind(slurm_bin: Path, tmp_path: Path) -> None:
    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        line = [sys.executable, "-m", "topology_plugin", "simulate", "--slurm-bin", str(slurm_bin), *arguments]
        return subprocess.run(line, capture_output=True, text=True, timeout=120, cwd=tmp_path, check=False)

    written = run("--synthetic", "kalos", "--jobs", "6", "--cluster", "p5:32x8", "--write", "trace.jsonl")
    assert written.returncode == 0, written.stderr
    assert len((tmp_path / "trace.jsonl").read_text().splitlines()) == 6
    done = run("trace.jsonl", "--cluster", "p5:32x8", "--policy", "ours", "-o", "json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["outcomes"][0]["started"] == 6
    table = run("trace.jsonl", "--cluster", "p5:32x8", "--policy", "ours")
    assert table.stdout.splitlines()[1].startswith("ours")
    wrong = run("nothing.jsonl")
    assert (wrong.returncode, "cannot be read" in wrong.stderr) == (2, True)


def test_a_simulation_that_is_stopped_leaves_nothing_behind(slurm_bin: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "topology_plugin", "simulate", "--synthetic", "kalos", "--slurm-bin", str(slurm_bin)]
    run = subprocess.Popen(line, env={**os.environ, "TMPDIR": str(tmp_path)}, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not list(tmp_path.glob("*/policy-0/slurmctld.log")) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert list(tmp_path.iterdir())
    run.terminate()
    run.communicate(timeout=30)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("arguments", [("--policy", "best"), ("--cluster", "h100:8"), ("--synthetic", "mine")])
def test_what_the_command_does_not_know_is_said_with_what_it_does(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    line = [sys.executable, "-m", "topology_plugin", "simulate", "--synthetic", "kalos", *arguments]
    done = subprocess.run(line, capture_output=True, text=True, timeout=60, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_on_256_p5_most_of_flats_distance_goes_and_slurms_choice_is_nearly_the_best_of_the_moment(
    slurm_bin: Path,
) -> None:
    """The whole table is `make bench-placement`'s; docs/placement.md has it with what it says."""
    jobs = list(synthetic(Mix.published("helios", 64), 100, 256, 0.9, seed=7))
    found = played(slurm_bin, "p5:256x16", ("flat", "ours"), jobs, occupancy=0.85)
    flat, ours = found["flat"], found["ours"]
    assert flat.near.leaf_ratio is not None and ours.near.leaf_ratio is not None and ours.then is not None
    assert ours.near.leaf_ratio <= 1.10
    assert flat.near.leaf_ratio >= 2.5 * ours.near.leaf_ratio
    assert ours.then <= 1.03
