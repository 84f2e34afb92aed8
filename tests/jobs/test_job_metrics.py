"""Placement as metrics that Prometheus can read."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tests import states
from topology_plugin.core.live import Job
from topology_plugin.jobs import distance, metrics
from topology_plugin.jobs.placement import place
from topology_plugin.jobs.room import room

STATE = states.state()


def test_jobs_and_room_become_gauges_with_labels() -> None:
    ultra = distance.of_state(STATE, "ultra")
    job = Job(7, 'a "name"', "ana", "RUNNING", (ultra.nodes[0], ultra.nodes[20]), "ultra", array=(7, "3"))
    text = metrics.text([place(job, ultra)], {"ultra": room(ultra, states.live(STATE))})
    found = {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }
    about = (("job", "7_3"), ("partition", "ultra"))
    assert found[("hyperpod_topology_job_blocks", *about)] == 2
    assert found[("hyperpod_topology_job_blocks_least", *about)] == 1
    assert found[("hyperpod_topology_jobs_leaf_ratio",)] == 2
    assert found["hyperpod_topology_largest_job_now", ("domain", "block"), ("partition", "ultra")] == 18
    assert found["hyperpod_topology_idle_segments", ("partition", "ultra"), ("size", "16")] == 1


def test_no_jobs_are_no_error() -> None:
    assert "hyperpod_topology_jobs_leaf_ratio" not in metrics.text([], {})
