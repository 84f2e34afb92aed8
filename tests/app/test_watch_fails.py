"""Passes that fail: the watch goes on, tries again, and backs off."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.app.stage import Stage, small
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.watch import Ground, Passes

REFUSED = Answer(1, "", "slurm_reconfigure error: Unspecified error")


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
