"""`explain` finds what is meant, by any name that people have at hand."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.states import inventory, live, state
from topology_plugin.app.explain import subject
from topology_plugin.core.issues import InputError
from topology_plugin.core.live import Job, Live

STATE = state()
LIVE = live(STATE)


@pytest.mark.parametrize(
    ("target", "kind", "name"),
    [
        ("ip-10-1-0-3", "node", "ip-10-1-0-3"),
        ("node:ip-10-1-0-3", "node", "ip-10-1-0-3"),
        ("i-0a000000000000002", "node", "ip-10-1-0-3"),
        ("worker-a-3", "node", "ip-10-1-0-3"),
        ("10.1.0.3", "node", "ip-10-1-0-3"),
        ("train", "partition", "train"),
        ("partition:train", "partition", "train"),
        ("job:104", "job", "104"),
        ("104", "job", "104"),
    ],
)
def test_names_ids_and_addresses_lead_to_the_same(target: str, kind: str, name: str) -> None:
    found = subject(STATE, LIVE, target)
    assert (found.kind, found.name) == (kind, name)


def test_array_tasks_are_found_while_they_wait_as_a_whole_and_alone() -> None:
    jobs = (Job(5, array=(5, "2-9")), Job(6, array=(5, "1")))
    assert subject(STATE, Live({}, jobs), "job:5_1").job == jobs[1]
    assert subject(STATE, Live({}, jobs), "job:5_7").job == jobs[0]


@pytest.mark.parametrize(
    ("target", "words"),
    [
        ("ip-10-1-0-333", "did you mean ip-10-1-0-3"),
        ("trian", "did you mean train"),
        ("job:999", "squeue does not list it"),
        ("partition:ip-10-1-0-3", "is no node, partition or job"),
    ],
)
def test_an_unknown_name_is_an_error_with_near_names(target: str, words: str) -> None:
    with pytest.raises(InputError, match=words.replace("(", r"\(")):
        subject(STATE, LIVE, target)


@pytest.mark.parametrize("seen", [None, Live(jobs_known=False)], ids=["no-slurm", "no-squeue"])
def test_without_squeue_a_job_cannot_be_explained(seen: Live | None) -> None:
    with pytest.raises(InputError, match="slurmctld does not answer here"):
        subject(STATE, seen, "job:104")


def test_where_a_node_has_a_partitions_name_the_node_is_meant_unless_said_otherwise() -> None:
    seen = inventory(2, 0, 0)
    odd = replace(
        seen, partitions={**seen.partitions, "ip-10-1-0-1": replace(seen.partitions["train"], name="ip-10-1-0-1")}
    )
    of = state(odd)
    assert subject(of, None, "ip-10-1-0-1").kind == "node"
    assert subject(of, None, "partition:ip-10-1-0-1").kind == "partition"
