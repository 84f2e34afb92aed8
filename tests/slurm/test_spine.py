"""The main job on a real slurmctld: what it has loaded equals the facts, every node can be used, jobs land close."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clusters import CPU, GB, P5
from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room, shape
from topology_plugin.core.plan import digest
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Blocks, Configuration
from topology_plugin.jobs.simulated_cluster import (
    Machine,
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    machine,
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


def assert_second_pass_does_nothing(here: Room) -> None:
    """Bytes, modification times, and no call of Slurm's that changes something."""

    def files() -> dict[str, tuple[str, int, int]]:
        return {p.name: (digest(p.read_bytes()), p.stat().st_mtime_ns, p.stat().st_ino) for p in (here.conf, here.yaml)}

    before, restarts = files(), here.ctld.log.count("Running as primary controller")
    outcome = here.merge()
    assert outcome.state.last.result == "unchanged"
    assert not outcome.plan
    assert not outcome.state.drift
    assert files() == before
    assert here.ctld.log.count("Running as primary controller") == restarts


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


# --- jobs land close -------------------------------------------------------------------------------------------------


def test_an_8_node_job_lies_on_one_leaf_of_8(room: NewRoom) -> None:
    here = room()
    here.boot(cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 64, seed=3)))
    here.merge()
    nodes = here.runs_on("-p", "train", "-N8")
    assert [set(nodes) <= set(leaf) for leaf in here.leaves("tree").values()].count(True) == 1


def test_an_18_node_job_lies_on_one_ultraserver(room: NewRoom) -> None:
    here = room()
    here.boot(cluster(GB).with_machines(in_ultraservers("worker-gb", [18, 18])))
    here.merge()
    nodes = here.runs_on("-p", "gb", "-N18")
    assert sorted(nodes) in [sorted(block) for block in here.leaves("block").values()]


def test_srun_over_real_slurmds_lands_on_one_leaf(slurm_bin: Path, tmp_path: Path) -> None:
    """Four slurmds on this machine, two leaves of two, in an order in which names say nothing of places."""
    names = [f"real-{n}" for n in range(1, 5)]
    here = Room(tmp_path / "room", slurm_bin)
    places = {"real-1": "nn-leafa", "real-3": "nn-leafa", "real-2": "nn-leafb", "real-4": "nn-leafb"}
    machines = [
        machine("worker-p5", "ml.p5.48xlarge", n, f"10.1.1.{n}", Position(("nn-top", "nn-mid", places[f"real-{n}"])))
        for n in range(1, 5)
    ]
    simulated = cluster(P5).with_machines(machines)
    here.write(simulated)
    with here.ctld:
        document = simulated.resource_config()
        for entry in document["InstanceGroups"][-1]["Instances"]:
            entry["InstanceName"] = entry["InstanceName"].replace("worker-p5", "real")
        (here.controller / "opt/ml/config/resource_config.json").write_text(json.dumps(document))
        here.ctld.write_conf(here.ctld.real_nodes(names), "PartitionName=train Nodes=ALL Default=YES MaxTime=INFINITE")
        here.ctld.start()
        here.ctld.start_slurmds(names)
        here.merge()
        assert here.in_force().words == {"train": "tree"}
        ran = here.ctld.run("srun", "-N2", "-n2", "sh", "-c", "echo $SLURMD_NODENAME").stdout.split()
        assert len({places[name] for name in ran}) == 1
        assert len(set(ran)) == 2


# --- levels ----------------------------------------------------------------------------------------------------------


def test_p5_and_p6_in_one_partition_are_levelled_and_no_job_range_crashes_slurmctld(room: NewRoom) -> None:
    p6 = SimulatedGroup("worker-p6", "ml.p6-b200.48xlarge", ("train",))
    machines = [
        *in_tree("worker-p5", "ml.p5.48xlarge", 16),
        *in_tree("worker-p6", "ml.p6-b200.48xlarge", 16, layers=4, subnet="10.4", fabric="b"),
    ]
    here = room()
    here.boot(cluster(P5, p6).with_machines(machines))
    here.merge()
    job = here.ctld.submit("-p", "train", "-N20")
    here.ctld.wait_running(job)
    ranged = here.ctld.submit("-p", "train", "-N2-40")
    assert len(here.ctld.wait_running(ranged)) >= 2
    assert here.ctld.alive()


def test_the_same_network_unlevelled_is_the_trap(room: NewRoom) -> None:
    """Leaves at different depths under one root: any user's job range ends slurmctld (SIGSEGV on 25.11 and 26.05.5)."""
    here = room()
    here.boot(cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16)))
    here.merge()
    names = sorted(here.in_force().topologies[0].body.nodes())
    here.ctld.write_topology(
        "- topology: tree\n  cluster_default: true\n  tree:\n    switches:\n"
        f"      - switch: a\n        nodes: {','.join(names[:8])}\n"
        f"      - switch: b\n        nodes: {','.join(names[8:])}\n"
        "      - switch: c\n        children: b\n      - switch: root\n        children: a,c\n"
    )
    assert here.ctld.reconfigure()
    first = here.ctld.submit("-p", "dev", "-N10")
    here.ctld.wait_running(first)
    here.ctld.run("sbatch", "--parsable", "-p", "dev", "-N2-40", "--wrap", "true", check=False)
    deadline = 50
    while here.ctld.alive() and deadline:
        deadline -= 1
        os.sched_yield()
        here.ctld.run("scontrol", "ping", check=False)
    if here.ctld.alive():
        pytest.skip("this Slurm has mended it: uneven leaf depths did not end slurmctld")


# --- scale, replacement, states --------------------------------------------------------------------------------------


def grown(simulated: SimulatedCluster, machines: Iterable[Machine]) -> SimulatedCluster:
    return simulated.with_machines(machines)


def test_a_cluster_that_changes_keeps_running_jobs_and_small_changes_small(room: NewRoom) -> None:
    """Scale up, down, replacement on the same and on another leaf and under a new name; a job runs through it all."""
    start = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))
    here = room()
    here.boot(start)
    here.merge()
    nodes = [m.name for m in start.members("worker-p5")]
    running = here.ctld.submit("-p", "train", "-w", nodes[0])
    here.ctld.wait_running(running)

    more = grown(start, in_tree("worker-p5", "ml.p5.48xlarge", 8, first=17))
    lines = changed_lines(here, more)
    assert "nn-la2" in here.leaves("tree")
    assert len(lines) <= 8, lines

    fewer = more.without(nodes[8:11])
    lines = changed_lines(here, fewer)
    assert set(nodes[8:11]).isdisjoint(set(here.in_force().topologies[0].body.nodes()))
    assert len(lines) <= 2, lines

    same = fewer.with_changed(nodes[1], instance_id="i-0fff0000000000001")
    assert changed_lines(here, same) == set()

    label = Position(("nn-1a0", "nn-sa0", "nn-la2"))
    moved = same.with_changed(nodes[2], instance_id="i-0fff0000000000002", label=label)
    lines = changed_lines(here, moved)
    assert nodes[2] in here.leaves("tree")["nn-la2"]
    assert len(lines) <= 4, lines

    victim = moved.node(nodes[3])
    renamed = moved.without([victim.name]).with_machines(
        [replace(victim, address="10.1.9.9", instance_id="i-0fff0000000000003")]
    )
    changed_lines(here, renamed)
    assert "ip-10-1-9-9" in here.leaves("tree")["nn-la0"]
    assert victim.name not in here.leaves("tree")["nn-la0"]
    assert here.ctld.job(running).nodes == (nodes[0],)


def changed_lines(here: Room, simulated: SimulatedCluster) -> set[str]:
    """The cluster becomes this one; the lines of topology.yaml that a pass then changes."""
    before = here.yaml.read_text().splitlines()
    here.change(simulated)
    here.merge()
    after = here.yaml.read_text().splitlines()
    assert_second_pass_does_nothing(here)
    return set(before) ^ set(after)


def test_drained_down_and_powered_down_nodes_stay_members(room: NewRoom) -> None:
    start = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))
    here = room()
    here.boot(start)
    here.merge()
    before = here.yaml.read_bytes()
    names = [m.name for m in start.members("worker-p5")]
    here.ctld.scontrol("update", f"NodeName={names[0]}", "State=DRAIN", "Reason=test")
    here.ctld.scontrol("update", f"NodeName={names[1]}", "State=DOWN", "Reason=test")
    here.ctld.scontrol("update", f"NodeName={names[2]}", "State=POWER_DOWN")
    assert here.merge().state.last.result == "unchanged"
    assert here.yaml.read_bytes() == before
    here.ctld.scontrol("update", f"NodeName={names[0]}", "State=RESUME")
    assert here.runs_on("-p", "train", "-w", names[0]) == [names[0]]


def test_the_whole_way_by_real_processes(room: NewRoom) -> None:
    """Register through the hook, merge by the command, twice; records fill in what the controller's copy lacks."""
    simulated = mixed(p5=8, ultraservers=(3,), cpu=1)
    unlabelled = replace(simulated, machines=tuple(replace(m, label=None) for m in simulated.machines))
    here = room()
    here.boot(unlabelled)
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
