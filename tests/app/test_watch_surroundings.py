"""Settings and a registry that change, come late or go, under a watch that runs."""

from __future__ import annotations

import os
from pathlib import Path

from tests.app.stage import Stage, labelled, small
from tests.clusters import unlabelled


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
