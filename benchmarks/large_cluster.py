"""The cluster that is measured: three layers, 18 nodes a leaf, four leaves a spine, addresses consecutive in a leaf."""

from __future__ import annotations

import json
import random
from pathlib import Path

from tests import clusters
from topology_plugin.core import records
from topology_plugin.core.position import Position
from topology_plugin.jobs.simulated_cluster import Machine, SimulatedCluster, SimulatedGroup, cluster

PER_LEAF, LEAVES_PER_SPINE = 18, 4
GROUP = SimulatedGroup("worker-a", "ml.p5.48xlarge", ("train",))

# Answers as a scontrol that has a slurmctld gives them, from files: what a pass costs us, without what Slurm costs.
_SCONTROL = """\
#!/bin/sh
here=$(dirname "$0")
echo "$*" >> "$here/calls"
case "$*" in
  --version) echo "slurm 26.05.5" ;;
  "show nodes --json") exec cat "$here/nodes.json" ;;
  "show partitions --json") exec cat "$here/partitions.json" ;;
  "show topoconf") exec cat "$here/topoconf" ;;
  "") exec cat "$here/session" ;;
  ping) echo "Slurmctld(primary) at here is UP" ;;
  *) exit 1 ;;
esac
"""
_SQUEUE = """\
#!/bin/sh
echo '{"jobs": []}'
"""


def large_cluster(nodes: int, seed: int = 1) -> SimulatedCluster:
    """`nodes` workers below one top network node; resource_config lists them in no order."""
    machines = []
    positions: dict[int, Position] = {}
    for i in range(nodes):
        address = f"10.{2 + i // 62500}.{i // 250 % 250}.{i % 250 + 1}"
        leaf = i // PER_LEAF
        if leaf not in positions:
            path = tuple(f"nn-{layer}{k:016x}" for layer, k in ((1, 0), (2, leaf // LEAVES_PER_SPINE), (3, leaf)))
            positions[leaf] = Position(path)
        instance_id = f"i-0{i:016x}"
        machines.append(
            Machine(GROUP.name, GROUP.instance_type, i + 1, instance_id, address, "172.16.9.9", positions[leaf])
        )
    random.Random(seed).shuffle(machines)
    return cluster(GROUP).with_machines(machines)


def record_of(machine: Machine) -> records.Record:
    """What the hook on that machine writes."""
    return clusters.record_of(machine, partitions=GROUP.partitions if machine.group == GROUP.name else ())


def write_records(registry: Path, simulated: SimulatedCluster) -> None:
    """Every node's record, as fast as the disk takes it."""
    directory = registry / "nodes"
    directory.mkdir(parents=True, exist_ok=True)
    for machine in simulated.nodes:
        record = record_of(machine)
        (directory / record.file_name).write_bytes(records.dump(record))


def node_text(machine: Machine) -> str:
    """A node in `scontrol show nodes --oneliner` (26.05, captured)."""
    return (
        f"NodeName={machine.name} Arch=x86_64 CoresPerSocket=48  CPUAlloc=0 CPUEfctv=192 CPUTot=192 CPULoad=0.00 "
        f"AvailableFeatures=(null) ActiveFeatures=(null) Gres=gpu:8 NodeAddr={machine.address} "
        f"NodeHostName={machine.name} Version=26.05.5 OS=Linux 5.15.0-1058-aws #64~20.04.1-Ubuntu SMP Tue Apr 9 "
        "RealMemory=2048000 AllocMem=0 FreeMem=2012345 Sockets=2 Boards=1 State=IDLE ThreadsPerCore=2 TmpDisk=0 "
        "Weight=1 Owner=N/A MCS_label=N/A Partitions=dev,train  BootTime=2025-11-30T08:12:00 "
        "SlurmdStartTime=2025-11-30T08:14:00 LastBusyTime=2025-11-30T08:14:10 ResumeAfterTime=None SuspendTime=None "
        "CfgTRES=cpu=192,mem=2000G,billing=192,gres/gpu=8 AllocTRES= CurrentWatts=0 AveWatts=0"
    )


def write_scontrol(directory: Path, simulated: SimulatedCluster, topoconf: str, words: dict[str, str | None]) -> None:
    """A scontrol in `directory` that answers as if this cluster ran with `topoconf` loaded and these words."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, text in (("scontrol", _SCONTROL), ("squeue", _SQUEUE)):
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    template = json.loads((Path(__file__).parent.parent / "tests/captured/26.05-nodes.json").read_text())["nodes"][0]
    nodes = [
        {**template, "name": m.name, "address": m.address, "hostname": m.name, "state": ["IDLE"]}
        for m in simulated.nodes
    ]
    (directory / "nodes.json").write_text(json.dumps({"nodes": nodes}, indent=2))
    partitions = [{"name": name, "topology": word or ""} for name, word in words.items()]
    (directory / "partitions.json").write_text(json.dumps({"partitions": partitions}))
    (directory / "topoconf").write_text(topoconf)
    lines = [
        f"PartitionName={name} Nodes=ALL{f' Topology={word}' if word else ''} State=UP" for name, word in words.items()
    ]
    (directory / "session").write_text(
        "\n".join(
            [
                "scontrol: oneliner",
                "scontrol: show nodes",
                *(node_text(m) for m in simulated.nodes),
                "scontrol: show partitions",
                *lines,
                "scontrol: show topoconf",
                topoconf.rstrip("\n"),
                "scontrol: ",
            ]
        )
    )
