"""Inventories for tests, made through the real parsers from the files that a simulated cluster would have on disk."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from topology_plugin.core import provisioning, resource_config, slurm_conf
from topology_plugin.core.decision import Decision, Memory
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.merge import merge
from topology_plugin.core.records import Record
from topology_plugin.core.settings import layered
from topology_plugin.core.sources import ApiAnswers, ApiGroup, Sources
from topology_plugin.core.stock import stock
from topology_plugin.core.topology import Blocks, Tree
from topology_plugin.jobs.simulated_cluster import (
    CLUSTER_ARN,
    Machine,
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
)

P5 = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train",))
GB = SimulatedGroup("worker-gb", "ml.p6e-gb200.36xlarge", ("gb",))
CPU = SimulatedGroup("worker-cpu", "ml.c5.9xlarge", ("cpu",))
SIMPLE = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))


def conf_of(lines: Iterable[str]) -> slurm_conf.SlurmConf:
    text = "\n".join(lines) + "\n"
    return slurm_conf.parse("/etc/slurm.conf", lambda path: text if path == "/etc/slurm.conf" else None)


def conf_text(simulated: SimulatedCluster, *more: str) -> list[str]:
    return [*simulated.node_lines(), *simulated.partition_lines(), *more]


def inventory_of(
    simulated: SimulatedCluster,
    *,
    lines: Sequence[str] | None = None,
    config: Mapping[str, Any] | str | None = "own",
    parameters: Mapping[str, Any] | str | None = "own",
    records: Mapping[str, Any] | None = None,
    api: Mapping[str, ApiAnswers] | None = None,
    api_groups: Mapping[str, ApiGroup] | None = None,
    loaded: Sequence[Mapping[str, Any]] = (),
    memory: Memory | None = None,
) -> tuple[Inventory, Memory]:
    """`config` and `parameters`: the cluster's own, another document, or None for an unreadable one."""
    document = simulated.resource_config() if config == "own" else config
    given = simulated.provisioning_parameters() if parameters == "own" else parameters
    sources = Sources(
        None if document is None else resource_config.parse(json.dumps(document)),
        {} if records is None else records,
        None if given is None else provisioning.parse(json.dumps(given)),
        api_groups=api_groups or {},
        answers=api or {},
    )
    return stock(conf_of(lines or conf_text(simulated)), loaded, sources, memory or Memory())


def decide(simulated: SimulatedCluster, settings: Mapping[str, Any] | None = None, **inputs: Any) -> Decision:
    inventory, memory = inventory_of(simulated, **inputs)
    return merge(inventory, layered([("test", settings or {})]), memory)


def words(decision: Decision) -> dict[str, str | None]:
    return dict(decision.configuration.words)


def names(decision: Decision) -> list[str]:
    """Topologies, the default first."""
    return [topology.name for topology in decision.configuration.topologies]


def tree_of(decision: Decision, name: str = "tree") -> Tree:
    topology = decision.configuration.topology(name)
    assert topology is not None
    assert isinstance(topology.body, Tree)
    return topology.body


def blocks_of(decision: Decision, name: str = "block") -> Blocks:
    topology = decision.configuration.topology(name)
    assert topology is not None
    assert isinstance(topology.body, Blocks)
    return topology.body


def leaf_of(decision: Decision, node: str) -> str:
    return next(s.name for s in tree_of(decision).switches if node in s.nodes)


def unlabelled(simulated: SimulatedCluster, silent: Collection[str] | None = None) -> SimulatedCluster:
    """As the controller's copy may be while labels come by records only: none, or none for these nodes."""
    return replace(
        simulated,
        machines=tuple(
            m if silent is not None and m.name not in silent else replace(m, label=None) for m in simulated.machines
        ),
    )


def record_of(machine: Machine, **changes: Any) -> Record:
    """What a machine's hook would register."""
    made = Record(
        CLUSTER_ARN,
        machine.instance_id,
        f"{machine.group}-{machine.number}",
        machine.address,
        machine.agent_address,
        machine.group,
        machine.instance_type,
        answers={} if machine.label is None else {"resource-config": machine.label},
    )
    return made._replace(**changes)
