"""slurm.conf as slurmctld reads it and as we do: each oddity of the tables, and our edits under its eyes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.conf_lines import FATAL, NODES, PARTITION_LINES
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.adapters.private_slurmctld import SlurmctldDied
from topology_plugin.core.slurm_conf import SlurmConf, parse
from topology_plugin.core.slurm_conf_edits import edit_words, restore_words

TOPOLOGY = """\
- {topology: flat, cluster_default: true, flat: true}
- topology: tree
  cluster_default: false
  tree: {switches: [{switch: s1, nodes: "n[1-4],m1"}]}
"""
# slurmctld waits a minute for a file that is not there.
SLOW = {"include that is missing", "include in quotes", "cluster name unknown"}


def read(path: str) -> str | None:
    try:
        return Path(path).read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None


def write(path: str, text: str) -> None:
    Path(path).write_bytes(text.encode("utf-8", "surrogateescape"))


def parsed(cluster: Cluster) -> SlurmConf:
    return parse(str(cluster.conf), read)


def seen_by_slurmctld(cluster: Cluster) -> dict[str, tuple[list[str], str | None]]:
    partitions = json.loads(cluster.scontrol("show", "partitions", "--json").stdout)["partitions"]
    return {
        one["name"]: (sorted(cluster.expand(one["nodes"]["configured"])), one["topology"] or None) for one in partitions
    }


def seen_by_us(conf: SlurmConf) -> dict[str, tuple[list[str], str | None]]:
    return {name: (sorted(partition.nodes), partition.topology) for name, partition in conf.partitions.items()}


def made(slurmctld: NewCluster, lines: str, extra: str = "") -> Cluster:
    """A cluster with NODES and these lines, down to their line ends; it does not run yet."""
    cluster = slurmctld(NODES, "", topology=TOPOLOGY, extra=extra, start=False)
    with cluster.conf.open("a", newline="") as conf:
        conf.write(lines)
    return cluster


@pytest.mark.parametrize(("lines", "nodes", "topology"), PARTITION_LINES.values(), ids=PARTITION_LINES)
def test_the_table_of_partition_lines_says_what_slurmctld_makes_of_them(
    slurmctld: NewCluster, lines: str, nodes: str, topology: str | None
) -> None:
    cluster = made(slurmctld, lines)
    cluster.start()
    assert seen_by_slurmctld(cluster)["p"] == (sorted(nodes.split()), topology)
    assert seen_by_us(parsed(cluster)) == seen_by_slurmctld(cluster)


@pytest.mark.parametrize("name", sorted(set(FATAL) - SLOW))
def test_what_we_call_fatal_slurmctld_dies_of(slurmctld: NewCluster, name: str) -> None:
    cluster = made(slurmctld, FATAL[name][0])
    (cluster.conf.parent / "ok.conf").write_text("")
    with pytest.raises(SlurmctldDied):
        cluster.start()


ODD = """\
Include sub/%c.conf # in a directory of its own
PartitionName=DEFAULT Topology=tree MaxTime=60\r
partitionname = one  \\
   Nodes="n[1-2],m1"  \\\t
   Default=YES  # Topology=flat
PartitionName=two Nodes=by-feature Topology="flat"\r
PartitionName=three TOPOLOGY = flat  Nodes=n4#glued
PartitionName=four Nodes=ALL \\

PartitionName=five"""
INCLUDED = "# PartitionName=no\nNodeSet=by-feature Feature=f2\nPartitionName=zero Topology=tree Nodes=n1 # zero\n"


def test_our_edits_do_under_slurmctld_what_they_say_and_come_back(slurmctld: NewCluster) -> None:
    cluster = made(slurmctld, ODD)
    included = cluster.conf.parent / "sub" / "private.conf"
    included.parent.mkdir()
    included.write_text(INCLUDED)
    cluster.start()
    former = parsed(cluster)
    assert former.issues == ()
    assert seen_by_us(former) == seen_by_slurmctld(cluster)
    for words in (
        {"two": "tree", "three": None, "five": "flat"},
        {"one": None, "four": "tree", "zero": None},
        dict.fromkeys(former.partitions, "flat"),
        dict.fromkeys(former.partitions),
    ):
        for path, text in edit_words(former, words).items():
            write(path, text)
        assert cluster.reconfigure()
        assert seen_by_us(parsed(cluster)) == seen_by_slurmctld(cluster)
        assert parsed(cluster).words() == {**former.words(), **words}
        for path, text in restore_words(parsed(cluster), former).items():
            write(path, text)
        assert parsed(cluster).files == former.files
    assert cluster.reconfigure()
    assert seen_by_slurmctld(cluster) == seen_by_us(former)


def test_includes_nest_without_a_limit(slurmctld: NewCluster) -> None:
    deep = 1_500
    cluster = made(slurmctld, "Include 1.conf\n")
    for level in range(1, deep):
        write(f"{cluster.conf.parent}/{level}.conf", f"Include {level + 1}.conf\n")
    write(f"{cluster.conf.parent}/{deep}.conf", "PartitionName=last Nodes=n2 Topology=tree\n")
    cluster.start()
    assert seen_by_us(parsed(cluster)) == seen_by_slurmctld(cluster) == {"last": (["n2"], "tree")}


def test_dynamic_nodes_join_where_we_say(slurmctld: NewCluster) -> None:
    lines = (
        "NodeSet=s Feature=f1\nNodeSet=t Nodes=ALL\nPartitionName=all Nodes=ALL\nPartitionName=by-feature Nodes=s,m1\n"
        "PartitionName=set-of-all Nodes=t\nPartitionName=listed Nodes=n[1-2]\n"
    )
    cluster = made(slurmctld, lines, extra="MaxNodeCount=20")
    cluster.start()
    cluster.scontrol("create", "NodeName=d1", "State=CLOUD", "Feature=f1,x")
    cluster.scontrol("create", "NodeName=d2", "State=CLOUD")
    conf = parsed(cluster)
    assert {name: nodes for name, (nodes, _) in seen_by_slurmctld(cluster).items()} == {
        name: sorted(conf.partition_nodes(name, [("d1", ("f1", "x")), ("d2", ())])) for name in conf.partitions
    }
