"""A HyperPod cluster that does not exist: its instances, and the files that AWS and the operator would have written.

Used by the demo, the benchmarks and the tests. Pure: what it makes depends on nothing but its arguments.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from topology_plugin.core.position import Position

CLUSTER_ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456"
CONTROLLER_GROUP, LOGIN_GROUP = "controller-machine", "login-group"


@dataclass(frozen=True)
class Machine:
    """An instance. `label`: what HyperPod tells of its place (None: nothing, as for types without network data)."""

    group: str
    instance_type: str
    number: int
    instance_id: str
    address: str
    agent_address: str
    label: Position | None = None

    @property
    def name(self) -> str:
        """Its Slurm node name, as HyperPod makes it."""
        return "ip-" + self.address.replace(".", "-")

    def entry(self) -> dict[str, Any]:
        """As resource_config.json lists it."""
        entry: dict[str, Any] = {
            "InstanceName": f"{self.group}-{self.number}",
            "InstanceId": self.instance_id,
            "AgentIpAddress": self.agent_address,
            "CustomerIpAddress": self.address,
        }
        entry["InstanceLabel"] = None
        if self.label is not None:
            entry["InstanceLabel"] = {f"network-node-layer-{i}": n for i, n in enumerate(self.label.path, 1)}
            if self.label.ultraserver:
                entry["InstanceLabel"]["ultraserver-id"] = self.label.ultraserver
        return entry


@dataclass(frozen=True)
class SimulatedGroup:
    """An instance group; `partitions` as worker_groups would name them."""

    name: str
    instance_type: str
    partitions: tuple[str, ...] = ()


@dataclass(frozen=True)
class SimulatedCluster:
    """`machines` in the order in which resource_config lists them; the controller is always there."""

    groups: tuple[SimulatedGroup, ...]
    machines: tuple[Machine, ...]
    arn: str = CLUSTER_ARN

    @property
    def controller(self) -> Machine:
        return next(m for m in self.machines if m.group == CONTROLLER_GROUP)

    @property
    def nodes(self) -> tuple[Machine, ...]:
        """Those that are Slurm nodes: all but the controller."""
        return tuple(m for m in self.machines if m.group != CONTROLLER_GROUP)

    def members(self, group: str) -> tuple[Machine, ...]:
        return tuple(m for m in self.machines if m.group == group)

    def node(self, name: str) -> Machine:
        return next(m for m in self.machines if m.name == name)

    def with_machines(self, machines: Iterable[Machine]) -> SimulatedCluster:
        return replace(self, machines=(*self.machines, *machines))

    def without(self, names: Iterable[str]) -> SimulatedCluster:
        gone = set(names)
        return replace(self, machines=tuple(m for m in self.machines if m.name not in gone))

    def with_changed(self, name: str, **changes: Any) -> SimulatedCluster:
        """One machine changed, e.g. its label, or replaced: a new instance id at the same address."""
        return replace(self, machines=tuple(replace(m, **changes) if m.name == name else m for m in self.machines))

    def resource_config(self) -> dict[str, Any]:
        return {
            "ClusterConfig": {"ClusterArn": self.arn, "ClusterName": "c1"},
            "ClusterType": "Slurm",
            "SlurmConfig": {"PrimaryControllerIp": self.controller.address, "SecondaryControllerIps": []},
            "InstanceGroups": [
                {
                    "Name": group.name,
                    "InstanceType": group.instance_type,
                    "Instances": [m.entry() for m in self.members(group.name)],
                }
                for group in self.groups
            ],
        }

    def provisioning_parameters(self) -> dict[str, Any]:
        return {
            "version": "1.0.0",
            "workload_manager": "slurm",
            "controller_group": CONTROLLER_GROUP,
            "login_group": LOGIN_GROUP,
            "worker_groups": [
                {"instance_group_name": group.name, "partition_name": partition}
                for group in self.groups
                for partition in group.partitions
            ],
        }

    def node_lines(self, more: str = "State=CLOUD CPUs=1") -> list[str]:
        """One NodeName line each, as HyperPod writes them."""
        return [f"NodeName={m.name} NodeAddr={m.address} {more}".rstrip() for m in self.nodes]

    def partition_lines(self) -> list[str]:
        """`dev` with every node, and a line for each partition that a group names."""
        lines = ["PartitionName=dev Nodes=ALL Default=YES MaxTime=INFINITE State=UP"]
        for partition in dict.fromkeys(p for group in self.groups for p in group.partitions):
            names = [m.name for group in self.groups if partition in group.partitions for m in self.members(group.name)]
            nodes = ",".join(names) or '""'
            lines.append(f"PartitionName={partition} Nodes={nodes} MaxTime=INFINITE State=UP")
        return lines


def cluster(*groups: SimulatedGroup, logins: int = 1) -> SimulatedCluster:
    """A cluster with a controller, login nodes, and empty groups; fill it with `with_machines`."""
    infra = (SimulatedGroup(CONTROLLER_GROUP, "ml.m5.4xlarge"), SimulatedGroup(LOGIN_GROUP, "ml.m5.xlarge"))
    machines = [machine(CONTROLLER_GROUP, "ml.m5.4xlarge", 1, "10.1.0.5")]
    machines += [machine(LOGIN_GROUP, "ml.m5.xlarge", i + 1, f"10.1.0.{8 + i}") for i in range(logins)]
    return SimulatedCluster((*infra, *groups), tuple(machines))


def machine(
    group: str, instance_type: str, number: int, address: str, label: Position | None = None, generation: int = 0
) -> Machine:
    """`generation`: counts replacements, so that the instance id differs."""
    seed = hashlib.sha256(f"{group}/{number}/{address}/{generation}".encode()).hexdigest()
    octets = address.split(".")
    agent = ".".join(["172", "16", octets[2], octets[3]])
    return Machine(group, instance_type, number, "i-0" + seed[:16], address, agent, label)


def in_tree(
    group: str,
    instance_type: str,
    count: int,
    *,
    per_leaf: int = 8,
    leaves_per_spine: int = 4,
    layers: int = 3,
    subnet: str = "10.1",
    fabric: str = "a",
    seed: int | None = None,
    first: int = 1,
) -> list[Machine]:
    """`count` machines below one top network node. `seed`: addresses shuffled, so that names say nothing of places."""
    addresses = [f"{subnet}.{1 + i // 250}.{1 + i % 250}" for i in range(first - 1, first - 1 + count)]
    if seed is not None:
        random.Random(seed).shuffle(addresses)  # noqa: S311 (a reproducible arrangement, not a secret)
    machines = []
    for i, address in enumerate(addresses, first - 1):
        leaf = i // per_leaf
        spine = leaf // leaves_per_spine
        path = (
            *(f"nn-{layer}{fabric}0" for layer in range(1, layers - 1)),
            f"nn-s{fabric}{spine}",
            f"nn-l{fabric}{leaf}",
        )
        machines.append(machine(group, instance_type, i + 1, address, Position(path[-layers:])))
    return machines


def in_ultraservers(
    group: str,
    sizes: Sequence[int],
    *,
    instance_type: str = "ml.p6e-gb200.36xlarge",
    subnet: str = "10.2",
    with_layers: bool = True,
    seed: int | None = None,
) -> list[Machine]:
    """Machines of UltraServers with so many nodes each. `seed`: addresses shuffled."""
    addresses = [f"{subnet}.{1 + i // 250}.{1 + i % 250}" for i in range(sum(sizes))]
    if seed is not None:
        random.Random(seed).shuffle(addresses)  # noqa: S311 (a reproducible arrangement, not a secret)
    machines = []
    number = 0
    for server, size in enumerate(sizes):
        for _ in range(size):
            path = ("nn-1u0", f"nn-2u{server // 4}", f"nn-3u{server}") if with_layers else ()
            label = Position(path, f"us-srv{server:04d}")
            number += 1
            machines.append(machine(group, instance_type, number, addresses[number - 1], label))
    return machines


def without_network_data(group: str, instance_type: str, count: int, *, subnet: str = "10.3") -> list[Machine]:
    return [machine(group, instance_type, i + 1, f"{subnet}.{1 + i // 250}.{1 + i % 250}") for i in range(count)]


def mixed(p5: int = 64, ultraservers: Sequence[int] = (18, 18), cpu: int = 8, seed: int = 1) -> SimulatedCluster:
    """The demo's cluster: p5 in spines of 4 leaves of 8, UltraServers, CPU nodes, a login node and the controller."""
    groups = [
        SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train",)),
        SimulatedGroup("worker-gb200", "ml.p6e-gb200.36xlarge", ("gb200",)),
        SimulatedGroup("worker-cpu", "ml.c5.9xlarge", ("cpu",)),
    ]
    return cluster(*groups).with_machines(
        [
            *in_tree("worker-p5", "ml.p5.48xlarge", p5, seed=seed),
            *in_ultraservers("worker-gb200", ultraservers, seed=seed),
            *without_network_data("worker-cpu", "ml.c5.9xlarge", cpu),
        ]
    )


def answers(machines: Iterable[Machine]) -> Mapping[str, Position]:
    """instance id → position, as a source that knows them all would answer."""
    return {m.instance_id: m.label for m in machines if m.label is not None}
