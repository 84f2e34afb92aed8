"""What a rehearsal's slurmctld starts from and is asked. That it answers: tests/slurm/test_rehearsal.py."""

from __future__ import annotations

import pytest

from topology_plugin.core import slurm_conf
from topology_plugin.core.live import Job
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.stage import Question, questions, scene, shape
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree

V26, V24 = (26, 5, 5), (24, 11, 5)
LIVE = """
ClusterName=prod
SlurmctldHost=ip-10-1-1-5(10.1.1.5)
AuthType=auth/munge
StateSaveLocation=/fsx/state
AccountingStorageHost=10.1.1.9
SlurmctldParameters=enable_configless
SuspendProgram=/opt/power-off
Prolog=/opt/prolog.sh
PrologSlurmctld=/opt/never
SelectType=select/cons_tres
TopologyParam=TopoOptional
NodeName=DEFAULT Gres=gpu:8 RealMemory=1000
NodeName=n[1-3] NodeAddr=10.1.1.[1-3] CPUs=192 State=UNKNOWN
NodeName=n4 NodeAddr=10.1.1.4 Weight=7 Topology=tree:a
PartitionName=DEFAULT MaxTime=INFINITE
PartitionName=p Nodes=ALL Default=YES MinNodes=2 AllowGroups=staff
PartitionName=q Nodes=n[1-2] Topology=tree MaxNodes=2 QOS=high
PartitionName=none Nodes=""
"""


def conf(text: str = LIVE) -> SlurmConf:
    return slurm_conf.parse("/slurm.conf", {"/slurm.conf": text}.get)


def test_slurm_conf_is_written_from_nothing() -> None:
    assert scene(conf(), b"x", None, V26, dynamic=[("d1", ())]).conf.splitlines() == [
        "SelectType=select/cons_tres",
        "TopologyParam=TopoOptional",
        "NodeName=d1,n[1-3] CPUs=1 State=EXTERNAL",
        "NodeName=n4 CPUs=1 State=EXTERNAL Weight=7 Topology=tree:a",
        "PartitionName=p Nodes=d1,n[1-4] MinNodes=2 Default=YES",
        "PartitionName=q Nodes=n[1-2] Topology=tree MaxNodes=2",
        'PartitionName=none Nodes=""',
    ]


@pytest.mark.parametrize("secret", ["10.1.1", "munge", "/opt", "/fsx", "prod", "gpu", "staff"])
def test_nothing_of_the_live_one_but_names_is_taken_over(secret: str) -> None:
    assert secret not in scene(conf(), None, None, V26).conf


def test_24_11_gets_cloud_nodes_and_the_plugin() -> None:
    text = scene(conf("TopologyPlugin=topology/tree\nNodeName=n1\nPartitionName=p Nodes=ALL\n"), None, b"x", V24).conf
    assert "TopologyPlugin=topology/tree" in text
    assert "State=CLOUD" in text


def test_words_given_take_the_place_of_those_on_disk_and_none_takes_one_out() -> None:
    text = scene(conf(), None, None, V26, words={"p": "block", "q": None}).conf
    assert "PartitionName=p Nodes=n[1-4] Topology=block" in text
    assert "PartitionName=q Nodes=n[1-2] MaxNodes=2" in text


NODES = [f"n{number}" for number in range(1, 37)]
RACKS = conf("NodeName=n[1-36]\nPartitionName=p Nodes=ALL\nPartitionName=q Nodes=ALL\n")
FLAT = Topology("flat", Flat(), True)
TREE = Topology(
    "tree", Tree((Switch("a", tuple(NODES[:18])), Switch("b", tuple(NODES[18:])), Switch("r", (), ("a", "b"))))
)
BLOCK = Topology(
    "block",
    Blocks((18,), (Block("x", tuple(NODES[:18])), Block("w", tuple(NODES[18:30])), Block("z", tuple(NODES[30:])))),
)


def plan(**words: str | None) -> Configuration:
    return Configuration((FLAT, TREE, BLOCK), words)


def texts(asked: tuple[Question, ...]) -> list[str]:
    return [" ".join(question.arguments) for question in asked]


def test_flat_leaves_nothing_to_ask() -> None:
    assert questions(RACKS, None, plan()) == ()


def test_the_edges_of_refused_sizes_are_asked_those_that_move_first() -> None:
    assert texts(questions(RACKS, plan(), plan(p="block"))) == [
        "-p p -N 31", "-p p -N 30", "-p p -N 36", "-p p -N 1",
    ]  # fmt: skip


def test_a_tree_is_asked_the_range_that_crashes_an_uneven_one() -> None:
    assert texts(questions(RACKS, None, plan(p="tree", q="tree")))[0] == "-p p -N 1-37"
    assert sum("-37" in text for text in texts(questions(RACKS, None, plan(p="tree", q="tree")))) == 1


JOBS = [
    Job(1, partition="p", nodes_wanted=33, array=(1, "0-9")),
    Job(2, partition="p", nodes_wanted=33),
    Job(3, partition="p", nodes_wanted=2, required=("n1", "n20")),
    Job(4, partition="p", nodes_wanted=4, excluded=("n1", "n2"), segment=2, switches=1),
    Job(5, partition="p", nodes_wanted=9, state="RUNNING", nodes=("n1",)),
]


def test_shapes_of_pending_jobs_come_first_each_once_and_say_whose_they_are() -> None:
    asked = questions(RACKS, plan(), plan(p="block"), JOBS)
    assert [str(question) for question in asked[:3]] == [
        "-p p -N 33 (job 1_[0-9], 2)",
        "-p p -N 2 -w n[1,20] (job 3)",
        "-p p -N 4 -x n[1-2] --segment=2 --switches=1 (job 4)",
    ]
    assert shape(JOBS[4]) == ("-p", "p", "-N", "9")
    assert not any("-N 9" in text for text in texts(asked))


def test_required_nodes_are_asked_by_a_real_job() -> None:
    assert [q.real for q in questions(RACKS, plan(), plan(p="block"), JOBS)[:3]] == [False, True, False]


def test_there_are_never_more_than_sixty_four() -> None:
    many = [Job(i, partition="p", nodes_wanted=1 + i % 30, required=(f"n{i % 36 + 1}",)) for i in range(200)]
    assert len(questions(RACKS, plan(), plan(p="block", q="block"), many)) == 64


def test_only_sizes_that_the_partition_admits_are_asked() -> None:
    limited = conf("NodeName=n[1-36]\nPartitionName=p Nodes=ALL MinNodes=31 MaxNodes=35\n")
    assert texts(questions(limited, None, plan(p="block"))) == ["-p p -N 31", "-p p -N 35"]
