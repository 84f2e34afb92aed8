"""The base fixture of the field cases: F0, put together from public scripts and notes (names and numbers replaced)."""

from __future__ import annotations

import copy
from typing import Any

from topology_plugin.jobs.simulated_cluster import CLUSTER_ARN


def label(one: str, two: str, three: str) -> dict[str, str]:
    return {"network-node-layer-1": one, "network-node-layer-2": two, "network-node-layer-3": three}


TOP = "nn-1aaaaaaaaaaaaaaa1"


def instance(
    group: str, number: int, instance_id: str, subnet: str, host: int, place: Any = "absent"
) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "InstanceName": f"{group}-{number}",
        "InstanceId": instance_id,
        "AgentIpAddress": f"172.16.{subnet}.{host}",
        "CustomerIpAddress": f"10.1.1.{host}",
    }
    if place != "absent":
        entry["InstanceLabel"] = place
    return entry


def resource_config() -> dict[str, Any]:
    return copy.deepcopy(
        {
            "ClusterConfig": {"ClusterName": "c1", "ClusterArn": CLUSTER_ARN},
            "ClusterType": "Slurm",
            "SlurmConfig": {"PrimaryControllerIp": "10.1.1.5", "SecondaryControllerIps": []},
            "InstanceGroups": [
                {
                    "Name": "controller-machine",
                    "InstanceType": "ml.m5.4xlarge",
                    "Instances": [instance("controller-machine", 1, "i-0c000000000000001", "0", 5)],
                },
                {
                    "Name": "login-group",
                    "InstanceType": "ml.m5.xlarge",
                    "Instances": [instance("login-group", 1, "i-0d000000000000001", "0", 8, None)],
                },
                {
                    "Name": "worker-a",
                    "InstanceType": "ml.p5.48xlarge",
                    "Instances": [
                        instance("worker-a", 1, "i-0a000000000000001", "1", 11, label(TOP, "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa1")),
                        instance("worker-a", 2, "i-0a000000000000002", "1", 12, label(TOP, "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa2")),
                    ],
                },
                {
                    "Name": "worker-b",
                    "InstanceType": "ml.p5.48xlarge",
                    "Instances": [
                        instance("worker-b", 1, "i-0b000000000000001", "1", 21, label(TOP, "nn-2aaaaaaaaaaaaaaa2", "nn-3aaaaaaaaaaaaaaa3")),
                        instance("worker-b", 2, "i-0b000000000000002", "1", 22, label(TOP, "nn-2aaaaaaaaaaaaaaa2", "nn-3aaaaaaaaaaaaaaa3")),
                    ],
                },
            ],
        }
    )  # fmt: skip


def group(config: dict[str, Any], name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(g for g in config["InstanceGroups"] if g["Name"] == name)
    return found


def parameters() -> dict[str, Any]:
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
SLURM_CONF = [
    "# slurm.conf (excerpt)",
    "SlurmctldHost=ip-10-1-1-5(10.1.1.5)",
    "SlurmctldParameters=enable_configless",
    "TopologyPlugin=topology/default",
    *NODE_LINES,
    DEV,
    TRAIN,
]
