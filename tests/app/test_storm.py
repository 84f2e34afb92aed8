"""A thousand nodes register in two minutes, then an hour of heartbeats: few reconfigures, then none; an hour passes in
seconds."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

from tests.app.stage import Stage, labelled
from tests.clusters import P5, inventory_of, record_of, unlabelled
from topology_plugin.core.decision import Memory
from topology_plugin.core.merge import merge
from topology_plugin.core.plan import digest
from topology_plugin.core.settings import layered
from topology_plugin.core.topology_yaml import render
from topology_plugin.jobs.simulated_cluster import SimulatedCluster, cluster, in_tree


def nodes(count: int) -> SimulatedCluster:
    return cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", count, per_leaf=16))


def storm(directory: Path, order: int, count: int, *, heartbeats: int = 1, quiet: float = 650) -> tuple[int, int, str]:
    """`count` nodes register in random order within 120 s, then `quiet` seconds (two looks for drift, if no more) of
    heartbeats (the record rewritten as it is): (reconfigures until settled, reconfigures then, hash of topology.yaml).
    """
    simulated = nodes(count)
    stage = Stage(directory, unlabelled(simulated))
    arrivals = labelled(simulated)
    rng = random.Random(order)
    rng.shuffle(arrivals)
    start = stage.clock.time
    due = sorted(start + rng.uniform(0, 120) for _ in arrivals)
    pending = list(zip(due, arrivals, strict=True))

    def arrive(now: float) -> None:
        while pending and pending[0][0] <= now:
            stage.record(pending.pop(0)[1])

    stage.go(120 + 240, arrive)
    boot = stage.ctld.reconfigures

    def beat(now: float) -> None:
        if int(now) % 30 == 0:
            for machine in arrivals[:heartbeats]:
                assert not stage.record(machine), "same facts: no rewrite"

    assert set(stage.go(quiet, beat)) == {"unchanged"}
    return boot, stage.ctld.reconfigures - boot, stage.hash()


def decided(orders: int, count: int = 1000) -> list[str]:
    """The storm's decisions alone: in each order the nodes register, a pass after some of them (each order has its own
    number) and one after all, the second with the memory of the first; the hash of topology.yaml that comes of it."""
    there = unlabelled(nodes(count))
    records = [record_of(machine) for machine in labelled(nodes(count))]
    hashes = []
    for order in range(orders):
        rng = random.Random(order)
        rng.shuffle(records)
        memory = Memory()
        for heard in (rng.randrange(count), count):
            known = {record.instance_id: record for record in records[:heard]}
            inventory, memory = inventory_of(there, records=known, memory=memory)
            decision = merge(inventory, layered([]), memory)
            memory = decision.memory
        hashes.append(digest(render(decision.configuration).encode()))
    return hashes


def with_hash_seed(seed: str, code: str, *arguments: str) -> str:
    """What this code prints in a process of its own."""
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_br_30_a_storm_of_1000_nodes_takes_at_most_4_reconfigures_and_a_quiet_hour_none(tmp_path: Path) -> None:
    boot, quiet, text = storm(tmp_path, 0, count=1000, heartbeats=10, quiet=3600)
    assert 1 <= boot <= 4
    assert quiet == 0
    assert [text] == decided(1), "what the test of 20 orders compares is what slurmctld reads"


@pytest.mark.parametrize("seed", ["0", "1"])
def test_br_30_1000_nodes_give_the_same_output_in_20_orders_and_with_each_hash_seed(seed: str) -> None:
    found = with_hash_seed(seed, "from tests.app.test_storm import decided; print(*decided(20))").split()
    assert found == decided(1) * 20


def test_br_30_the_output_of_whole_passes_is_the_same_for_20_orders(tmp_path: Path) -> None:
    hashes = set()
    for order in range(20):
        boot, quiet, text = storm(tmp_path / str(order), order, count=40)
        assert (boot <= 4, quiet) == (True, 0)
        hashes.add(text)
    assert len(hashes) == 1


@pytest.mark.parametrize("seed", ["0", "1"])
def test_br_30_the_output_does_not_depend_on_pythons_hash_seed(tmp_path: Path, seed: str) -> None:
    code = (
        "import sys, pathlib; from tests.app.test_storm import storm;"
        "print(storm(pathlib.Path(sys.argv[1]), 1, count=60)[2])"
    )
    assert with_hash_seed(seed, code, str(tmp_path / "there")) == storm(tmp_path / "here", 1, count=60)[2]


def test_another_set_of_facts_has_another_hash(tmp_path: Path) -> None:
    """The measure itself: were the hash of something that is always the same, the tests above could not fail."""
    assert storm(tmp_path / "a", 0, count=17)[2] != storm(tmp_path / "b", 0, count=18)[2]
