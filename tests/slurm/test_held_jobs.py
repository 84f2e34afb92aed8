"""Jobs under a change: running ones go on, those that it got held are listed and let go again, exactly those."""

from __future__ import annotations

import time

import pytest

from tests.clusters import P5
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import Counted, CountedSlurm, killed_at, points, reconciler
from tests.slurm.room import Room
from topology_plugin.adapters.slurm import Slurm
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.held import settle_jobs
from topology_plugin.app.reconcile import Wish
from topology_plugin.jobs.simulated_cluster import cluster, in_tree

CLUSTER = cluster(P5).with_machines(
    [*in_tree("worker-p5", "ml.p5.48xlarge", 8, subnet="10.1", fabric="a"),
     *in_tree("worker-p5", "ml.p5.48xlarge", 8, subnet="10.2", fabric="b")]
)  # fmt: skip
TOGETHER = {"separate_fabrics": False}
APART = {"separate_fabrics": True}  # no job can have nodes on both sides: 9 to 16 nodes are impossible


@pytest.fixture
def here(room: NewRoom) -> Room:
    made = room()
    made.registry.mkdir(parents=True)
    made.boot(CLUSTER)
    assert made.merge(**TOGETHER).state.last.result == "applied"
    return made


def held_by_slurm(room: Room, job: int, *running: int) -> None:
    """Slurm looks at the job, finds it never runnable and holds it: once nodes are free and another job comes (run)."""
    room.ctld.cancel(*running)
    room.ctld.submit("-p", "train", "-N1")
    room.ctld.wait_pending(job, "BadConstraints")
    assert room.ctld.job(job).priority == 0


def busy(room: Room) -> int:
    """A job on every node, so that others wait."""
    job = room.ctld.submit("-p", "train", "-N16")
    assert len(room.ctld.wait_running(job)) == 16
    return job


def test_a_job_made_never_runnable_is_listed_and_released_once_it_can_run(here: Room) -> None:
    ctld = here.ctld
    running = busy(here)
    nodes = ctld.job(running).nodes
    wide, narrow, their_own = (ctld.submit("-p", "train", size) for size in ("-N12", "-N2", "-N12"))
    ctld.scontrol("hold", str(their_own))
    plan = here.merge(dry_run=True, **APART)
    assert {concern.job.id for concern in plan.diff.jobs if concern.lost} == {wide, their_own}
    assert here.merge(**APART).state.last.result == "applied"
    assert ctld.job(running).nodes == nodes, "the running job goes on"
    held_by_slurm(here, wide, running)
    assert here.merge(**APART).state.held == (wide,), "listed by the next pass"

    outcome = here.merge(**TOGETHER)
    assert outcome.applied is not None and outcome.applied.released == (wide,)
    assert len(ctld.wait_running(wide)) == 12
    assert ctld.job(their_own).priority == 0 and ctld.job(their_own).reason in ("JobHeldAdmin", "JobHeldUser")
    assert len(ctld.wait_running(narrow)) == 2
    assert here.merge(**TOGETHER).state.held == ()


def test_one_that_can_still_not_run_is_held_again_and_stays_remembered(here: Room) -> None:
    running = busy(here)
    wide = here.ctld.submit("-p", "train", "-N12")
    here.merge(**APART)
    held_by_slurm(here, wide, running)
    assert here.merge(**APART).state.held == (wide,)
    outcome = here.merge(**APART, max_unplaced_leaves=1, partitions='{"train": {"separate_fabrics": true}}')
    assert outcome.state.last.result == "applied"
    here.ctld.submit("-p", "train", "-N1")
    here.ctld.wait_pending(wide, "BadConstraints")
    assert here.merge(**APART, partitions='{"train": {"separate_fabrics": true}}').state.held == (wide,)


def test_one_that_was_held_before_our_change_is_not_released(here: Room) -> None:
    running = busy(here)
    wide = here.ctld.submit("-p", "train", "-N12")
    here.merge(**APART)
    held_by_slurm(here, wide, running)
    (here.wiring().places.state_dir / "jobs.json").unlink()  # as if the hold were none of our doing
    (here.registry / "jobs.json").unlink(missing_ok=True)
    outcome = here.merge(**TOGETHER)
    assert outcome.applied is not None and outcome.applied.released == ()
    time.sleep(1.5)
    assert here.ctld.job(wide).priority == 0


def test_a_rollback_releases_what_the_change_got_held(here: Room) -> None:
    running = busy(here)
    wide = here.ctld.submit("-p", "train", "-N12")
    here.merge(**APART)
    held_by_slurm(here, wide, running)
    done = here.on_controller("rollback", "--rehearse", "never")
    assert done.returncode == 0, done.stderr
    assert "generation 1 is in force as generation 3" in done.stdout
    assert len(here.ctld.wait_running(wide)) == 12


def test_a_killed_pass_still_tells_which_jobs_it_got_held(here: Room) -> None:
    running = busy(here)
    wide = here.ctld.submit("-p", "train", "-N12")
    names = [what for _, what in points(here, **APART)]  # a whole pass, to know where its reconfigure is
    here.ctld.cancel(wide)
    here.merge(**TOGETHER)
    wide = here.ctld.submit("-p", "train", "-N12")
    assert killed_at(here, names.index("after reconfigure"), **APART)
    held_by_slurm(here, wide, running)
    assert settle_jobs(here.wiring().doors())[0] == (wide,)
    here.merge(**TOGETHER)
    assert len(here.ctld.wait_running(wide)) == 12


def test_an_undo_releases_what_the_failed_change_got_held(here: Room) -> None:
    running = busy(here)
    wide = here.ctld.submit("-p", "train", "-N12")

    times = [0]

    def interferes(operation: str, what: str) -> None:
        times[0] += what == "after reconfigure"
        if what == "after reconfigure" and times[0] == 1:
            held_by_slurm(here, wide, running)
            here.ctld.scontrol("update", "PartitionName=dev", "Topology=tree-train")

    def slurm(real: Slurm) -> CountedSlurm:
        return CountedSlurm(real, interferes)

    made = reconciler(
        here, Counted(lambda *_: None), slurm, partitions='{"train": {"separate_fabrics": true}}', **TOGETHER
    )
    with pytest.raises(ApplyFailed):
        made.run(Wish())
    assert len(here.ctld.wait_running(wide)) == 12


def test_running_jobs_survive_guard_rollback_uninstall_and_restarts(here: Room) -> None:
    running = busy(here)
    nodes = here.ctld.job(running).nodes
    here.merge(**APART)
    for command in (["guard"], ["rollback", "--rehearse", "never"], ["resume"], ["uninstall"]):
        done = here.on_controller(*command)
        assert done.returncode == 0, (command, done.stderr)
        assert here.ctld.job(running).nodes == nodes
    here.ctld.restart()
    assert here.ctld.job(running).nodes == nodes and here.ctld.job(running).state in ("CONFIGURING", "RUNNING")
