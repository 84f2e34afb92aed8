"""What `explain` is asked about: a node, a partition or a job, found by any of its names."""

from __future__ import annotations

import difflib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from topology_plugin.core.explanation import mentions
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.live import Job, Live
from topology_plugin.core.state import State

if TYPE_CHECKING:
    from topology_plugin.app.wiring import Wiring

Kind = Literal["node", "partition", "job"]
KINDS: tuple[Kind, ...] = ("node", "partition", "job")


@dataclass(frozen=True)
class Subject:
    """`name`: the node's or partition's name, or the job's label; `job` only for jobs."""

    kind: Kind
    name: str
    job: Job | None = None


def subject(state: State, live: Live | None, target: str) -> Subject:
    """`job:17`, `job:17_3`, a node by name, instance id, instance name or address, or a partition; `node:` and
    `partition:` decide where both exist. Raises InputError with near names."""
    kind, separator, name = target.partition(":")
    if not separator or kind not in KINDS:
        kind, name = "", target
    if kind == "job":
        return _job(live, name)
    if kind in ("", "node"):
        found = _node(state, name)
        if found is not None:
            return Subject("node", found)
    if kind in ("", "partition") and name in state.inventory.partitions:
        return Subject("partition", name)
    if kind == "" and live is not None and any(name in (str(job.id), job.label) for job in live.jobs):
        return _job(live, name)
    nodes = [] if kind == "partition" else list(state.inventory.nodes)
    partitions = [] if kind == "node" else list(state.inventory.partitions)
    near = difflib.get_close_matches(name, [*partitions, *nodes], 3)
    hint = f"did you mean {' or '.join(near)}?" if near else "nodes and partitions are those of slurm.conf; job:ID"
    raise InputError(Issue(target or "''", "is no node, partition or job that is known", hint))


def faults(wiring: Wiring, found: Subject) -> tuple[str, ...]:
    """What is wrong on disk that concerns a node or partition: what slurmctld would die of concerns all of them; of the
    rest whatever names it or its topology. () where slurm.conf cannot be read."""
    from topology_plugin.core.rules import unhealthy
    from topology_plugin.core.validation import check_files

    try:
        disk = wiring.doors().live.disk()
    except (InputError, OSError):
        return ()
    every = check_files(disk.conf, disk.topology_yaml, disk.topology_conf, wiring.judge.numbers)
    deadly = set(unhealthy(every))
    word = disk.words.get(found.name) if found.kind == "partition" else None
    names = [found.name] + ([f"topology {word}"] if word else [])
    return tuple(
        str(one) for one in every if one in deadly or any(mentions(name, f"{one.where} {one.what}") for name in names)
    )


def _node(state: State, name: str) -> str | None:
    if name in state.inventory.nodes or any(name in p.nodes for p in state.inventory.partitions.values()):
        return name
    for node in state.inventory.nodes.values():
        if name in (node.instance_id, node.instance_name) or name in node.addresses:
            return node.name
    return None


def _job(live: Live | None, name: str) -> Subject:
    if live is None or not live.jobs_known:
        what = "slurmctld does not answer here, so jobs are not known"
        raise InputError(Issue(f"job:{name}", what, "start it, or run this where Slurm can be asked"))
    for job in live.jobs:
        if name in (job.label, str(job.id)):
            return Subject("job", job.label, job)
    for job in live.jobs:  # a task of an array that still waits as a whole
        if job.array is not None and name.partition("_")[0] == str(job.array[0]):
            return Subject("job", job.label, job)
    what = "squeue does not list it (finished jobs are sacct's)"
    raise InputError(Issue(f"job:{name}", what, "squeue shows the ids of jobs that wait or run"))
