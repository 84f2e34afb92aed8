"""What sacct remembers becomes jobs; what never had nodes does not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from topology_plugin.core.issues import InputError
from topology_plugin.core.live import Job
from topology_plugin.jobs import history

SACCT = Path(__file__).parents[1] / "captured" / "26.05-sacct.json"


def test_the_jobs_of_a_real_slurmdbd() -> None:
    assert history.jobs(SACCT.read_text()) == (
        Job(1, "llama", "root", "COMPLETED", ("real-1", "real-2"), "train"),
        Job(3, "a|b", "root", "COMPLETED", ("real-3",), "train", array=(2, "3")),
        Job(2, "a|b", "root", "COMPLETED", ("real-4",), "train", array=(2, "4")),
        Job(4, "fails", "root", "FAILED", ("real-1",), "train"),
        Job(5, "ended", "root", "CANCELLED", ("real-2", "real-3", "real-4"), "train"),
        Job(7, "runs", "root", "RUNNING", ("real-1",), "train"),
    )


@pytest.mark.parametrize(
    "row",
    [
        pytest.param({"nodes": "None assigned"}, id="never started"),
        pytest.param({"nodes": ""}, id="no nodes"),
        pytest.param({"nodes": "n[1-"}, id="a broken list"),
        pytest.param({"nodes": 7, "array": 3, "state": "RUNNING"}, id="other forms"),
        pytest.param({}, id="nothing"),
    ],
)
def test_a_row_without_nodes_is_no_job(row: dict[str, object]) -> None:
    assert history.jobs(json.dumps({"jobs": [row]})) == ()


@pytest.mark.parametrize("text", ["", "JobID|State", "[]", '{"jobs": 3}', '{"jobs": [3]}', "[" * 100_000])
def test_what_is_no_output_of_sacct_is_an_error(text: str) -> None:
    with pytest.raises(InputError, match="no output of sacct --json"):
        history.jobs(text)
