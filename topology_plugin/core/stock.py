"""What slurm.conf and slurmctld say there is: nodes and partitions, from which the inventory is made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from topology_plugin.core.decision import Memory
from topology_plugin.core.inventory import Inventory, Partition
from topology_plugin.core.matching import take_stock
from topology_plugin.core.scontrol_text import DYNAMIC
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.sources import SlurmNode, Sources


def stock(
    conf: SlurmConf, loaded: Sequence[Mapping[str, Any]], sources: Sources, memory: Memory
) -> tuple[Inventory, Memory]:
    """The inventory of slurm.conf's nodes plus the dynamic ones that only slurmctld knows.

    `loaded`: nodes as `scontrol show nodes --json` lists them; [] if slurmctld does not answer.
    """
    dynamic = dynamic_nodes(conf, loaded)
    return take_stock(_slurm_nodes(conf, loaded, dynamic), partitions(conf, dynamic), sources, memory)


def slurm_nodes(conf: SlurmConf, loaded: Sequence[Mapping[str, Any]]) -> list[SlurmNode]:
    """slurm.conf's nodes, then the dynamic ones."""
    return _slurm_nodes(conf, loaded, dynamic_nodes(conf, loaded))


def _slurm_nodes(
    conf: SlurmConf, loaded: Sequence[Mapping[str, Any]], dynamic: Sequence[Mapping[str, Any]]
) -> list[SlurmNode]:
    told = {str(node.get("name")): found for node in loaded if (found := _instance_id(node))}
    nodes = [SlurmNode(n.name, n.addr, n.hostname, False, told.get(n.name)) for n in conf.nodes.values()]
    return nodes + [_dynamic(node) for node in dynamic]


def dynamic_nodes(conf: SlurmConf, loaded: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Nodes that registered themselves (`slurmd -Z`) or were made by `scontrol create`.

    What slurm.conf dropped and slurmctld has not yet noticed is no dynamic node: only the state DYNAMIC_NORM says so.
    """
    found = [
        node for node in loaded if DYNAMIC in (node.get("state") or ()) and str(node.get("name")) not in conf.nodes
    ]
    return sorted(found, key=lambda node: str(node.get("name")))


def partitions(conf: SlurmConf, dynamic: Sequence[Mapping[str, Any]] = ()) -> list[Partition]:
    joining = [(str(node["name"]), tuple(node.get("features") or ())) for node in dynamic]
    return [
        Partition(
            name,
            conf.partition_nodes(name, joining),
            all_nodes=declared.nodes_text.upper() == "ALL",
            word=declared.topology or None,
        )
        for name, declared in conf.partitions.items()
    ]


def _dynamic(node: Mapping[str, Any]) -> SlurmNode:
    name = str(node["name"])
    return SlurmNode(name, str(node.get("address") or ""), str(node.get("hostname") or ""), True, _instance_id(node))


def _instance_id(node: Mapping[str, Any]) -> str | None:
    found = node.get("instance_id")
    return found if isinstance(found, str) and found.startswith("i-") else None
