"""Jobs that have ended, as sacct remembers them."""

from __future__ import annotations

from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError
from topology_plugin.core.live import Job

# Asked for with -X (no steps), --parsable2 and --noheader. The name comes last: it may hold the separator.
FIELDS = ("JobID", "User", "Partition", "State", "NodeList", "JobName")


def jobs(text: str) -> tuple[Job, ...]:
    """Jobs from `sacct -X --parsable2 --noheader --format=FIELDS`; those that never had nodes are left out."""
    found = []
    for line in text.splitlines():
        cells = line.split("|", len(FIELDS) - 1)
        if len(cells) != len(FIELDS):
            continue
        label, user, partition, state, nodes, name = cells
        try:
            names = tuple(expand(nodes)) if nodes and nodes != "None assigned" else ()
        except InputError:
            names = ()
        head, _, task = label.partition("_")
        if not names or not head.isdigit():
            continue
        # "CANCELLED by 0": the word alone is the state
        array = (int(head), task) if task else None
        found.append(Job(int(head), name, user, state.split()[0] if state else "", names, partition, array=array))
    return tuple(found)
