"""Sessions of scontrol as they were captured: with readline (Debian), and as a build without it prints them."""

from __future__ import annotations

import pytest

from topology_plugin.core import scontrol_text

COMMANDS = ("oneliner", "show nodes", "show partitions", "show topoconf")
N1 = (
    "NodeName=n1 CoresPerSocket=1  CPUAlloc=0 CPUEfctv=1 CPUTot=1 CPULoad=0.00 AvailableFeatures=a,b ActiveFeatures=a,b"
    " Gres=(null) NodeAddr=10.1.1.1 NodeHostName=h1  RealMemory=1 AllocMem=0 FreeMem=N/A Sockets=1 Boards=1"
    " State=IDLE+CLOUD+POWERED_DOWN ThreadsPerCore=1 TmpDisk=0 Weight=1 Owner=N/A MCS_label=N/A Partitions=dev "
    " BootTime=None SlurmdStartTime=None LastBusyTime=Unknown ResumeAfterTime=None SuspendTime=INFINITE"
    " CfgTRES=cpu=1,mem=1M,billing=1 AllocTRES= CurrentWatts=0 AveWatts=0"
)
N2 = N1.replace("n1", "n2").replace("a,b", "(null)").replace("CLOUD+", "CLOUD+DRAIN+")
DRAINED = ' Reason=bad disk "x" State=DOWN InstanceId=i-0bad y [root@2026-11-30T08:55:30]'
TOLD = " Comment=was InstanceId=i-0b Extra=e InstanceId=i-0a000000000000002 InstanceType=p5.48xlarge"
P1 = "PartitionName=dev AllowGroups=ALL NodeSets=ALL Nodes=n[1-2] PreemptMode=OFF State=UP TotalCPUs=3"
P2 = "PartitionName=ml.p5 AllowGroups=ALL Nodes=n[1-2] PreemptMode=OFF Topology=tree-train State=UP TotalCPUs=3"
TOPOCONF = "%YAML 1.1\n---\n- topology: default\n  flat: {}\n..."

READLINE = (
    f"scontrol: oneliner\nscontrol: show nodes\n{N1}\n{N2}{DRAINED}{TOLD}\n"
    f"scontrol: show partitions\n{P1}\n{P2}\nscontrol: show topoconf\n{TOPOCONF}\nscontrol: \n"
)
PLAIN = f"scontrol: scontrol: {N1}\n{N2}{DRAINED}{TOLD}\nscontrol: {P1}\n{P2}\nscontrol: {TOPOCONF}\nscontrol: "
SILENT = "scontrol: oneliner\nscontrol: show nodes\nscontrol: show partitions\nscontrol: show topoconf\nscontrol: \n"


@pytest.mark.parametrize("text", [READLINE, PLAIN], ids=["readline", "no-readline"])
def test_a_session_gives_each_command_its_answer(text: str) -> None:
    found = scontrol_text.sections(text, COMMANDS)
    assert found is not None
    assert found[0] == ""
    nodes = scontrol_text.nodes(found[1])
    assert nodes is not None
    assert [n["name"] for n in nodes] == ["n1", "n2"]
    assert scontrol_text.words(found[2]) == {"dev": None, "ml.p5": "tree-train"}
    assert found[3].rstrip("\n") == TOPOCONF


def test_a_session_without_a_last_prompt_loses_nothing() -> None:
    found = scontrol_text.sections(READLINE.removesuffix("\nscontrol: \n"), COMMANDS)
    assert found is not None and found[3] == TOPOCONF


def test_a_slurmctld_that_does_not_answer_is_no_answer_and_not_an_empty_cluster() -> None:
    found = scontrol_text.sections(SILENT, COMMANDS)
    assert found == ["", "", "", ""]
    assert scontrol_text.nodes(found[1]) is None
    assert scontrol_text.words(found[2]) is None


def test_a_cluster_without_nodes_says_so() -> None:
    assert scontrol_text.nodes("No nodes in the system\n") == []


@pytest.mark.parametrize("text", ["", "bash: scontrol: not found\n", "scontrol: oneliner\nscontrol: show nodes\n"])
def test_what_is_no_session_is_not_taken_for_one(text: str) -> None:
    assert scontrol_text.sections(text, COMMANDS) is None


def test_what_people_wrote_beside_a_node_is_not_taken_for_its_facts() -> None:
    node = scontrol_text.nodes(f"{N2}{DRAINED}{TOLD}\n")
    assert node == [
        {
            "name": "n2",
            "address": "10.1.1.1",
            "hostname": "h1",
            "state": ["IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"],
            "features": [],
            "reason": 'bad disk "x" State=DOWN InstanceId=i-0bad y',
            "instance_id": "i-0a000000000000002",
            "gres": "",
            "cpus": 1,
            "real_memory": 1,
            "temporary_disk": 0,
            "sockets": 1,
            "cores": 1,
            "threads": 1,
            "specialized_cores": 0,
            "weight": 1,
        }
    ]


def test_an_instance_id_in_a_reason_alone_is_none() -> None:
    assert scontrol_text.nodes(f"{N2}{DRAINED}\n", whole=False) == [
        {
            "name": "n2",
            "state": ["IDLE", "CLOUD", "DRAIN", "POWERED_DOWN"],
            "reason": 'bad disk "x" State=DOWN InstanceId=i-0bad y',
            "instance_id": "",
        }
    ]


def test_of_a_dynamic_node_a_pass_is_told_what_no_file_says() -> None:
    told = scontrol_text.nodes(f"{N1}\n{N1.replace('CLOUD', 'DYNAMIC_NORM').replace('n1', 'n3')}\n", whole=False)
    assert told is not None
    assert "address" not in told[0]
    assert (told[1]["address"], told[1]["hostname"], told[1]["features"]) == ("10.1.1.1", "h1", ["a", "b"])
