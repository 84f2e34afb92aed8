"""What playing a trace showed, and the tables that compare policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from topology_plugin.jobs.placement import Placed, Summary


@dataclass(frozen=True)
class Outcome:
    """Times in seconds of the trace. `started`: jobs that ran, those with a lost node again counted once; `refused`: by
    sbatch; `held`: given up by Slurm (they would wait for good); `waiting`: left when nothing ran any more.

    `near`: against the fewest leaves and UltraServers of an empty cluster. `then`: leaves over the fewest that the idle
    nodes of the moment offered, mean: what Slurm's choice costs without what the jobs before it left. `occupancy`:
    share of node time in use from when the cluster first was full until the last arrival; where it never was, of the
    whole play. `never`: sizes that were refused, with Slurm's words. `by_size`: nodes, starts, mean leaves and mean
    UltraServers over the fewest possible.
    """

    policy: str
    jobs: int
    started: int
    refused: int
    held: int
    waiting: int
    near: Summary
    then: float | None
    mean_wait: float
    p95_wait: float
    occupancy: float
    lost_nodes: int
    reloads: int
    span: float
    never: tuple[tuple[int, str], ...] = ()
    by_size: tuple[tuple[int, int, float, float], ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Stable keys, documented in docs/placement.md."""
        shown = {key: round(value, 4) if isinstance(value, float) else value for key, value in vars(self).items()}
        shown["near"] = self.near.to_json()
        shown["never"] = [{"nodes": nodes, "words": words} for nodes, words in self.never]
        shown["by_size"] = [
            {"nodes": n, "jobs": jobs, "leaf_ratio": round(leaf, 4), "block_ratio": round(block, 4)}
            for n, jobs, leaf, block in self.by_size
        ]
        return shown


def by_size(placed: Sequence[Placed]) -> tuple[tuple[int, int, float, float], ...]:
    found = []
    for size in sorted({one.size for one in placed}):
        those = [one for one in placed if one.size == size]
        leaf = sum(one.leaf_ratio for one in those) / len(those)
        block = sum(one.block_ratio for one in those) / len(those)
        found.append((size, len(those), leaf, block))
    return tuple(found)


HEAD = ["policy", "started", "refused", "held", "left", "leaves x", "leaves x then", "UltraServers x", "mean hops",
        "worst pair", "mean wait", "p95 wait", "occupancy", "lost", "reconfigured"]  # fmt: skip


def rows(outcomes: Sequence[Outcome]) -> list[list[str]]:
    """Cells for a table, under HEAD. `x`: over the fewest possible, mean over jobs of two nodes and more."""
    return [
        [
            one.policy,
            f"{one.started} (of {one.jobs})",
            str(one.refused),
            str(one.held),
            str(one.waiting),
            _number(one.near.leaf_ratio),
            _number(one.then),
            _number(one.near.block_ratio),
            _number(one.near.mean_hops),
            _number(one.near.worst_hops),
            span(one.mean_wait),
            span(one.p95_wait),
            f"{100 * one.occupancy:.0f} %",
            str(one.lost_nodes),
            str(one.reloads),
        ]
        for one in outcomes
    ]


def size_rows(outcomes: Sequence[Outcome], blocks: bool) -> tuple[list[str], list[list[str]]]:
    """Leaves (or UltraServers) over the fewest possible by job size: heading and rows."""
    sizes = sorted({size for one in outcomes for size, *_ in one.by_size if size > 1})
    cells = []
    for one in outcomes:
        known = {size: (block if blocks else leaf) for size, _, leaf, block in one.by_size}
        cells.append([one.policy, *(_number(known.get(size)) for size in sizes)])
    return ["nodes of the job", *map(str, sizes)], cells


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def span(seconds: float) -> str:
    """`4.2 h`, `13 min`, `0 s`."""
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.0f} min" if seconds >= 90 else f"{seconds:.0f} s"
