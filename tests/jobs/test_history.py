"""What sacct prints becomes jobs; what it prints of jobs without nodes does not."""

from __future__ import annotations

import pytest

from topology_plugin.core.live import Job
from topology_plugin.jobs import history

ENDED = Job(17, "llama", "ana", "COMPLETED", ("n1", "n2"), "train")
TASK = Job(18, "a|b", "bo", "CANCELLED", ("n7",), "train", array=(18, "3"))


@pytest.mark.parametrize(
    ("line", "jobs"),
    [
        pytest.param("17|ana|train|COMPLETED|n[1-2]|llama", (ENDED,), id="ended"),
        pytest.param("18_3|bo|train|CANCELLED by 1000|n7|a|b", (TASK,), id="a task, a name with the separator"),
        pytest.param("19|ana|train|CANCELLED|None assigned|x", (), id="never started"),
        pytest.param("20|ana|train|FAILED||x", (), id="no nodes"),
        pytest.param("21|ana|train|FAILED|n[1-|x", (), id="a broken list"),
        pytest.param("too|few", (), id="another table"),
    ],
)  # fmt: skip
def test_jobs_of_sacct(line: str, jobs: tuple[Job, ...]) -> None:
    assert history.jobs(line + "\n") == jobs
