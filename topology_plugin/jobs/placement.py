"""Where jobs lie: leaves, spines, UltraServers used against the fewest possible; how far their nodes are apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topology_plugin.core.hostlists import fold
from topology_plugin.core.live import Job
from topology_plugin.jobs.distance import Network, Spread
from topology_plugin.jobs.levels import fewest


@dataclass(frozen=True)
class Placed:
    """One job's place. `least_…`: the fewest that hold a job of this size in an empty partition.

    `per_block`: UltraServer → how many of the job's nodes; `fragments`: into how many UltraServers the job is broken,
    those included of which it has only some nodes (0: the partition has none). `outside`: nodes of the job that the
    partition does not have (any more).
    """

    job: Job
    spread: Spread
    leaves: int
    least_leaves: int
    spines: int
    least_spines: int
    blocks: int
    least_blocks: int
    per_block: Mapping[str, int] = field(default_factory=dict)
    outside: int = 0

    @property
    def label(self) -> str:
        """The job's; of nodes that were named instead of one, their list."""
        return self.job.label if self.job.id else fold(self.job.nodes)

    @property
    def size(self) -> int:
        return len(self.job.nodes)

    @property
    def leaf_ratio(self) -> float:
        return self.leaves / self.least_leaves if self.least_leaves else 1.0

    @property
    def block_ratio(self) -> float:
        return self.blocks / self.least_blocks if self.least_blocks else 1.0

    def to_json(self) -> dict[str, Any]:
        """Stable keys, documented in docs/placement.md."""
        return {
            "job": self.label,
            "name": self.job.name,
            "user": self.job.user,
            "state": self.job.state,
            "partition": self.job.partition,
            "nodes": self.size,
            "leaves": self.leaves,
            "least_leaves": self.least_leaves,
            "spines": self.spines,
            "least_spines": self.least_spines,
            "blocks": self.blocks,
            "least_blocks": self.least_blocks,
            "per_block": dict(self.per_block),
            "mean_hops": round(self.spread.mean_hops, 3),
            "worst_hops": self.spread.worst_hops,
            "one_leaf_share": round(self.spread.one_leaf, 4),
            "unplaced": self.spread.unplaced,
            "outside": self.outside,
        }


def place(job: Job, network: Network) -> Placed:
    """The job's nodes in its partition's network."""
    nodes = job.nodes
    per_block = Counter(block for node in nodes if (block := network.block(node)))
    loose = sum(1 for node in nodes if network.block(node) is None)
    has_blocks = bool(network.blocks)
    return Placed(
        job=job,
        spread=network.spread(nodes),
        leaves=len({network.leaf(node) for node in nodes}),
        least_leaves=fewest(network.leaf_sizes, len(nodes)),
        spines=len({network.spine(node) for node in nodes}),
        least_spines=fewest(network.spine_sizes, len(nodes)),
        blocks=len(per_block) + loose if has_blocks else 0,
        least_blocks=fewest(network.block_sizes, len(nodes)),
        per_block=dict(sorted(per_block.items())),
        outside=sum(1 for node in nodes if node not in network.members),
    )


@dataclass(frozen=True)
class Summary:
    """Means over jobs of at least two nodes (one node is always near to itself); None where there is no such job."""

    jobs: int
    leaf_ratio: float | None
    block_ratio: float | None
    mean_hops: float | None
    worst_hops: float | None
    one_leaf: float | None

    def to_json(self) -> dict[str, Any]:
        shown = {key: None if value is None else round(value, 4) for key, value in vars(self).items() if key != "jobs"}
        return {"jobs": self.jobs, **shown}


def summary(placed: Sequence[Placed]) -> Summary:
    wide = [one for one in placed if one.size > 1]
    blocked = [one for one in wide if one.least_blocks]
    return Summary(
        jobs=len(wide),
        leaf_ratio=_mean([one.leaf_ratio for one in wide]),
        block_ratio=_mean([one.block_ratio for one in blocked]),
        mean_hops=_mean([one.spread.mean_hops for one in wide]),
        worst_hops=_mean([float(one.spread.worst_hops) for one in wide]),
        one_leaf=_mean([one.spread.one_leaf for one in wide]),
    )


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def rows(placed: Iterable[Placed]) -> list[list[str]]:
    """Cells for a table, under HEAD."""
    return [
        [
            one.label,
            one.job.name or "-",
            one.job.partition,
            str(one.size),
            _against(one.leaves, one.least_leaves),
            _against(one.spines, one.least_spines),
            _against(one.blocks, one.least_blocks) if one.least_blocks else "-",
            f"{one.spread.mean_hops:.2f}",
            str(one.spread.worst_hops),
            f"{100 * one.spread.one_leaf:.0f} %",
            " ".join(f"{block}:{count}" for block, count in one.per_block.items()) or "-",
            _notes(one),
        ]
        for one in placed
    ]


HEAD = ["job", "name", "partition", "nodes", "leaves", "spines", "blocks", "mean hops", "worst", "one leaf",
        "per block", ""]  # fmt: skip


def _against(used: int, least: int) -> str:
    return f"{used}" if used == least else f"{used} (of {least})"


def _notes(one: Placed) -> str:
    notes = []
    if one.spread.unplaced:
        notes.append(f"{one.spread.unplaced} unplaced")
    if one.outside:
        notes.append(f"{one.outside} no longer in the partition")
    return ", ".join(notes)
