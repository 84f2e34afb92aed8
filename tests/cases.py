"""The base inputs of the field cases: F0, a small cluster, and G(n), a large one. Fresh copies on every call."""

from __future__ import annotations

import json
import random
from typing import Any

ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456"


def labels(*layers: str, prefix: str = "") -> dict[str, str]:
    return {f"{prefix}network-node-layer-{number}": layer for number, layer in enumerate(layers, 1)}


def instance(name: str, identity: str, address: str, agent: str, label: Any = ...) -> dict[str, Any]:
    entry = {"InstanceName": name, "InstanceId": identity, "AgentIpAddress": agent, "CustomerIpAddress": address}
    return entry if label is ... else {**entry, "InstanceLabel": label}


def group(name: str, instance_type: str, *instances: dict[str, Any]) -> dict[str, Any]:
    return {"Name": name, "InstanceType": instance_type, "Instances": list(instances)}


def worker(letter: str, number: int, *layers: str) -> dict[str, Any]:
    tens = {"a": 1, "b": 2}[letter]
    return instance(
        f"worker-{letter}-{number}",
        f"i-0{letter}00000000000000{number}",
        f"10.1.1.{tens}{number}",
        f"172.16.1.{tens}{number}",
        labels(*layers),
    )


def member(name: str, number: int, identity: str, subnet: str, host: int, label: Any = ...) -> dict[str, Any]:
    """One more instance of a group of F0."""
    return instance(f"{name}-{number}", identity, f"10.1.1.{host}", f"172.16.{subnet}.{host}", label)


def group_of(config: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(one for one in config["InstanceGroups"] if one["Name"] == name)
    return found


TOP = "nn-1aaaaaaaaaaaaaaa1"


def f0() -> dict[str, Any]:
    """resource_config.json: controller, login node, two groups of two p5."""
    top, spine_a, spine_b = TOP, "nn-2aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa2"
    return {
        "ClusterConfig": {"ClusterName": "c1", "ClusterArn": ARN},
        "ClusterType": "Slurm",
        "SlurmConfig": {"PrimaryControllerIp": "10.1.1.5", "SecondaryControllerIps": []},
        "InstanceGroups": [
            group(
                "controller-machine",
                "ml.m5.4xlarge",
                instance("controller-machine-1", "i-0c000000000000001", "10.1.1.5", "172.16.0.5"),
            ),
            group(
                "login-group",
                "ml.m5.xlarge",
                instance("login-group-1", "i-0d000000000000001", "10.1.1.8", "172.16.0.8", None),
            ),
            group(
                "worker-a",
                "ml.p5.48xlarge",
                worker("a", 1, top, spine_a, "nn-3aaaaaaaaaaaaaaa1"),
                worker("a", 2, top, spine_a, "nn-3aaaaaaaaaaaaaaa2"),
            ),
            group(
                "worker-b",
                "ml.p5.48xlarge",
                worker("b", 1, top, spine_b, "nn-3aaaaaaaaaaaaaaa3"),
                worker("b", 2, top, spine_b, "nn-3aaaaaaaaaaaaaaa3"),
            ),
        ],
    }


def f0_provisioning() -> dict[str, Any]:
    return {
        "version": "1.0.0",
        "workload_manager": "slurm",
        "controller_group": "controller-machine",
        "login_group": "login-group",
        "worker_groups": [
            {"instance_group_name": "worker-a", "partition_name": "train"},
            {"instance_group_name": "worker-b", "partition_name": "train"},
        ],
        "fsx_dns_name": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
        "fsx_mountname": "abcd1234",
    }


NODE_LINES = [f"NodeName=ip-10-1-1-{n} NodeAddr=10.1.1.{n} State=UNKNOWN" for n in (8, 11, 12, 21, 22)]
DEV = "PartitionName=dev   Nodes=ALL Default=YES MaxTime=INFINITE State=UP"
TRAIN = "PartitionName=train Nodes=ip-10-1-1-[11-12],ip-10-1-1-[21-22] MaxTime=INFINITE State=UP"
F0_LINES = [
    "# slurm.conf (excerpt)",
    "SlurmctldHost=ip-10-1-1-5(10.1.1.5)",
    "SlurmctldParameters=enable_configless",
    "TopologyPlugin=topology/default",
    *NODE_LINES,
    DEV,
    TRAIN,
]
F0_SLURM_CONF = "\n".join(F0_LINES) + "\n"


def f0_ec2() -> dict[str, Any]:
    """What DescribeInstanceTopology says of F0's workers: the labels' own ids."""
    found = []
    for entry in f0()["InstanceGroups"][2:]:
        for machine in entry["Instances"]:
            found.append(
                {
                    "InstanceId": machine["InstanceId"],
                    "InstanceType": "p5.48xlarge",
                    "AvailabilityZone": "us-west-2a",
                    "ZoneId": "usw2-az2",
                    "NetworkNodes": list(machine["InstanceLabel"].values()),
                }
            )
    return {"Instances": found}


def g(n: int) -> dict[str, Any]:
    """`rc`, `ec2`, `slurm_conf` (lines) of n nodes: 16 a leaf, 4 leaves a middle switch, in random but fixed order."""
    order = random.Random(1)
    machines, answers, lines = [], [], []
    for i in range(n):
        address = f"10.{2 + i // 62500}.{(i // 250) % 250}.{i % 250 + 1}"
        layers = [f"nn-1{0:016x}", f"nn-2{i // 64:016x}", f"nn-3{i // 16:016x}"]
        identity = f"i-0{i:016x}"
        machines.append(instance(f"worker-a-{i + 1}", identity, address, "172.16.9.9", labels(*layers)))
        answers.append({"InstanceId": identity, "InstanceType": "p5.48xlarge", "NetworkNodes": layers})
        lines.append(f"NodeName=ip-{address.replace('.', '-')} NodeAddr={address} State=UNKNOWN")
    order.shuffle(machines)
    order.shuffle(answers)
    config = {"ClusterType": "Slurm", "InstanceGroups": [group("worker-a", "ml.p5.48xlarge", *machines)]}
    return {"rc": config, "ec2": {"Instances": answers}, "slurm_conf": lines}


def text(document: Any) -> str:
    return json.dumps(document)
