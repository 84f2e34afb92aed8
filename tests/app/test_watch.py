"""Upkeep that settles: when a pass runs and when it does not, and that no change is ever lost."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.app.stage import Stage, labelled, small
from tests.clusters import P5, unlabelled
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.watch import DRIFT_SECONDS
from topology_plugin.jobs.simulated_cluster import cluster, in_tree


@contextmanager
def audited() -> Iterator[list[str]]:
    """Files opened and processes started by this process. (The hook stays for good, so it is told to be quiet.)"""
    seen: list[str] = []
    listening = True

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if listening and event in ("open", "subprocess.Popen", "os.posix_spawn", "os.fork"):
            seen.append(f"{event} {arguments[0]}")

    sys.addaudithook(hook)
    try:
        yield seen
    finally:
        listening = False


def test_a_poll_opens_no_file_and_starts_no_process(stage: Stage) -> None:
    for machine in labelled(small()):
        stage.record(machine)
    stage.go(100)
    with audited() as seen:
        for _ in range(5):
            stage.clock.time += 10
            assert stage.watch.poll() is None
        assert seen == []
        stage.yaml.read_bytes()
        assert seen != [], "the hook hears"


def test_an_idle_watch_asks_slurm_for_drift_every_300_s_and_otherwise_never(stage: Stage) -> None:
    calls: list[float] = []
    nodes = stage.ctld.nodes

    def counted() -> list[dict[str, Any]] | None:
        calls.append(stage.clock.time)
        return nodes()

    stage.ctld.nodes = counted  # type: ignore[method-assign]
    stage.go(1800)
    assert len(calls) in (5, 6)


def test_drift_is_found_at_the_latest_after_300_s_and_put_right(stage: Stage) -> None:
    stage.ctld.words["train"] = None  # scontrol update PartitionName=train Topology=
    stage.go(DRIFT_SECONDS + 10)
    assert stage.ctld.words["train"] == "tree"


def test_nothing_is_done_before_a_change_has_settled(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    assert stage.go(50) == []
    assert stage.go(10) == ["applied"]


def test_its_own_writing_is_no_change(stage: Stage) -> None:
    """After the pass that wrote, the next one is for drift."""
    stage.room.write(small())
    applied = stage.go(60)
    assert applied[-1:] == ["applied"]
    assert stage.go(DRIFT_SECONDS - 60) == []


def test_a_change_that_goes_on_is_not_waited_for_longer_than_max_wait(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), max_wait_seconds="100")
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 60)
    counter = iter(range(17, 60))
    stage.go(100, lambda now: stage.room.write(cluster(P5).with_machines(machines[: next(counter)])))
    assert stage.ctld.reconfigures == 0
    stage.go(20, lambda now: stage.room.write(cluster(P5).with_machines(machines[: next(counter)])))
    assert stage.ctld.reconfigures == 1


def agent_rewrites(stage: Stage) -> None:
    stage.agent(small())


def yaml_goes(stage: Stage) -> None:
    stage.yaml.unlink()


def yaml_becomes_empty(stage: Stage) -> None:
    stage.yaml.write_text("[]\n")


def a_leaf_more(stage: Stage) -> None:
    stage.agent(small(24))


def a_label_changes(stage: Stage) -> None:
    known = small().members("worker-p5")[0]
    assert known.label is not None
    label = replace(known.label, path=(*known.label.path[:-1], "nn-la9"))
    stage.lists(small().with_changed(known.name, label=label))


CHANGES = [agent_rewrites, yaml_goes, yaml_becomes_empty, a_leaf_more, a_label_changes]


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_is_answered_once_it_has_settled(stage: Stage, change: Callable[[Stage], None]) -> None:
    before = stage.ctld.reconfigures
    change(stage)
    assert stage.go(60).count("applied") == 1
    assert stage.go(400).count("applied") == 0
    assert stage.ctld.reconfigures - before <= 1


@pytest.mark.parametrize("change", CHANGES)
def test_a_change_during_a_pass_is_a_change_of_its_own(stage: Stage, change: Callable[[Stage], None]) -> None:
    """It comes while slurmctld is being reconfigured, long after the pass looked."""

    def meanwhile() -> Answer | None:
        change(stage)
        return None

    stage.ctld.answers = [meanwhile]
    other = small().without([small().members("worker-p5")[-1].name])
    stage.agent(other)
    stage.go(60)
    assert not stage.ctld.answers
    stage.agent(other) if change is not a_leaf_more else None
    stage.go(170)  # settled, and the distance from the last reconfigure kept: not the 300 s of a look for drift
    fresh = stage.hash()
    stage.go(2 * DRIFT_SECONDS)
    assert stage.hash() == fresh, "nothing was left for a later look"
    assert "Topology=tree" in stage.room.conf.read_text()


def test_a_node_that_registers_during_a_pass_is_not_overlooked(tmp_path: Path) -> None:
    stage = Stage(tmp_path, unlabelled(small()))
    first, *others = labelled(small())
    for machine in others:
        stage.record(machine)

    def meanwhile() -> Answer | None:
        stage.record(first)
        return None

    stage.ctld.answers = [meanwhile]
    stage.go(60)
    assert stage.leaf_of(first.name) == f"unplaced-{first.name}"
    stage.go(140)
    assert stage.leaf_of(first.name) == "nn-la0"


def test_a_record_replaced_twice_between_two_polls_is_seen(tmp_path: Path) -> None:
    """The file system gives the second replacement the inode of the first one."""
    stage = Stage(tmp_path, unlabelled(small()))
    machines = labelled(small())
    for machine in machines:
        stage.record(machine)
    stage.go(200)
    signs = stage.watch.ground.signs
    path = stage.room.registry / "nodes" / f"{machines[0].instance_id}.json"
    before, inode = signs.read(), path.stat().st_ino
    for label in (machines[8].label, machines[9].label, machines[8].label):
        stage.record(replace(machines[0], label=label))
        if path.stat().st_ino == inode:
            break
    assert signs.read() != before


def test_the_same_news_is_said_once(stage: Stage) -> None:
    stage.go(3 * DRIFT_SECONDS)
    said = list(stage.said)
    stage.go(6 * DRIFT_SECONDS)
    assert stage.said == said


def test_a_flood_of_notes_is_cut(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(40))
    document = small(40).resource_config()
    document["InstanceGroups"][2]["Instances"] = []
    stage.document("resource_config.json", document)
    stage.go(60)
    assert len([said for said in stage.said if "no instance is known behind" in said]) <= 20
    assert any("more like these" in said for said in stage.said)
