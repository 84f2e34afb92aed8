"""Clusters as a pass would see them, for tests of what reads a State: built from an inventory by the real merge."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from topology_plugin.core.decision import Memory
from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.live import Job, Live
from topology_plugin.core.merge import merge
from topology_plugin.core.position import Position
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import Counters, Owner, PassResult, State
from topology_plugin.core.topology import Configuration

ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456"
NOW = 1_800_000_000.0


def hex_id(prefix: str, *parts: int) -> str:
    """An id as AWS makes them: 17 hex digits that say nothing."""
    return f"{prefix}-{hashlib.sha256(repr(parts).encode()).hexdigest()[:17]}"


def p5(index: int, per_leaf: int = 8, leaves: int = 4, group: str = "worker-a") -> Node:
    """p5 number `index` (from 0): `per_leaf` nodes a leaf, `leaves` leaves a spine, one top."""
    leaf = index // per_leaf
    position = Position((hex_id("nn", 1, 0), hex_id("nn", 2, leaf // leaves), hex_id("nn", 3, leaf)))
    return Node(
        name=f"ip-10-{1 + index // 62500}-{index // 250 % 250}-{index % 250 + 1}",
        instance_id=f"i-0a{index:015x}",
        instance_name=f"{group}-{index + 1}",
        group=group,
        instance_type="ml.p5.48xlarge",
        zone="usw2-az2",
        answers={"resource-config": position, "records": position},
        silent={"sagemaker": "not an UltraServer", "ec2": "UnauthorizedOperation"},
        addresses=(f"10.{1 + index // 62500}.{index // 250 % 250}.{index % 250 + 1}",),
    )


def gb200(index: int, per_server: int = 18) -> Node:
    server = index // per_server
    position = Position((hex_id("nn", 1, 9), hex_id("nn", 2, 9, server)), f"us-{server + 1:04d}")
    return Node(
        name=f"ip-10-9-{server}-{index % per_server + 1}",
        instance_id=f"i-0b{index:015x}",
        instance_name=f"ultra-{index + 1}",
        group="ultra",
        instance_type="ml.p6e-gb200.36xlarge",
        zone="usw2-az2",
        answers={"resource-config": position},
        silent={"ec2": "UnauthorizedOperation"},
        addresses=(f"10.9.{server}.{index % per_server + 1}",),
    )


def plain(name: str, index: int, group: str, instance_type: str) -> Node:
    return Node(
        name=name,
        instance_id=f"i-0c{group_number(group):03x}{index:012x}",
        instance_name=f"{group}-{index + 1}",
        group=group,
        instance_type=instance_type,
        zone="usw2-az2",
        silent={"resource-config": "label is null", "records": "label is null"},
        addresses=(name.removeprefix("ip-").replace("-", "."),),
    )


def group_number(group: str) -> int:
    return {"cpu": 1, "login": 2}.get(group, 3)


def inventory(
    p5s: int = 64,
    gb200s: int = 36,
    cpus: int = 8,
    *,
    per_leaf: int = 8,
    leaves: int = 4,
    unlabelled: tuple[int, ...] = (),
) -> Inventory:
    """`unlabelled`: numbers of p5 nodes that no source knows."""
    workers = [p5(i, per_leaf, leaves) for i in range(p5s)]
    for index in unlabelled:
        workers[index] = replace(
            workers[index], answers={}, silent={"resource-config": "no label", "records": "no record"}
        )
    ultras = [gb200(i) for i in range(gb200s)]
    plains = [plain(f"ip-10-8-0-{i + 1}", i, "cpu", "ml.c5.4xlarge") for i in range(cpus)]
    login = [plain("ip-10-8-1-1", 0, "login", "ml.m5.xlarge")]
    nodes = [*workers, *ultras, *plains, *login]
    groups = [
        Group("worker-a", "ml.p5.48xlarge", "compute", ("train",)),
        Group("ultra", "ml.p6e-gb200.36xlarge", "compute", ("ultra",), "u-p6e-gb200x72"),
        Group("cpu", "ml.c5.4xlarge", "compute", ("cpu",)),
        Group("login", "ml.m5.xlarge", "login"),
    ]
    partitions = [
        Partition("dev", tuple(n.name for n in nodes), all_nodes=True),
        Partition("train", tuple(n.name for n in workers)),
        Partition("ultra", tuple(n.name for n in ultras)),
        Partition("cpu", tuple(n.name for n in plains)),
    ]
    return Inventory(
        {n.name: n for n in nodes},
        {g.name: g for g in groups},
        {p.name: p for p in partitions if p.nodes},
        roles_known=True,
    )


def state(
    seen: Inventory | None = None,
    *,
    in_force: Configuration | str | None = "desired",
    settings: Settings | None = None,
    refused: Mapping[str, tuple[tuple[int, int], ...]] | None = None,
    memory: Memory | None = None,
    **more: object,
) -> State:
    """A State after a pass. `in_force`: a Configuration, None, or "desired" (nothing is pending)."""
    seen = inventory() if seen is None else seen
    decision = merge(seen, settings or Settings(), memory or Memory())
    made = State(
        cluster_arn=ARN,
        version="0.1.0",
        slurm_version="25.11.4",
        generation=7,
        last=PassResult("unchanged", time=NOW),
        owner=Owner("us", "mode auto: HyperPod's agent does not manage the topology", True),
        inventory=seen,
        decision=decision,
        in_force=decision.configuration if in_force == "desired" else in_force,  # type: ignore[arg-type]
        refused=refused or {},
        counters=Counters(passes=412, reconfigures=9, reconfigure_seconds=3.2, last_success=NOW),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def live(of: State) -> Live:
    """Two running jobs on the p5 nodes, one on an UltraServer, a drained and a down node, jobs that wait."""
    names = list(of.inventory.nodes)
    p5s = [n for n in names if of.inventory.nodes[n].group == "worker-a"]
    ultras = [n for n in names if of.inventory.nodes[n].group == "ultra"]
    jobs = (
        Job(101, "llama-pretrain", "ana", "RUNNING", tuple(p5s[:16]), "train", nodes_wanted=16, exclusive=True),
        Job(102, "eval", "bo", "RUNNING", (*p5s[20:23], *p5s[40:42]), "train", nodes_wanted=5),
        Job(103, "moe", "cy", "RUNNING", tuple(ultras[:16]), "ultra", nodes_wanted=16, segment=16, exclusive=True),
        Job(104, "big", "ana", "PENDING", (), "train", "Resources", 48),
        Job(105, "wide", "cy", "PENDING", (), "ultra", "BadConstraints", 40, held=True),
    )
    states = dict.fromkeys(names, "idle")
    for job in jobs:
        states.update(dict.fromkeys(job.nodes, "allocated"))
    reasons = {}
    if len(p5s) > 30:
        states[p5s[30]], reasons[p5s[30]] = "drained", "Kicked by health check: NVLink"
        states[p5s[31]], reasons[p5s[31]] = "down", "Not responding"
    return Live(states, jobs, reasons)


def without(seen: Inventory, *names: str) -> Inventory:
    """The cluster after slurm.conf no longer lists `names`."""
    return replace(
        seen,
        nodes={name: node for name, node in seen.nodes.items() if name not in names},
        partitions={
            p.name: replace(p, nodes=tuple(n for n in p.nodes if n not in names)) for p in seen.partitions.values()
        },
    )


def changed(seen: Inventory, name: str, **fields: object) -> Inventory:
    """The cluster with something else known of one node."""
    return replace(seen, nodes={**seen.nodes, name: replace(seen.nodes[name], **fields)})  # type: ignore[arg-type]
