"""Upkeep that settles: when a pass runs and when it does not, and that no change is ever lost."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.app.stage import Stage, labelled, small
from tests.clusters import CPU, P5, unlabelled
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.watch import DRIFT_SECONDS, Ground, Passes
from topology_plugin.core import state_json
from topology_plugin.jobs.simulated_cluster import cluster, in_tree, without_network_data

REFUSED = Answer(1, "", "slurm_reconfigure error: Unspecified error")


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A small cluster whose topology is in force."""
    made = Stage(tmp_path, small())
    made.go(200)
    assert "Topology=tree" in made.room.conf.read_text()
    return made


# --- what a poll costs ---


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


# --- settling ---


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


# --- the distance between reconfigures ---


def test_reconfigures_keep_their_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="0", min_reconfigure_interval="120", poll_seconds="20")
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 60)
    counter = iter(range(17, 60))
    stage.go(600, lambda now: stage.room.write(cluster(P5).with_machines(machines[: next(counter)])))
    assert 4 <= stage.ctld.reconfigures <= 6


def test_what_needs_no_reconfigure_does_not_wait_for_the_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="10", min_reconfigure_interval="600")
    stage.go(30)
    assert stage.ctld.reconfigures == 1
    same = small().with_changed(labelled(small())[0].name, instance_id="i-0fff0000000000001")
    stage.lists(same)
    assert stage.go(30) == ["unchanged"]
    nodes = state_json.load(stage.state()).inventory.nodes
    assert nodes[labelled(small())[0].name].instance_id == "i-0fff0000000000001"


def test_a_change_that_waits_for_the_distance_says_so_and_comes_as_soon_as_it_is_over(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="10", min_reconfigure_interval="250")
    stage.go(30)
    stage.agent(small(24))
    assert stage.go(200) == ["pending"]
    assert "last reconfigure" in stage.state()["last"]["error"]
    assert stage.go(60) == ["applied"]


def test_what_slurmctld_would_die_of_waits_for_no_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="10", min_reconfigure_interval="3000")
    stage.go(30)
    good = stage.yaml.read_bytes()
    stage.yaml.write_text("[]\n")
    assert stage.go(30) == ["applied"]
    assert stage.yaml.read_bytes() == good


# --- failures ---


def test_br_29_a_failed_apply_is_tried_again_without_any_new_change(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.answers = [REFUSED]
    assert stage.go(60) == ["failed"]
    assert not stage.yaml.exists()
    last = stage.state()["last"]
    assert last["result"] == "failed"
    assert last["next_try"] > last["time"]
    assert stage.state()["generation"] is None
    stage.go(400)
    assert "Topology=tree" in stage.room.conf.read_text()
    assert stage.state()["generation"] == 1


def test_failures_in_a_row_back_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.answers = [REFUSED] * 100
    results = stage.go(3600)
    assert set(results) == {"failed"}
    assert 5 <= stage.ctld.reconfigures <= 9
    assert stage.state()["counters"]["failed_in_a_row"] == len(results)


def test_a_new_change_is_tried_without_waiting_for_the_back_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.answers = [REFUSED] * 100
    stage.go(1500)
    stage.ctld.answers = []
    assert stage.watch._next - stage.clock.time > 300
    stage.agent(small(24))
    assert stage.go(60) == ["applied"]


def test_an_unreachable_slurmctld_changes_nothing_and_is_found_when_it_is_back(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.up = False
    before = stage.room.conf.read_bytes()
    stage.go(3600)
    assert stage.room.conf.read_bytes() == before
    assert not stage.yaml.exists()
    assert stage.state()["last"]["code"] == "no-answer"
    assert [sentence for sentence in stage.said if "does not answer" in sentence] == [
        "the pass failed, the former state is kept: slurmctld does not answer, nothing was changed: "
        "Unable to contact slurm controller (connect failure) "
        "(start it, or write the files alone with `merge --offline`: it loads them when it starts)"
    ], "said once, though tried every minute"
    stage.ctld.up = True
    stage.go(70)
    assert "Topology=tree" in stage.room.conf.read_text()


def test_a_vanished_slurm_conf_is_never_made_up_and_is_taken_up_when_it_is_back(stage: Stage) -> None:
    text = stage.room.conf.read_text()
    stage.room.conf.unlink()
    assert set(stage.go(3600)) == {"failed"}
    assert not stage.room.conf.exists()
    assert stage.state()["last"]["result"] == "failed", "nobody takes the former state for today's"
    stage.room.conf.write_text(text)
    assert stage.go(60) == ["unchanged"]


def test_a_topology_file_that_cannot_be_read_ends_the_pass_and_not_the_watch(stage: Stage) -> None:
    good = stage.yaml.read_bytes()
    stage.yaml.unlink()
    stage.yaml.mkdir()
    assert set(stage.go(100)) == {"failed"}
    assert "topology.yaml" in stage.state()["last"]["error"]
    stage.yaml.rmdir()
    stage.go(100)
    assert stage.yaml.read_bytes() == good


def test_a_fault_of_this_program_is_said_and_the_service_goes_on(stage: Stage) -> None:
    class Broken:
        def __init__(self, passes: Passes) -> None:
            self.real = passes

        def __getattr__(self, name: str) -> Any:
            return getattr(self.real, name)

        def run(self, wish: object) -> Any:
            raise ZeroDivisionError("division by zero")

    sound = stage.watch.ground
    stage.watch.ground = Ground(Broken(sound.passes), sound.signs, sound.settings)
    stage.agent(small())
    assert stage.go(100) == ["failed", "failed"]
    assert any("ZeroDivisionError: division by zero (a fault of this program" in said for said in stage.said)
    stage.watch.ground = sound
    stage.go(100)
    assert "Topology=tree" in stage.room.conf.read_text()


# --- jobs ---


def waiting_job(node: str) -> dict[str, Any]:
    return {"job_id": 7, "job_state": ["PENDING"], "partition": "train", "required_nodes": node, "node_count": 1}


def test_pending_jobs_are_waited_for_at_most_max_wait(stage: Stage) -> None:
    stage.go(120)
    *_, last = small().members("worker-p5")
    stage.ctld.job_rows = [waiting_job(last.name)]
    stage.agent(small().without([last.name]))
    assert stage.go(180)[:1] == ["pending"]
    assert "7" in stage.state()["last"]["error"]
    assert last.name in stage.loaded().topologies[0].body.nodes()
    stage.go(60)
    assert last.name not in stage.loaded().topologies[0].body.nodes()


def test_a_change_goes_on_once_the_job_it_waited_for_is_gone(stage: Stage) -> None:
    stage.go(120)
    *_, last = small().members("worker-p5")
    stage.ctld.job_rows = [waiting_job(last.name)]
    stage.agent(small().without([last.name]))
    assert stage.go(60) == ["pending"]
    stage.ctld.job_rows = []
    assert stage.go(60) == ["applied"]


# --- hold, modes, settings ---


def test_a_hold_is_heeded_and_its_end_is_noticed_at_once(stage: Stage) -> None:
    hold = stage.room.registry / "hold.json"
    stage.room.registry.mkdir(parents=True, exist_ok=True)
    hold.write_text(json.dumps({"reason": "maintenance"}))
    stage.agent(small(24))
    stage.go(200)
    joiner = small(24).members("worker-p5")[-1].name
    assert stage.leaf_of(joiner) == f"unplaced-{joiner}"
    hold.unlink()
    stage.go(60)
    assert stage.leaf_of(joiner) == "nn-la2"


def test_a_hold_keeps_the_words_that_the_agent_takes_out(tmp_path: Path) -> None:
    """Else a scale-up during a hold would leave every partition flat, as the default is where there are CPU nodes."""
    cpus = without_network_data("worker-cpu", "ml.c5.9xlarge", 2)
    groups = (P5, CPU)
    p5 = in_tree("worker-p5", "ml.p5.48xlarge", 17)
    stage = Stage(tmp_path, cluster(*groups).with_machines([*p5[:16], *cpus]))
    stage.go(200)
    (stage.room.registry / "hold.json").write_text(json.dumps({"reason": "maintenance"}))
    stage.agent(cluster(*groups).with_machines([*p5, *cpus]))
    stage.go(200)
    assert stage.loaded().words["train"] == "tree"
    assert stage.leaf_of(p5[16].name) == f"unplaced-{p5[16].name}"
    assert stage.leaf_of(p5[0].name) == "nn-la0"


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_in_these_modes_slurms_files_are_never_touched(tmp_path: Path, mode: str) -> None:
    stage = Stage(tmp_path, small(), mode=mode)
    before = {path: path.read_bytes() for path in stage.room.conf.parent.iterdir()}
    assert set(stage.go(1000)) == {"observed"}
    assert {path: path.read_bytes() for path in stage.room.conf.parent.iterdir()} == before
    assert stage.ctld.reconfigures == 0
    assert stage.said.count(f"observed: mode is {mode} (flag --mode): nothing is written") == 1


def settings_file(stage: Stage, text: str) -> None:
    path = stage.room.controller / "etc/hyperpod-topology.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)


def test_changed_settings_are_taken_up_by_the_running_watch(stage: Stage) -> None:
    settings_file(stage, '{"partitions": {"train": {"kind": "flat"}, "dev": {"kind": "flat"}}, "poll_seconds": 5}')
    stage.go(150)
    assert "settings changed: partitions, poll_seconds" in stage.said
    assert stage.watch.ground.settings.poll_seconds == 5
    assert stage.loaded().words["train"] in (None, "flat")


def test_settings_that_cannot_be_used_are_said_once_and_the_former_hold(stage: Stage) -> None:
    before = stage.hash()
    settings_file(stage, '{"settle_secnods": 5}')
    stage.go(700)
    assert len([said for said in stage.said if "settle_secnods" in said]) == 1
    assert stage.hash() == before
    settings_file(stage, '{"mode": "observe"}')
    assert stage.go(60) == ["observed"]


# --- the registry ---


def test_a_registry_that_appears_late_is_taken_up(tmp_path: Path) -> None:
    stage = Stage(tmp_path, unlabelled(small()))
    stage.go(200)
    assert stage.loaded().default.name == "flat"
    for machine in labelled(small()):
        stage.record(machine)
    stage.go(170)
    assert stage.leaf_of(labelled(small())[0].name) == "nn-la0"
    assert (stage.room.registry / "state.json").exists()


def test_a_registry_that_goes_missing_keeps_every_position(tmp_path: Path) -> None:
    stage = Stage(tmp_path, unlabelled(small()))
    for machine in labelled(small()):
        stage.record(machine)
    stage.go(200)
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    (stage.room.registry / "nodes").rename(stage.room.registry / "elsewhere")
    stage.go(900)
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)


def test_a_registry_that_no_longer_answers_at_all_keeps_every_position(tmp_path: Path) -> None:
    stage = Stage(tmp_path, unlabelled(small()))
    for machine in labelled(small()):
        stage.record(machine)
    stage.go(200)
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    stage.room.registry.rename(tmp_path / "unmounted")
    stage.go(900)
    os.mkdir(stage.room.registry)  # noqa: PTH102  an empty mount point
    stage.go(900)
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)


# --- news ---


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
