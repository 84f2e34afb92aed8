"""Prometheus metrics of a State, as the text that node_exporter's textfile collector reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from topology_plugin.core.state import State
from topology_plugin.core.topology import Blocks, Tree
from topology_plugin.core.tree import UNPLACED_ALL
from topology_plugin.views.scene import Scene, View, arrange

if TYPE_CHECKING:
    from prometheus_client.metrics_core import Metric

PREFIX = "hyperpod_topology_"


def text(state: State) -> str:
    """All metrics in Prometheus' text form. Counters are totals since the state began, kept across re-images."""
    from prometheus_client import CollectorRegistry, generate_latest

    class Collector:
        def collect(self) -> Iterable[Metric]:
            return families(state)

    registry = CollectorRegistry()
    registry.register(Collector())
    return generate_latest(registry).decode()


def families(state: State) -> Iterator[Metric]:
    """One family a metric; those about nodes show what is in force (desired where that is not known)."""
    scene = arrange(state)
    yield from _about_nodes(scene)
    yield from _about_topologies(scene)
    yield from _about_passes(state)


def _about_nodes(scene: Scene) -> Iterator[Metric]:
    nodes = _gauge("nodes", "Nodes of a partition; placed: whether their position is known.",
                   ["partition", "topology", "kind", "placed"])  # fmt: skip
    uncovered = _gauge("uncovered_nodes", "Nodes of a partition in no switch or block: jobs there are refused.",
                       ["partition"])  # fmt: skip
    refused = _gauge("refused_sizes", "Job sizes that a partition cannot run although flat could.", ["partition"])
    for view in scene.views:
        for partition in view.partitions:
            members = scene.state.inventory.partitions[partition].nodes
            lost = sum(1 for node in members if node in view.unplaced)
            unheld = set(view.uncovered)
            bare = sum(1 for node in members if node in unheld)
            if view.kind == "flat":  # a position is of no use there, so nothing is missing
                nodes.add_metric([partition, view.name, view.kind, "unneeded"], len(members))
            else:
                nodes.add_metric([partition, view.name, view.kind, "true"], len(members) - lost - bare)
                nodes.add_metric([partition, view.name, view.kind, "false"], lost + bare)
            uncovered.add_metric([partition], bare)
            refused.add_metric([partition], sum(high - low + 1 for low, high in view.refused.get(partition, ())))
    yield from (nodes, uncovered, refused)


def _about_topologies(scene: Scene) -> Iterator[Metric]:
    switches = _gauge("switches", "Switches of a tree; slurmctld's cost grows with their cube.", ["topology"])
    blocks = _gauge("blocks", "Blocks that hold nodes.", ["topology"])
    short = _gauge("short_blocks", "Blocks with fewer nodes than the base size.", ["topology"])
    shared = _gauge("unplaced_sharing_a_leaf", "Unplaced nodes in one common leaf, which only look near to each other.",
                    ["topology"])  # fmt: skip
    for topology in scene.configuration.topologies:
        body = topology.body
        if isinstance(body, Tree):
            switches.add_metric([topology.name], len(body.switches))
            shared.add_metric([topology.name], sum(len(s.nodes) for s in body.switches if s.name == UNPLACED_ALL))
        elif isinstance(body, Blocks):
            filled = [block for block in body.blocks if block.nodes]
            view = next(view for view in scene.views if view.name == topology.name)
            blocks.add_metric([topology.name], len(filled))
            short.add_metric([topology.name], _short(view))
    yield from (switches, blocks, short, shared)


def _short(view: View) -> int:
    base = view.sizes[0]
    return sum(1 for unit in view.units if unit.role == "block" and not unit.unplaced and unit.size < base)


def _about_passes(state: State) -> Iterator[Metric]:
    counters = state.counters
    yield _counter("passes", "Merge passes.", counters.passes)
    yield _counter("reconfigures", "scontrol reconfigure calls.", counters.reconfigures)
    yield _counter("reconfigure_seconds", "Seconds that reconfigures took until they were read back.",
                   counters.reconfigure_seconds)  # fmt: skip
    failures = _counter("failures", "Passes that failed, by reason.", None, ["reason"])
    for reason, count in sorted(counters.failures.items()):
        failures.add_metric([reason], count)
    yield failures
    yield _counter("agent_reverts", "Times HyperPod's agent took our words or files back.", counters.agent_reverts)
    yield _value("failed_in_a_row", "Passes that failed since one last succeeded.", counters.failed_in_a_row)
    yield _value("drift", "1 if in force differs from what the last pass wanted.", int(state.drift))
    yield _value("hold", "1 if passes only add joiners as unplaced until resume.", int(state.hold))
    yield _value("writes", "1 if this product may write the topology here.", int(state.owner.writes))
    yield _value(
        "held_jobs", "Pending jobs that an apply got held by Slurm and that wait for release.", len(state.held)
    )
    yield _value("last_pass_timestamp_seconds", "When the last pass ended.", state.last.time)
    if counters.last_success is not None:
        yield _value("last_success_timestamp_seconds", "When a pass last succeeded.", counters.last_success)
    if state.generation is not None:
        yield _value("generation", "Number of the generation in force.", state.generation)
    info = _gauge(
        "info", "Always 1; what is installed and who owns the topology.", ["version", "slurm_version", "owner"]
    )
    info.add_metric([state.version, state.slurm_version or "", state.owner.owner], 1)
    yield info


def _gauge(name: str, help_text: str, labels: list[str]) -> Any:
    from prometheus_client.metrics_core import GaugeMetricFamily

    return GaugeMetricFamily(PREFIX + name, help_text, labels=labels)


def _value(name: str, help_text: str, value: float) -> Any:
    from prometheus_client.metrics_core import GaugeMetricFamily

    return GaugeMetricFamily(PREFIX + name, help_text, value=value)


def _counter(name: str, help_text: str, value: float | None, labels: list[str] | None = None) -> Any:
    from prometheus_client.metrics_core import CounterMetricFamily

    return CounterMetricFamily(PREFIX + name, help_text, value=value, labels=labels)
