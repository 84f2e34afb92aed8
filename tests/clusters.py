"""Inventories for tests, made through the real parsers from the files that a simulated cluster would have on disk."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from topology_plugin.core import provisioning, resource_config, slurm_conf
from topology_plugin.core.decision import Decision, Memory
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.merge import merge
from topology_plugin.core.settings import Settings, layered
from topology_plugin.core.sources import ApiAnswers, ApiGroup, Sources
from topology_plugin.core.stock import stock
from topology_plugin.jobs.simulated_cluster import SimulatedCluster

DEFAULTS = Settings()


def conf_of(lines: Iterable[str]) -> slurm_conf.SlurmConf:
    text = "\n".join(lines) + "\n"
    return slurm_conf.parse("/etc/slurm.conf", lambda path: text if path == "/etc/slurm.conf" else None)


def conf_text(cluster: SimulatedCluster, *more: str) -> list[str]:
    return [*cluster.node_lines(), *cluster.partition_lines(), *more]


def inventory_of(
    cluster: SimulatedCluster,
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
    document = cluster.resource_config() if config == "own" else config
    given = cluster.provisioning_parameters() if parameters == "own" else parameters
    sources = Sources(
        None if document is None else resource_config.parse(json.dumps(document)),
        {} if records is None else records,
        None if given is None else provisioning.parse(json.dumps(given)),
        api_groups=api_groups or {},
        answers=api or {},
    )
    return stock(conf_of(lines or conf_text(cluster)), loaded, sources, memory or Memory())


def decide(cluster: SimulatedCluster, settings: Mapping[str, Any] | None = None, **inputs: Any) -> Decision:
    inventory, memory = inventory_of(cluster, **inputs)
    return merge(inventory, layered([("test", settings or {})]), memory)


def words(decision: Decision) -> dict[str, str | None]:
    return dict(decision.configuration.words)


def names(decision: Decision) -> list[str]:
    """Topologies, the default first."""
    return [topology.name for topology in decision.configuration.topologies]
