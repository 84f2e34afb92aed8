"""Synthetic traces have the published moments; real ones come from sacct as it is."""

from __future__ import annotations

import statistics
from pathlib import Path

import pytest

from topology_plugin.core.issues import InputError
from topology_plugin.jobs import traces
from topology_plugin.jobs.traces import PUBLISHED, Mix, TraceJob

CAPTURED = Path(__file__).parents[1] / "captured"


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_sizes_have_the_published_mean_before_jobs_below_a_node_are_left_out(name: str) -> None:
    moments = PUBLISHED[name]
    shares = traces.size_shares(moments, largest=4096, gpus_a_node=1)  # a node of one GPU: nothing is left out
    assert sum(shares.values()) == pytest.approx(1)
    # half of all jobs ask for one GPU; the shares here are those of the other half and of sizes from one GPU
    assert 0.5 + 0.5 * sum(n * s for n, s in shares.items()) == pytest.approx(moments.mean_gpus, rel=1e-6)
    assert max(shares) == moments.most_gpus


def test_run_times_have_the_published_median_and_mean() -> None:
    mix = Mix.published("kalos", 32)
    jobs = traces.synthetic(mix, 20_000, 256, 0.9, seed=5)
    durations = [job.duration for job in jobs]
    assert statistics.median(durations) == pytest.approx(124, rel=0.1)
    # runs beyond 30 means are cut, as is the start-up: a quarter of the mean lies there
    assert 0.65 * 1259.7 < statistics.mean(durations) < 1.1 * 1259.7
    assert all(1.2 * job.duration <= job.limit <= 3 * job.duration for job in jobs)


def test_the_offered_load_is_what_was_asked_for() -> None:
    mix = Mix.published("helios", 16)
    jobs = traces.synthetic(mix, 5_000, 256, 0.5, seed=1)
    assert jobs[-1].submit == pytest.approx(5_000 * mix.mean_nodes * mix.mean_run / (0.5 * 256), rel=0.05)


def test_the_same_seed_gives_the_same_trace_and_another_does_not() -> None:
    mix = Mix.published("seren", 16)
    assert traces.synthetic(mix, 50, 64, 0.9, 1) == traces.synthetic(mix, 50, 64, 0.9, 1)
    assert traces.synthetic(mix, 50, 64, 0.9, 1) != traces.synthetic(mix, 50, 64, 0.9, 2)


def test_other_sizes_keep_the_run_times() -> None:
    mix = Mix.published("kalos", 16).with_sizes({9: 1, 18: 3})
    assert (mix.shares, mix.mean_run) == ({9: 0.25, 18: 0.75}, 1259.689)


def test_an_unknown_mix_is_named() -> None:
    with pytest.raises(InputError, match="kalos, seren, helios, philly"):
        Mix.published("mine", 4)


def test_a_trace_is_read_back_as_it_was_written() -> None:
    jobs = (TraceJob(0, 4, 60, 120), TraceJob(5.5, 1, 30.25, 31))
    assert traces.load(traces.dump(jobs), "t") == jobs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "holds no jobs", id="empty"),
        pytest.param('{"submit": 0}\n', "t:1: is no job", id="no size"),
        pytest.param('{"submit": 0, "nodes": 0, "duration": 1}', "cannot be", id="no nodes"),
        pytest.param('{"submit": 0, "nodes": true, "duration": 1}', "cannot be", id="a truth for a size"),
        pytest.param('{"submit": -1, "nodes": 2, "duration": 1}', "cannot be", id="before the beginning"),
        pytest.param('{"submit": 0, "nodes": 2, "duration": 1e999}', "cannot be", id="for ever"),
        pytest.param("[1, 2]\nnonsense", "t:2: is no job", id="every line is reported"),
    ],
)
def test_what_is_no_trace_is_an_error_with_its_line(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        traces.load(text, "t")


SACCT = """JobIDRaw|Submit|NNodes|ElapsedRaw|TimelimitRaw|State
101|2026-11-01T10:00:00|4|600|60|COMPLETED
101.batch|2026-11-01T10:00:00|1|600||COMPLETED
102|2026-11-01T09:00:00|16|7200|UNLIMITED|CANCELLED by 0
103|2026-11-01T09:30:00|0|0|60|CANCELLED
"""


def test_sacct_becomes_a_trace_that_begins_at_zero() -> None:
    assert traces.from_sacct(SACCT) == (TraceJob(0, 16, 7200, 7200), TraceJob(3600, 4, 600, 3600))


def test_sacct_with_seconds_since_the_epoch_and_more_columns() -> None:
    text = "User|NNodes|Submit|ElapsedRaw\nana|2|1793523600|30\n"
    assert traces.from_sacct(text) == (TraceJob(0, 2, 30, 30),)


@pytest.mark.parametrize("form", ["json", "txt"])
def test_sacct_of_a_real_slurmdbd(form: str) -> None:
    """Both forms of the same jobs; the one that failed at once and the one that never started are left out."""
    found = traces.from_sacct((CAPTURED / f"26.05-sacct.{form}").read_text())
    assert found == (
        TraceJob(0, 2, 3, 3),
        TraceJob(0, 1, 2, 3600),
        TraceJob(0, 1, 2, 3600),
        TraceJob(6, 3, 4, 4),
        TraceJob(12, 1, 12, 12),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("", "no column submit, nnodes, elapsedraw", id="nothing"),
        pytest.param("JobID|State\n1|COMPLETED\n", "no column", id="other columns"),
        pytest.param("Submit|NNodes|ElapsedRaw\nyesterday|2|30\n", "sacct:2", id="no time"),
        pytest.param("Submit|NNodes|ElapsedRaw\n2026-11-01T10:00:00|2|0\n", "no job that ran", id="nothing ran"),
        pytest.param('{"jobs": 3}', "no output of sacct --json", id="other JSON"),
        pytest.param('{"jobs": [{"nodes": "n1"}]}', "job without times", id="no times"),
    ],
)
def test_what_is_no_output_of_sacct_is_an_error(text: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        traces.from_sacct(text)
