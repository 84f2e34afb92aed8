"""Jobs that have ended, as sacct remembers them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.json_document import part
from topology_plugin.core.live import Job, number

Row = Mapping[str, Any]


def rows(text: str, where: str = "sacct") -> list[Row]:
    """The jobs of `sacct -X --json` as they stand there. Raises InputError for anything else."""
    try:
        found = json.loads(text)["jobs"]
    except (ValueError, KeyError, TypeError, RecursionError):
        found = None
    if not isinstance(found, list) or not all(isinstance(row, dict) for row in found):
        raise InputError(Issue(where, "is no output of sacct --json", "run sacct -X --json"))
    return found


def jobs(text: str) -> tuple[Job, ...]:
    """Those of `sacct -X --json` that ever had nodes (form of 26.05 with its slurmdbd: run). Raises InputError."""
    return tuple(job for job in map(_job, rows(text)) if job.nodes)


def _job(row: Row) -> Job:
    array, state = part(row.get("array")), part(row.get("state")).get("current")
    task = str(number(array.get("task_id")))
    return Job(
        number(row.get("job_id")),
        str(row.get("name", "")),
        str(row.get("user", "")),
        str(state[0]) if isinstance(state, Sequence) and state else "",
        _nodes(row.get("nodes")),
        str(row.get("partition", "")),
        array=(number(array.get("job_id")), task) if number(array.get("job_id")) else None,
    )


def _nodes(told: object) -> tuple[str, ...]:
    if not isinstance(told, str) or told in ("", "None assigned"):
        return ()
    try:
        return tuple(expand(told))
    except InputError:
        return ()
