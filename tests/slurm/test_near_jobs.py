"""Jobs on a real slurmctld land close, on trees that are level."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.clusters import GB, P5
from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room
from topology_plugin.core.position import Position
from topology_plugin.jobs.simulated_cluster import (
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    machine,
)


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
    deadline = time.monotonic() + 30  # it takes the next round of the scheduler
    while here.ctld.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    if here.ctld.alive():
        pytest.skip("this Slurm has mended it: uneven leaf depths did not end slurmctld")
