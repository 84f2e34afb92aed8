"""A cluster that grows, shrinks, is repaired and drained: small changes stay small, jobs keep running."""

from __future__ import annotations

from dataclasses import replace

from tests.clusters import P5
from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room, assert_second_pass_does_nothing
from topology_plugin.core.position import Position
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    cluster,
    in_tree,
)


def test_a_cluster_that_changes_keeps_running_jobs_and_small_changes_small(room: NewRoom) -> None:
    """Scale up, down, replacement on the same and on another leaf and under a new name; a job runs through it all."""
    start = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))
    here = room()
    here.boot(start)
    here.merge()
    nodes = [m.name for m in start.members("worker-p5")]
    running = here.ctld.submit("-p", "train", "-w", nodes[0])
    here.ctld.wait_running(running)

    more = start.with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 8, first=17))
    lines = changed_lines(here, more)
    assert "nn-la2" in here.leaves("tree")
    assert len(lines) <= 8, lines

    fewer = more.without(nodes[8:11])
    lines = changed_lines(here, fewer)
    assert set(nodes[8:11]).isdisjoint(set(here.in_force().topologies[0].body.nodes()))
    assert len(lines) <= 2, lines

    same = fewer.with_changed(nodes[1], instance_id="i-0fff0000000000001")
    assert changed_lines(here, same) == set()

    label = Position(("nn-1a0", "nn-sa0", "nn-la2"))
    moved = same.with_changed(nodes[2], instance_id="i-0fff0000000000002", label=label)
    lines = changed_lines(here, moved)
    assert nodes[2] in here.leaves("tree")["nn-la2"]
    assert len(lines) <= 4, lines

    victim = moved.node(nodes[3])
    renamed = moved.without([victim.name]).with_machines(
        [replace(victim, address="10.1.9.9", instance_id="i-0fff0000000000003")]
    )
    changed_lines(here, renamed)
    assert "ip-10-1-9-9" in here.leaves("tree")["nn-la0"]
    assert victim.name not in here.leaves("tree")["nn-la0"]
    assert here.ctld.job(running).nodes == (nodes[0],)


def changed_lines(here: Room, simulated: SimulatedCluster) -> set[str]:
    """The cluster becomes this one; the lines of topology.yaml that a pass then changes."""
    before = here.yaml.read_text().splitlines()
    here.change(simulated)
    here.merge()
    after = here.yaml.read_text().splitlines()
    assert_second_pass_does_nothing(here)
    return set(before) ^ set(after)


def test_drained_down_and_powered_down_nodes_stay_members(room: NewRoom) -> None:
    start = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))
    here = room()
    here.boot(start)
    here.merge()
    before = here.yaml.read_bytes()
    names = [m.name for m in start.members("worker-p5")]
    here.ctld.scontrol("update", f"NodeName={names[0]}", "State=DRAIN", "Reason=test")
    here.ctld.scontrol("update", f"NodeName={names[1]}", "State=DOWN", "Reason=test")
    here.ctld.scontrol("update", f"NodeName={names[2]}", "State=POWER_DOWN")
    assert here.merge().state.last.result == "unchanged"
    assert here.yaml.read_bytes() == before
    here.ctld.scontrol("update", f"NodeName={names[0]}", "State=RESUME")
    assert here.runs_on("-p", "train", "-w", names[0]) == [names[0]]
