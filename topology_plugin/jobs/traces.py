"""Job traces: synthetic ones with published sizes and durations, and real ones from sacct.

A trace is a file of JSON lines, `{"submit": s, "nodes": n, "duration": s, "limit": s}` each, times in seconds.

The published moments are those of `data/cluster_summary.csv` in github.com/InternLM/AcmeTrace, the data of Hu et al.,
"Characterization of Large Language Model Development in the Datacenter" (NSDI '24), which gives Acme's two clusters
(Seren, Kalos) and the earlier traces Helios (Hu et al., SC '21) and Philly (Jeon et al., ATC '19) in one form.
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timezone
from typing import Any

from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.live import number
from topology_plugin.jobs import history

GPUS_A_NODE = 8


@dataclass(frozen=True)
class TraceJob:
    """`submit`: seconds since the trace began; `duration`: how long it would run undisturbed; `limit`: of `-t`."""

    submit: float
    nodes: int
    duration: float
    limit: float

    def to_json(self) -> dict[str, Any]:
        return {key: round(value, 3) for key, value in vars(self).items()}


@dataclass(frozen=True)
class Moments:
    """What is published of a cluster's GPU jobs: run times in seconds, sizes in GPUs (of which the median is 1)."""

    mean_run: float
    median_run: float
    mean_gpus: float
    most_gpus: int


# avg_run_time_gpu, med_run_time_gpu, avg_gpu_num, max_gpu of cluster_summary.csv (Helios' largest job: 2,048 GPUs).
PUBLISHED: Mapping[str, Moments] = {
    "kalos": Moments(1259.689, 124, 26.77, 1024),
    "seren": Moments(1414.335, 122, 5.68, 1024),
    "helios": Moments(6651.681, 206, 3.716, 2048),
    "philly": Moments(18006.055, 874, 1.928, 128),
}


def size_shares(moments: Moments, largest: int, gpus_a_node: int = GPUS_A_NODE) -> dict[int, float]:
    """Nodes → share of the jobs that take whole nodes, at most `largest` of them.

    Sizes are powers of two of GPUs. Half of all jobs ask for one GPU (the published median); the others fall off
    geometrically such that the published mean comes out. Jobs below a node share nodes and say nothing of a network:
    they are left out, as are those above `largest`.
    """
    steps = moments.most_gpus.bit_length() - 1
    low, high = 0.01, 3.0
    for _ in range(60):
        ratio = (low + high) / 2
        weights = [ratio**k for k in range(1, steps + 1)]
        mean = 0.5 + 0.5 * sum(w * 2**k for k, w in enumerate(weights, 1)) / sum(weights)
        low, high = (ratio, high) if mean < moments.mean_gpus else (low, ratio)
    sizes = {2**k // gpus_a_node: ratio**k for k in range(1, steps + 1) if gpus_a_node <= 2**k}
    kept = {nodes: weight for nodes, weight in sizes.items() if nodes <= largest}
    if not kept:
        raise ValueError(f"no job of this mix fits {largest} nodes of {gpus_a_node} GPUs")
    return {nodes: weight / sum(kept.values()) for nodes, weight in kept.items()}


@dataclass(frozen=True)
class Mix:
    """Nodes → share; run times are log-normal with the published mean and median."""

    shares: Mapping[int, float]
    mean_run: float
    median_run: float

    @classmethod
    def published(cls, name: str, largest: int, gpus_a_node: int = GPUS_A_NODE) -> Mix:
        """InputError for a name that is not in PUBLISHED."""
        if name not in PUBLISHED:
            raise InputError(Issue("mix", f"{name!r} is no published mix", "known are " + ", ".join(PUBLISHED)))
        moments = PUBLISHED[name]
        return cls(size_shares(moments, largest, gpus_a_node), moments.mean_run, moments.median_run)

    def with_sizes(self, shares: Mapping[int, float]) -> Mix:
        """The same run times for other sizes, such as multiples of an UltraServer's 18 nodes."""
        total = sum(shares.values())
        return replace(self, shares={nodes: share / total for nodes, share in shares.items()})

    @property
    def mean_nodes(self) -> float:
        return sum(nodes * share for nodes, share in self.shares.items())


def synthetic(mix: Mix, count: int, cluster_nodes: int, load: float, seed: int) -> tuple[TraceJob, ...]:
    """`count` jobs that arrive at random (Poisson) with `load` times the cluster's capacity on average.

    The same arguments give the same trace. Limits are 1.2 to 3 times what a job really needs, as users ask for more.
    """
    chance = random.Random(seed)  # noqa: S311 (a reproducible trace, not a secret)
    sigma = math.sqrt(2 * math.log(mix.mean_run / mix.median_run))
    sizes, shares = list(mix.shares), list(mix.shares.values())
    gap = mix.mean_nodes * mix.mean_run / (load * cluster_nodes)
    now = 0.0
    jobs = []
    for _ in range(count):
        now += chance.expovariate(1 / gap)
        # Runs of seconds are all start-up, runs of weeks would leave the rest of the trace no cluster.
        duration = min(max(chance.lognormvariate(math.log(mix.median_run), sigma), 30.0), 30 * mix.mean_run)
        nodes = chance.choices(sizes, shares)[0]
        jobs.append(TraceJob(now, nodes, duration, duration * chance.uniform(1.2, 3)))
    return tuple(jobs)


def dump(jobs: Iterable[TraceJob]) -> str:
    return "".join(json.dumps(job.to_json()) + "\n" for job in jobs)


def load(text: str, where: str) -> tuple[TraceJob, ...]:
    """Jobs from JSON lines, by submit time. Raises InputError with every line that is no job."""
    issues: list[Issue] = []
    jobs: list[TraceJob] = []
    for at, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            one = TraceJob(
                float(row["submit"]), row["nodes"], float(row["duration"]), float(row.get("limit", row["duration"]))
            )
        except (ValueError, KeyError, TypeError, AttributeError):
            issues.append(Issue(f"{where}:{at}", "is no job", 'write {"submit": s, "nodes": n, "duration": s}'))
            continue
        times = (one.submit, one.duration, one.limit)
        if type(one.nodes) is not int or one.nodes < 1 or not all(0 <= t < math.inf for t in times):
            issues.append(Issue(f"{where}:{at}", "has a size or a time that cannot be", "nodes ≥ 1, seconds ≥ 0"))
            continue
        jobs.append(one)
    if not jobs and not issues:
        issues.append(Issue(where, "holds no jobs", 'write {"submit": s, "nodes": n, "duration": s}, one a line'))
    if issues:
        raise InputError(issues)
    return tuple(sorted(jobs, key=lambda job: job.submit))


def from_sacct(text: str, where: str = "sacct") -> tuple[TraceJob, ...]:
    """Jobs from `sacct -X --parsable2 --format=Submit,NNodes,ElapsedRaw,TimelimitRaw` (more columns do no harm) or
    from `sacct -X --json`. Jobs that never ran are left out. Raises InputError for anything else."""
    rows = _json_rows(text, where) if text.lstrip().startswith("{") else _table_rows(text, where)
    ran = [row for row in rows if row.nodes > 0 and row.duration > 0]
    if not ran:
        raise InputError(Issue(where, "holds no job that ran", "choose a longer period: sacct -S 2026-01-01"))
    begin = min(row.submit for row in ran)
    return tuple(sorted((replace(row, submit=row.submit - begin) for row in ran), key=lambda job: job.submit))


def _table_rows(text: str, where: str) -> list[TraceJob]:
    lines = [line for line in text.splitlines() if line.strip()]
    head = [name.strip().lower() for name in lines[0].split("|")] if lines else []
    needed = ("submit", "nnodes", "elapsedraw")
    if missing := [name for name in needed if name not in head]:
        wanted = "sacct -X --parsable2 --format=JobIDRaw,Submit,NNodes,ElapsedRaw,TimelimitRaw"
        raise InputError(Issue(where, f"has no column {', '.join(missing)}", f"run {wanted}"))
    steps = head.index("jobidraw") if "jobidraw" in head else head.index("jobid") if "jobid" in head else None
    found, issues = [], []
    for at, line in enumerate(lines[1:], 2):
        cells = [cell.strip() for cell in line.split("|")]
        if steps is not None and steps < len(cells) and "." in cells[steps]:
            continue  # a job's step, where -X was forgotten
        row = dict(zip(head, cells, strict=False))
        try:
            duration = float(row["elapsedraw"] or 0)
            limit = row.get("timelimitraw", "")
            wanted_time = float(limit) * 60 if re.fullmatch(r"[0-9]+", limit) else duration
            found.append(TraceJob(_seconds(row["submit"]), int(row["nnodes"]), duration, max(duration, wanted_time)))
        except (ValueError, KeyError):
            issues.append(Issue(f"{where}:{at}", "is no job of sacct's", "pass sacct's output as it is"))
    if issues:
        raise InputError(issues)
    return found


def _seconds(text: str) -> float:
    if re.fullmatch(r"[0-9]+", text):
        return float(text)
    return datetime.fromisoformat(text).replace(tzinfo=timezone.utc).timestamp()


def _json_rows(text: str, where: str) -> list[TraceJob]:
    try:
        return [
            TraceJob(
                float(number(row["time"]["submission"])),
                number(row["allocation_nodes"]),
                float(number(row["time"]["elapsed"])),
                max(float(number(row["time"]["elapsed"])), 60.0 * number(row["time"].get("limit"))),
            )
            for row in history.rows(text, where)
        ]
    except (KeyError, TypeError, AttributeError):
        raise InputError(Issue(where, "holds a job without times", "pass sacct's output as it is")) from None
