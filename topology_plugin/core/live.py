"""What changes by the minute: node states and jobs, parsed from Slurm's JSON (forms of 24.11 and 26.05: run).

Nothing here decides a topology (a drained node stays in it); it is what views and job commands lay over one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError

# One word a node, from Slurm's base state and flags; `ready` is said of Kubernetes nodes, whose jobs are not known.
STATES = ("idle", "mixed", "allocated", "draining", "drained", "down", "reserved", "ready", "unknown")
# A job may start on these now (a powered-down CLOUD node counts as idle: Slurm resumes it for a job).
FREE = frozenset({"idle"})
OUT = frozenset({"draining", "drained", "down"})

_DOWN = {"DOWN", "FAIL", "FAILING", "NOT_RESPONDING", "NO_RESPOND", "POWERING_DOWN", "INVALID_REG", "FUTURE", "ERROR"}
_RESERVED = {"MAINTENANCE", "MAINT", "RESERVED", "REBOOT_ISSUED", "REBOOT_REQUESTED", "BLOCKED"}


@dataclass(frozen=True)
class Job:
    """One row of squeue. `state`: RUNNING, PENDING, …; `flags`: what Slurm adds to it (CONFIGURING, COMPLETING, …).

    `nodes`: allocated ones, in Slurm's order. `nodes_wanted`: how many it asks for (of a range, its maximum; squeue's
    JSON does not hold the minimum). `required`/`excluded`: of `-w`/`-x`. `switches`/`switch_wait`: of `--switches`
    (count; seconds Slurm really waits). `segment`: of `--segment` (0: none, or a Slurm that doesn't tell: 24.11).
    `time_limit` in minutes, None: unlimited. `array`: (array job id, task ids as Slurm writes them) or None.
    `submit_time`, `start_time`: seconds since the epoch on the controller; 0: none.
    """

    id: int
    name: str = ""
    user: str = ""
    state: str = "PENDING"
    nodes: tuple[str, ...] = ()
    partition: str = ""
    reason: str = ""
    nodes_wanted: int = 0
    flags: tuple[str, ...] = ()
    description: str = ""
    required: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    switches: int = 0
    switch_wait: int = 0
    segment: int = 0
    exclusive: bool = False
    tasks: int = 0
    array: tuple[int, str] | None = None
    priority: int = 0
    held: bool = False
    account: str = ""
    time_limit: int | None = None
    submit_time: int = 0
    start_time: int = 0
    submit_line: str = ""

    @property
    def running(self) -> bool:
        """Holds nodes now (also while they boot, complete or are suspended)."""
        return bool(self.nodes) and self.state in ("RUNNING", "COMPLETING", "SUSPENDED", "CONFIGURING", "STOPPED")

    @property
    def pending(self) -> bool:
        return self.state == "PENDING"

    @property
    def label(self) -> str:
        """The id as squeue writes it: `17`, `17_3`, `17_[4-9]`."""
        if self.array is None:
            return str(self.id)
        task = self.array[1]
        return f"{self.array[0]}_{task}" if task.isdigit() else f"{self.array[0]}_[{task}]"

    @property
    def partitions(self) -> tuple[str, ...]:
        """A pending job may name several."""
        return tuple(part for part in self.partition.split(",") if part)


@dataclass(frozen=True)
class Live:
    """`states`: node → one of STATES; `reasons`: node → why it is drained or down; `jobs`: running and pending.

    `jobs_known` False: squeue gave no answer (an empty `jobs` then says nothing).
    """

    states: Mapping[str, str] = field(default_factory=dict)
    jobs: tuple[Job, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)
    jobs_known: bool = True

    @classmethod
    def parse(cls, nodes: Sequence[Mapping[str, Any]] | None, jobs: Sequence[Mapping[str, Any]] | None) -> Live:
        """From `scontrol show nodes --json`'s `nodes` and `squeue --json`'s `jobs`; None: no answer."""
        states: dict[str, str] = {}
        reasons: dict[str, str] = {}
        for node in nodes or ():
            name = str(node.get("name", ""))
            if name:
                states[name] = node_state(node.get("state"))
                if node.get("reason"):
                    reasons[name] = str(node["reason"])
        rows = tuple(sorted((job(row) for row in jobs or ()), key=lambda j: (j.id, j.label)))
        return cls(states, rows, reasons, jobs is not None)

    @property
    def running(self) -> tuple[Job, ...]:
        return tuple(job for job in self.jobs if job.running)

    @property
    def pending(self) -> tuple[Job, ...]:
        return tuple(job for job in self.jobs if job.pending)

    def jobs_on(self) -> dict[str, tuple[Job, ...]]:
        """Node → the jobs that hold it, by id."""
        found: dict[str, list[Job]] = {}
        for row in self.running:
            for node in row.nodes:
                found.setdefault(node, []).append(row)
        return {node: tuple(rows) for node, rows in found.items()}

    def free(self, nodes: Iterable[str]) -> int:
        """How many of `nodes` a job could get right now, whole."""
        return sum(1 for node in nodes if self.states.get(node) in FREE)


def node_state(raw: Any) -> str:
    """One of STATES from Slurm's list of base state and flags (a plain string in older forms)."""
    return _state(tuple(map(str, raw if isinstance(raw, (list, tuple)) else str(raw or "").split("+"))))


@lru_cache(maxsize=1024)
def _state(flags: tuple[str, ...]) -> str:
    """Thousands of nodes are in a handful of states."""
    words = {flag.upper() for flag in flags}
    busy = words & {"ALLOCATED", "MIXED", "COMPLETING"}
    if "DOWN" in words:
        return "down"
    if "DRAIN" in words or "DRAINED" in words or "DRAINING" in words:
        return "draining" if busy else "drained"
    if words & _DOWN:
        return "down"
    if busy:
        return "mixed" if "MIXED" in words else "allocated"
    if words & _RESERVED:
        return "reserved"
    return "idle" if words & {"IDLE", "PLANNED"} else "unknown"


def job(row: Mapping[str, Any]) -> Job:
    """A Job from one object of `squeue --json`. Unknown or missing keys give the field's empty value."""
    raw_states = row.get("job_state")
    states = [str(s) for s in raw_states] if isinstance(raw_states, list) else [str(raw_states or "UNKNOWN")]
    array_id, task = number(row.get("array_job_id")), row.get("array_task_id")
    tasks = str(row.get("array_task_string") or "")
    one = number(task, none=True)
    array = (array_id, tasks if tasks else str(one)) if array_id and (tasks or one is not None) else None
    resources = row.get("job_resources")
    whole = isinstance(resources, dict) and bool((resources.get("nodes") or {}).get("whole"))
    shared = row.get("shared")
    limit = row.get("time_limit")
    unlimited = isinstance(limit, dict) and (bool(limit.get("infinite")) or not limit.get("set"))
    return Job(
        id=number(row.get("job_id")),
        name=str(row.get("name") or ""),
        user=str(row.get("user_name") or row.get("user_id") or ""),
        state=states[0] if states else "UNKNOWN",
        flags=tuple(states[1:]),
        nodes=_names(row.get("nodes")),
        partition=str(row.get("partition") or ""),
        reason=_reason(row.get("state_reason")),
        description=str(row.get("state_description") or ""),
        nodes_wanted=number(row.get("node_count")),
        required=_names(row.get("required_nodes")),
        excluded=_names(row.get("excluded_nodes")),
        switches=number(row.get("required_switches")),
        switch_wait=number(row.get("maximum_switch_wait_time")),
        segment=number(row.get("segment_size")),
        # 24.11 says shared ["none"] for exclusive jobs, 26.05 drops it but marks running ones "whole" (run).
        exclusive=whole or shared == "none" or (isinstance(shared, list) and "none" in shared),
        tasks=number(row.get("tasks")),
        array=array,
        priority=number(row.get("priority")),
        held=bool(row.get("hold")),
        account=str(row.get("account") or ""),
        time_limit=None if limit is None or unlimited else number(limit),
        submit_time=number(row.get("submit_time")),
        start_time=number(row.get("start_time")),
        submit_line=str(row.get("submit_line") or ""),
    )


def number(raw: Any, none: bool = False) -> Any:
    """Slurm's `{"set": …, "infinite": …, "number": …}` or a plain number as int; unset is 0 (None if `none`)."""
    if isinstance(raw, dict):
        raw = raw.get("number") if raw.get("set") and not raw.get("infinite") else None
    if isinstance(raw, (int, float)) and not isinstance(raw, bool):
        return int(raw)
    return None if none else 0


def _names(raw: Any) -> tuple[str, ...]:
    if not isinstance(raw, str) or not raw:
        return ()
    try:
        return tuple(expand(raw))
    except InputError:  # a node list that only slurmctld can read: no names rather than wrong ones
        return ()


def _reason(raw: Any) -> str:
    text = str(raw or "")
    return "" if text == "None" else text
