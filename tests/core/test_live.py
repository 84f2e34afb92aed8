"""Node states and jobs from what real controllers answered (tests/captured: 26.05.5 and 24.11.5)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from topology_plugin.core.live import STATES, Job, Live, node_state

CAPTURED = Path(__file__).parents[1] / "captured"


def captured(version: str) -> Live:
    nodes: Any = json.loads((CAPTURED / f"{version}-nodes.json").read_text())["nodes"]
    jobs: Any = json.loads((CAPTURED / f"{version}-squeue.json").read_text())["jobs"]
    return Live.parse(nodes, jobs)


@pytest.mark.parametrize("version", ["26.05", "24.11"])
def test_a_running_job_has_its_nodes_and_a_pending_one_what_it_asks_for(version: str) -> None:
    jobs = {job.name: job for job in captured(version).jobs}
    assert len(jobs) == 7
    assert jobs["big"].running and not jobs["big"].pending
    assert jobs["big"].nodes == ("ip-10-1-1-11", "ip-10-1-1-12", "ip-10-1-1-13", "ip-10-1-1-14")
    assert jobs["big"].exclusive and "CONFIGURING" in jobs["big"].flags
    assert jobs["waits"].pending and jobs["waits"].nodes_wanted == 6 and jobs["waits"].reason == "Resources"
    assert (jobs["range"].switches, jobs["range"].switch_wait, jobs["range"].nodes_wanted) == (1, 300, 3)
    assert jobs["wish"].required == ("ip-10-1-1-18",)
    assert jobs["held"].held and jobs["held"].excluded == ("ip-10-1-1-11",) and jobs["held"].priority == 0
    assert jobs["arr"].label == "5_[0-3]" and jobs["waits"].label == "2"
    assert jobs["waits"].time_limit is None
    assert jobs["tasks"].tasks == 7


def test_only_a_slurm_that_tells_gives_segments() -> None:
    assert {j.name: j.segment for j in captured("26.05").jobs}["wish"] == 1
    assert {j.name: j.segment for j in captured("24.11").jobs}["wish"] == 0


@pytest.mark.parametrize("version", ["26.05", "24.11"])
def test_node_states_are_one_word_each(version: str) -> None:
    live = captured(version)
    assert live.states == {
        **{f"ip-10-1-1-{i}": "allocated" for i in range(11, 15)},
        "ip-10-1-1-15": "idle", "ip-10-1-1-16": "down", "ip-10-1-1-17": "drained", "ip-10-1-1-18": "idle",
    }  # fmt: skip
    assert live.reasons == {"ip-10-1-1-16": "dead", "ip-10-1-1-17": "bad nic"}
    assert live.free(live.states) == 2
    assert [job.id for job in live.jobs_on()["ip-10-1-1-12"]] == [1]
    assert "ip-10-1-1-15" not in live.jobs_on()


@pytest.mark.parametrize(
    ("raw", "word"),
    [
        (["IDLE"], "idle"),
        (["IDLE", "CLOUD", "POWERED_DOWN"], "idle"),
        (["IDLE", "PLANNED"], "idle"),
        (["IDLE", "DRAIN"], "drained"),
        (["MIXED", "DRAIN"], "draining"),
        (["ALLOCATED", "COMPLETING"], "allocated"),
        (["IDLE", "COMPLETING"], "allocated"),
        (["MIXED"], "mixed"),
        (["DOWN", "NOT_RESPONDING"], "down"),
        (["DOWN", "DRAIN"], "down"),
        (["IDLE", "NOT_RESPONDING"], "down"),
        (["ALLOCATED", "NOT_RESPONDING"], "down"),
        (["IDLE", "MAINTENANCE", "RESERVED"], "reserved"),
        (["UNKNOWN"], "unknown"),
        ("IDLE+CLOUD", "idle"),
        (None, "unknown"),
        ([], "unknown"),
    ],
)
def test_every_combination_of_flags_gives_a_known_word(raw: Any, word: str) -> None:
    assert node_state(raw) == word
    assert word in STATES


def test_no_answer_is_not_no_jobs() -> None:
    assert not Live.parse(None, None).jobs_known
    assert Live.parse([], []).jobs_known


@pytest.mark.parametrize("row", [{}, {"job_id": 3, "nodes": "switch{a}", "job_state": "PENDING", "node_count": 4}])
def test_a_row_with_missing_or_strange_fields_is_still_a_job(row: dict[str, Any]) -> None:
    (job,) = Live.parse([], [row]).jobs
    assert job.id == row.get("job_id", 0) and job.nodes == () and not job.running


def test_an_array_task_is_named_as_squeue_names_it() -> None:
    assert Job(7, array=(5, "2")).label == "5_2"
    assert Job(5, array=(5, "0-3")).label == "5_[0-3]"
