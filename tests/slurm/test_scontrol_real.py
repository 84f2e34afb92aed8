"""What scontrol prints for people and what it says in JSON are the same, on a real slurmctld."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.adapters.one_look import OneLook

NODES = (
    "NodeName=n[1-6] State=CLOUD CPUs=8 RealMemory=4000 TmpDisk=7 Feature=a,b Weight=3\nNodeName=m1 State=CLOUD CPUs=2"
)
TOPOLOGY = "- topology: flat\n  cluster_default: true\n  flat: true\n- topology: other\n  flat: true\n"


def changed(cluster: Cluster) -> Cluster:
    cluster.scontrol("update", "nodename=n2", "state=drain", "reason=bad  disk State=IDLE [x] y")
    cluster.scontrol("update", "nodename=n3", "state=down", "reason=gone")
    cluster.scontrol("update", "nodename=m1", "comment=InstanceId=i-0bad it is", "extra=Topology=x")
    cluster.wait_running(cluster.submit("-N1", "-n4", "-w", "n4"))
    cluster.wait_running(cluster.submit("-N1", "--exclusive", "-w", "n5"))
    return cluster


def json_nodes(cluster: Cluster) -> dict[str, dict[str, Any]]:
    found = json.loads(cluster.scontrol("show", "nodes", "--json").stdout)["nodes"]
    return {n["name"]: n for n in found}


@pytest.mark.parametrize("release", ["newest", "24.11"])
def test_lines_and_json_tell_the_same_of_every_node(
    request: pytest.FixtureRequest, slurmctld: NewCluster, release: str
) -> None:
    chosen: Path = request.getfixturevalue("slurm_bin" if release == "newest" else "slurm_bin_24")
    cluster = changed(slurmctld(NODES, slurm_bin=chosen))
    expected = json_nodes(cluster)
    found = cluster.slurm.nodes()
    assert found is not None
    assert {n["name"] for n in found} == expected.keys()
    for node in found:
        for key, value in node.items():
            wanted = expected[node["name"]].get(key, value)
            assert (sorted(value) if key == "state" else value) == (sorted(wanted) if key == "state" else wanted)
    assert {n["name"]: n["instance_id"] for n in found} == dict.fromkeys(expected, "")
    reasons = {n["name"]: n["reason"] for n in found if n["reason"]}
    assert reasons == {"n2": "bad  disk State=IDLE [x] y", "n3": "gone"}


def test_one_look_tells_what_single_questions_do_and_asks_anew_after_a_reconfigure(slurmctld: NewCluster) -> None:
    lines = "PartitionName=all Nodes=ALL Default=YES Topology=other\nPartitionName=p Nodes=n[1-3]"
    cluster = changed(slurmctld(NODES, lines, topology=TOPOLOGY))
    single, look = cluster.slurm, OneLook(cluster.slurm)
    nodes, one_by_one = look.nodes(), single.nodes()
    assert nodes is not None
    assert one_by_one is not None
    assert nodes == [{k: n[k] for k in nodes[0]} for n in one_by_one]
    assert look.partitions() == single.partitions() == {"all": "other", "p": None}
    assert (look.topoconf() or "").strip() == (single.topoconf() or "").strip() != ""
    cluster.edit_conf("Topology=other", "Topology=flat")
    assert look.reconfigure().ok
    assert look.partitions() == {"all": "flat", "p": None}


def test_words_that_the_lines_do_not_show_are_asked_of_the_json(slurmctld: NewCluster) -> None:
    cluster = slurmctld(NODES)
    assert OneLook(cluster.slurm).partitions() == {"all": None}


def test_a_slurmctld_that_is_not_there_gives_no_answer(slurmctld: NewCluster) -> None:
    cluster = slurmctld(NODES, start=False)
    look = OneLook(cluster.slurm)
    assert (look.nodes(), look.partitions(), look.topoconf()) == (None, None, None)


def test_dynamic_nodes_are_known_by_their_state(slurmctld: NewCluster) -> None:
    tree = "- topology: t\n  tree:\n    switches:\n    - switch: s1\n      nodes: n[1-6],m1\n"
    cluster = slurmctld(NODES, extra="MaxNodeCount=20", topology=tree)
    cluster.scontrol("create", "NodeName=d1", "CPUs=2", "State=CLOUD", "Feature=f,g", "NodeAddr=10.9.9.9")
    cluster.scontrol("update", "NodeName=d1", "topology=t:s1", "comment=it has Topology=x no more")
    found = next(n for n in OneLook(cluster.slurm).nodes() or () if n["name"] == "d1")
    expected = json_nodes(cluster)["d1"]
    assert "DYNAMIC_NORM" in found["state"]
    assert found["topology"] == "t:s1"
    for key in ("address", "hostname", "features", "topology"):
        assert found[key] == expected[key]


def test_the_version_is_known_without_reading_slurm_conf(slurmctld: NewCluster) -> None:
    cluster = slurmctld(NODES, start=False)
    cluster.conf.write_text("this is no slurm.conf\n")
    assert cluster.slurm.version() is not None


def test_a_session_is_one_process(slurmctld: NewCluster) -> None:
    class Counted:
        def __init__(self) -> None:
            self.asked: list[str] = []

        def __getattr__(self, name: str) -> Any:
            self.asked.append(name)
            return getattr(cluster.slurm, name)

    cluster = slurmctld(NODES, "PartitionName=all Nodes=ALL Topology=flat", topology=TOPOLOGY)
    counted = Counted()
    look = OneLook(counted)
    assert look.nodes() and look.partitions() and look.topoconf() and look.partitions()
    assert counted.asked == ["run"]
