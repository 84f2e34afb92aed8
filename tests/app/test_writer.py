"""Several controllers, one writer: the others observe, say so, and take over when it is gone."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.app.stage import Stage, labelled, small
from topology_plugin.adapters.cluster_lock import ClusterLock
from topology_plugin.adapters.mounts import SystemMounts
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app import ownership
from topology_plugin.app.reconcile import Wish
from topology_plugin.app.rollback import Rollback
from topology_plugin.app.uninstall import uninstall
from topology_plugin.app.watch import DRIFT_SECONDS
from topology_plugin.core.issues import PassError

HEAD = "ClusterName=c1\nSlurmctldHost=ctl-a(10.1.0.5)\nSlurmctldHost=ctl-b(10.1.0.6)\n"
A_IS_UP = "Slurmctld(primary) at ctl-a is UP\nSlurmctld(backup) at ctl-b is UP\n"
A_IS_DOWN = "Slurmctld(primary) at ctl-a is DOWN\nSlurmctld(backup) at ctl-b is UP\n"


class Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def answers_to(self, name: str, address: str = "") -> bool:
        return name == self.name


def refuses(fd: int, operation: int) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


def two(directory: Path, *, locks: bool = True) -> tuple[Stage, Stage]:
    """Two controllers with one registry and one slurm.conf, each with a disk of its own."""
    registry = directory / "a/fsx/hyperpod-topology"
    registry.mkdir(parents=True)
    made: list[Stage] = []
    for name in ("a", "b"):
        state_dir = directory / name / "state"
        lock = None if locks else ClusterLock(lambda: registry, state_dir / "pass.lock", SystemMounts(), refuses)
        beside = made[0] if made else None
        host = Named(f"ctl-{name}")
        made.append(
            Stage(directory / "a", small(), host=host, lock=lock, head=HEAD, beside=beside, state_dir=str(state_dir))
        )
    made[0].ctld.pinged = A_IS_UP
    return made[0], made[1]


def together(a: Stage, b: Stage, seconds: float) -> tuple[list[str], list[str]]:
    """Both poll at the same times; results of a and of b."""
    found: tuple[list[str], list[str]] = ([], [])
    end = a.clock.time + seconds
    while a.clock.time < end:
        a.clock.time += 10
        for stage, results in zip((a, b), found, strict=True):
            outcome = stage.watch.poll()
            if outcome is not None:
                results.append(outcome.state.last.result)
    return found


@pytest.mark.parametrize("locks", [True, False], ids=["by-lock", "by-active-controller"])
def test_one_watch_writes_and_the_other_observes_and_says_so(tmp_path: Path, locks: bool) -> None:
    a, b = two(tmp_path, locks=locks)
    writes, observes = together(a, b, 1000)
    assert writes[0] == "applied"
    assert set(observes) == {"observed"}
    assert a.ctld.reconfigures == 1
    who = f"process {os.getpid()} on {os.uname().nodename} writes for this cluster" if locks else "ctl-a is the active"
    assert len([said for said in b.said if who in said]) == 1
    assert not (tmp_path / "b/state/state.json").exists(), "the observer keeps no state that could win some day"
    assert a.state()["last"]["result"] == "unchanged"
    assert a.state()["counters"]["passes"] == len(writes)


def test_the_other_takes_over_as_soon_as_the_writer_stops(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    together(a, b, 200)
    a.watch.ground.passes.leave()
    a.agent(small(24))
    b.go(60)
    assert "the controller that wrote is gone: writing from now on" in b.said
    assert b.results == ["applied"]
    assert b.leaf_of(small(24).members("worker-p5")[-1].name) == "nn-la2"
    assert a.go(100) == ["observed"], "and now the first one observes"


def test_where_there_are_no_locks_the_one_that_slurm_calls_active_writes(tmp_path: Path) -> None:
    a, b = two(tmp_path, locks=False)
    together(a, b, 100)
    a.ctld.pinged = A_IS_DOWN
    a.agent(small(24))
    writes_not, writes = together(a, b, DRIFT_SECONDS)
    assert set(writes_not) == {"observed"}
    assert writes[0] == "applied"


def test_a_single_controller_needs_neither_lock_nor_name(tmp_path: Path) -> None:
    lock = ClusterLock(lambda: None, tmp_path / "state/pass.lock", SystemMounts(), refuses)
    stage = Stage(tmp_path, small(), host=Named("?"), lock=lock, head="ClusterName=c1\nSlurmctldHost=ctl-a\n")
    assert stage.go(100) == ["applied"]


def test_merge_by_hand_works_beside_the_watch_of_the_same_machine(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    together(a, b, 100)
    a.agent(small(24))
    assert a.fresh_wiring().reconciler().run(Wish()).state.last.result == "applied"
    assert a.go(100) in (["unchanged"], ["unchanged", "unchanged"])


def test_merge_on_another_controller_observes_and_says_who_writes(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    together(a, b, 100)
    a.agent(small(24))
    before = a.room.conf.read_bytes()
    outcome = b.fresh_wiring().reconciler().run(Wish())
    assert outcome.state.last.result == "observed"
    assert outcome.state.owner.owner == "another controller"
    assert f"process {os.getpid()} on" in outcome.state.owner.reason
    assert a.room.conf.read_bytes() == before


def test_rollback_and_uninstall_on_another_controller_fail_and_say_where_to_go(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    together(a, b, 100)
    before = a.room.conf.read_bytes()
    wiring = b.fresh_wiring()
    with pytest.raises(PassError, match=r"writes for this cluster .*; do it there"):
        Rollback.of(wiring, b.said.append).run(1)
    with pytest.raises(PassError, match="do it there"):
        uninstall(wiring.doors())
    assert a.room.conf.read_bytes() == before
    assert not (a.room.registry / "hold.json").exists()


def test_a_pass_of_another_controller_is_waited_for_and_a_watch_is_not(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    with a.fresh_wiring().writer().turn() as turn:
        assert turn.mine
        begin = b.clock.time
        with pytest.raises(PassError, match="another pass is under way"):
            b.fresh_wiring().reconciler().run(Wish())
        assert 25 <= b.clock.time - begin <= 35
    with a.fresh_wiring().writer(stays=True).turn():
        begin = b.clock.time
        assert b.fresh_wiring().reconciler().run(Wish()).state.last.result == "observed"
        assert b.clock.time == begin


def test_offline_the_first_that_slurm_conf_lists_writes_where_there_are_no_locks(tmp_path: Path) -> None:
    """Before slurmctld first starts nobody can be asked."""
    a, b = two(tmp_path, locks=False)
    a.ctld.pinged = A_IS_DOWN
    assert b.fresh_wiring().reconciler().run(Wish(offline=True)).state.last.result == "observed"
    assert a.fresh_wiring().reconciler().run(Wish(offline=True)).state.last.result == "applied"


def test_dry_runs_and_reading_commands_ask_nobody(tmp_path: Path) -> None:
    a, b = two(tmp_path)
    together(a, b, 100)
    a.agent(small(24))
    assert b.fresh_wiring().reconciler().run(Wish(dry_run=True)).plan


def test_records_are_no_matter_of_turns(tmp_path: Path) -> None:
    """A node registers whoever writes."""
    a, b = two(tmp_path)
    together(a, b, 100)
    assert b.record(labelled(small())[0])


@pytest.mark.parametrize("locks", [True, False], ids=["by-lock", "by-active-controller"])
def test_what_was_uninstalled_is_not_put_back_by_any_controller_until_resume(tmp_path: Path, locks: bool) -> None:
    a, b = two(tmp_path, locks=locks)
    before = a.room.conf.read_bytes()
    together(a, b, 100)
    assert a.room.conf.read_bytes() != before
    uninstall(a.fresh_wiring().doors())
    assert a.room.conf.read_bytes() == before
    assert {*together(a, b, 300)[0]} == {"observed"}, "the watch beside which it was uninstalled"
    a.watch.ground.passes.leave()  # its service is stopped, and the other one is relieved
    a.ctld.pinged = A_IS_DOWN
    a.agent(small(24))
    assert set(b.go(DRIFT_SECONDS)) == {"observed"}
    assert any("uninstalled: nothing is written" in said for said in b.said)
    assert (a.room.conf.read_bytes().count(b"Topology="), a.yaml.exists()) == (0, False)
    assert b.state()["counters"]["agent_reverts"] == 0
    wiring = b.fresh_wiring()
    assert ownership.resume(wiring.doors()) == ("no longer uninstalled",)
    assert "applied" in b.go(100)


def test_an_uninstall_that_fails_leaves_passes_as_they_were(tmp_path: Path) -> None:
    a, _ = two(tmp_path)
    a.go(100)
    a.ctld.answers = [Answer(1, "", "slurm_reconfigure error: no")]
    with pytest.raises(PassError):
        uninstall(a.fresh_wiring().doors())
    a.agent(small(24))
    assert "applied" in a.go(600)
