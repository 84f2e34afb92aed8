"""The main job on a real slurmctld: what it has loaded equals the facts, and every node can be used."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.clusters import CPU, GB, P5, unlabelled
from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room, assert_second_pass_does_nothing, shape
from topology_plugin.core.topology import Blocks, Configuration
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    mixed,
    without_network_data,
)

p5 = in_tree("worker-p5", "ml.p5.48xlarge", 16, seed=7)
gb = in_ultraservers("worker-gb", [4, 4])
cpu = without_network_data("worker-cpu", "ml.c5.9xlarge", 3)
ROWS = [
    pytest.param(cluster(P5).with_machines(p5), "tree", {"dev": "tree", "train": "tree"}, id="only-p5"),
    pytest.param(cluster(GB).with_machines(gb), "block", {"dev": "block", "gb": "block"}, id="only-ultraservers"),
    pytest.param(cluster(CPU).with_machines(cpu), "flat", {"dev": None, "cpu": None}, id="only-cpu"),
    pytest.param(
        cluster(P5, GB).with_machines([*p5, *gb]), "tree", {"dev": "tree", "train": "tree", "gb": "block"}, id="p5-and-gb200"
    ),
    pytest.param(cluster(P5, CPU).with_machines([*p5, *cpu]), "flat", {"dev": None, "train": "tree", "cpu": None}, id="p5-and-cpu"),
    pytest.param(
        cluster(P5, GB, CPU).with_machines([*p5, *gb, *cpu]),
        "flat",
        {"dev": None, "train": "tree", "gb": "block", "cpu": None},
        id="all-three",
    ),
    pytest.param(
        cluster(replace(P5, partitions=("train", "ml.p5.48xlarge")), SimulatedGroup("worker-x", "ml.p5.48xlarge", ("spare",))).with_machines(p5),
        "tree",
        {"dev": "tree", "train": "tree", "ml.p5.48xlarge": "tree", "spare": "tree"},
        id="two-partitions-dots-and-one-without-nodes",
    ),
    pytest.param(
        cluster(CPU, SimulatedGroup("worker-x", "ml.p5.48xlarge", ("spare",))).with_machines(cpu),
        "flat",
        {"dev": None, "cpu": None, "spare": None},
        id="no-topology-for-a-partition-without-nodes",
    ),
    pytest.param(
        cluster(P5, SimulatedGroup("loose", "ml.m5.xlarge")).with_machines([*p5, *without_network_data("loose", "ml.m5.xlarge", 2)]),
        "flat",
        {"dev": None, "train": "tree"},
        id="a-group-that-no-partition-names",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("simulated", "default", "words"), ROWS)
def test_kinds_words_and_default_are_in_force_and_every_node_gets_jobs(
    room: NewRoom, simulated: SimulatedCluster, default: str, words: dict[str, str | None]
) -> None:
    here = room()
    here.boot(simulated)
    outcome = here.merge()
    loaded = here.in_force()
    assert loaded.words == words
    assert loaded.default.name == default
    assert shape(loaded) == shape(outcome.state.desired)
    assert_usable(here, loaded)
    assert_second_pass_does_nothing(here)


def assert_usable(here: Room, loaded: Configuration) -> None:
    """One node per leaf and block and every unplaced node runs a real job by -w and, where two can be had, by -N2 -w
    (-N1 -w and --test-only -w would hide a node that is in no leaf); in trees every size is accepted."""
    for partition in here.ctld.partitions():
        topology = loaded.of_partition(partition)
        nodes = partition_nodes(here, partition)
        if topology is None or topology.kind == "flat" or not nodes:
            continue
        units = [
            u
            for u in getattr(topology.body, "switches", getattr(topology.body, "blocks", ()))
            if set(u.nodes) & set(nodes)
        ]
        jobs = []
        for unit in units:
            node = next(n for n in unit.nodes if n in nodes)
            if topology.kind == "tree" or len(unit.nodes) > 1:
                assert node in here.runs_on("-p", partition, "-N2", "-w", node)
            jobs.append((node, here.ctld.submit("-p", partition, "-w", node)))
        for node, job in jobs:
            assert here.ctld.wait_running(job) == [node]
        here.ctld.cancel(*(job for _, job in jobs))
        if topology.kind == "tree":
            refused = [n for n in range(1, len(nodes) + 1) if not here.ctld.accepts("-p", partition, "-N", str(n))]
            assert refused == []


def partition_nodes(here: Room, partition: str) -> list[str]:
    shown = json.loads(here.ctld.scontrol("show", "partitions", partition, "--json").stdout)["partitions"][0]
    listed = shown["nodes"]["configured"]
    if listed == "ALL":
        return [n["name"] for n in json.loads(here.ctld.scontrol("show", "nodes", "--json").stdout)["nodes"]]
    return here.ctld.expand(listed) if listed else []


def test_settings_for_a_partition_and_for_mixed_ones(room: NewRoom) -> None:
    both = cluster(P5, replace(CPU, partitions=("train",)), GB).with_machines([*p5, *cpu, *gb])
    here = room()
    here.boot(both)
    assert here.merge().state.desired.words["train"] is None
    here.merge(mixed_partitions="tree", partitions='{"gb": {"block_sizes": [2, 4]}, "dev": {"kind": "flat"}}')
    loaded = here.in_force()
    assert loaded.words == {"dev": None, "train": "tree", "gb": "block-gb"}
    body = loaded.topology("block-gb")
    assert body is not None
    assert isinstance(body.body, Blocks)
    assert body.body.sizes == (2, 4)
    assert set(here.leaves("tree")) >= {f"unplaced-{m.name}" for m in cpu}


def test_the_whole_way_by_real_processes(room: NewRoom) -> None:
    """Register through the hook, merge by the command, twice; records fill in what the controller's copy lacks."""
    simulated = mixed(p5=8, ultraservers=(3,), cpu=1)
    here = room()
    here.boot(unlabelled(simulated))
    here.register([m for m in simulated.machines if m.label], simulated)
    metrics = here.directory / "metrics" / "topology.prom"
    first = here.on_controller("merge", "--metrics-file", str(metrics))
    assert first.returncode == 0, first.stderr
    assert here.in_force().words == {"dev": None, "train": "tree", "gb200": "block", "cpu": None}
    assert "hyperpod_topology_reconfigures_total 1.0" in metrics.read_text()
    assert here.on_controller("merge", "--dry-run").returncode == 0
    second = here.on_controller("merge")
    assert second.stdout.startswith("nothing to do")


def test_dry_run_says_what_would_happen_and_writes_nothing(room: NewRoom) -> None:
    here = room()
    here.boot(mixed(p5=8, ultraservers=(3,), cpu=1))
    before = here.conf.read_bytes()
    done = here.on_controller("merge", "--dry-run")
    assert done.returncode == 3
    assert "partition train gets Topology=tree" in done.stdout
    assert here.conf.read_bytes() == before
    assert not here.yaml.exists()
    assert not (here.controller / "var").exists()


def test_offline_writes_a_pair_from_which_slurmctld_starts(room: NewRoom) -> None:
    here = room()
    here.write(mixed(p5=8, ultraservers=(3,), cpu=1))
    done = here.on_controller("merge", "--offline")
    assert done.returncode == 0, done.stderr
    here.ctld.start()
    assert here.in_force().words == {"dev": None, "train": "tree", "gb200": "block", "cpu": None}
    assert_second_pass_does_nothing(here)
