"""Placement as Prometheus metrics, for node_exporter's textfile collector."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from topology_plugin.jobs.placement import Placed, summary
from topology_plugin.jobs.room import Room

PREFIX = "hyperpod_topology_"


def text(placed: Iterable[Placed], rooms: Mapping[str, Room]) -> str:
    from prometheus_client import CollectorRegistry, generate_latest

    jobs = list(placed)

    class Jobs:
        def collect(self) -> Iterator[Any]:
            return _families(jobs, rooms)

    registry = CollectorRegistry()
    registry.register(Jobs())
    return generate_latest(registry).decode()


def _families(placed: list[Placed], rooms: Mapping[str, Room]) -> Iterator[Any]:
    about = ["job", "partition"]
    told: tuple[tuple[str, str, Callable[[Placed], float]], ...] = (
        ("job_nodes", "Nodes of a running job.", lambda one: one.size),
        ("job_leaves", "Leaf switches under which a job's nodes lie.", lambda one: one.leaves),
        ("job_leaves_least", "Fewest leaf switches that hold a job of this size.", lambda one: one.least_leaves),
        ("job_blocks", "UltraServers in which a job has nodes.", lambda one: one.blocks),
        ("job_blocks_least", "Fewest UltraServers that hold a job of this size.", lambda one: one.least_blocks),
        ("job_hops_mean", "Switches between two nodes of a job, mean over all pairs.",
         lambda one: round(one.spread.mean_hops, 4)),
        ("job_hops_worst", "Switches between the two nodes of a job that are farthest apart.",
         lambda one: one.spread.worst_hops),
        ("job_pairs_one_leaf", "Share of a job's pairs of nodes under one leaf, 0 to 1.",
         lambda one: round(one.spread.one_leaf, 4)),
    )  # fmt: skip
    for name, help_text, value in told:
        family = _gauge(name, help_text, about)
        for one in placed:
            family.add_metric([one.label, one.job.partition], value(one))
        yield family
    ratio = summary(placed).leaf_ratio
    if ratio is not None:
        mean = _gauge("jobs_leaf_ratio", "Leaves of running jobs over the fewest possible, mean.", [])
        mean.add_metric([], round(ratio, 4))
        yield mean
    idle = _gauge("idle_nodes", "Whole idle nodes of a partition.", ["partition"])
    largest = _gauge("largest_job_now", "Largest job that fits one domain right now.", ["partition", "domain"])
    segments = _gauge(
        "idle_segments", "Idle segments of so many nodes in one UltraServer (or leaf).", ["partition", "size"]
    )
    fragments = _gauge("block_fragments", "Pieces into which jobs break an UltraServer, idle nodes as one.",
                      ["partition", "block"])  # fmt: skip
    for name, found in rooms.items():
        idle.add_metric([name], found.idle)
        largest.add_metric([name, "leaf"], found.leaf)
        largest.add_metric([name, "spine"], found.spine)
        if found.block is not None:
            largest.add_metric([name, "block"], found.block)
        for size, count in found.segments.items():
            segments.add_metric([name, str(size)], count)
        for block in found.blocks:
            fragments.add_metric([name, block.name], block.fragments)
    yield from (idle, largest, segments, fragments)


def _gauge(name: str, help_text: str, labels: list[str]) -> Any:
    from prometheus_client.metrics_core import GaugeMetricFamily

    return GaugeMetricFamily(PREFIX + name, help_text, labels=labels)
