"""`explain job:` against a real slurmctld: what it calls impossible is refused, what it says waits waits, and what it
advises lets the job run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from tests.states import inventory, state, without
from topology_plugin.adapters.private_slurmctld import CommandFailed
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.job_explanation import JobWhy, explain_job
from topology_plugin.core.live import Job, Live
from topology_plugin.core.state import State
from topology_plugin.core.topology import Tree
from topology_plugin.core.topology_yaml import render


def started(slurmctld: NewCluster, seen: Inventory) -> tuple[State, Cluster]:
    of = state(seen)
    nodes = "\n".join(f"NodeName={name} State=CLOUD CPUs=1" for name in seen.nodes)
    partitions = []
    for partition in seen.partitions.values():
        word = of.desired.words[partition.name]
        topology = f" Topology={word}" if word else ""
        members = ",".join(partition.nodes)
        partitions.append(f"PartitionName={partition.name} Nodes={members} MaxTime=INFINITE{topology}")
    return of, slurmctld(nodes, "\n".join(partitions), topology=render(of.desired))


def live_of(cluster: Cluster) -> Live:
    slurm = cluster.slurm
    return Live.parse(slurm.nodes(), slurm.jobs())


def explained(of: State, cluster: Cluster, job_id: int) -> JobWhy:
    seen = live_of(cluster)
    return explain_job(of, seen, next(job for job in seen.jobs if job.id == job_id))


def wait_until(condition: Callable[[], bool], timeout: float = 15) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def short_blocks() -> Inventory:
    """UltraServers of 17, 17 and 18 nodes."""
    return without(inventory(8, 54, 0), "ip-10-9-0-1", "ip-10-9-1-1")


def block(of: State, number: int, count: int) -> str:
    names = [n for n in of.inventory.nodes if n.startswith(f"ip-10-9-{number}-")]
    return ",".join(names[:count])


def test_sizes_and_segments_are_called_impossible_exactly_where_slurm_refuses_them(slurmctld: NewCluster) -> None:
    of, cluster = started(slurmctld, short_blocks())
    idle = Live(dict.fromkeys(of.inventory.nodes, "idle"))
    shapes = [(nodes, 0) for nodes in (1, 17, 18, 19, 34, 35, 36, 37, 51, 52)]
    shapes += [
        (20, 10),
        (20, 7),
        (34, 17),
        (48, 16),
        (51, 17),
        (52, 13),
        (36, 18),
        (36, 9),
        (40, 8),
        (45, 9),
        (54, 9),
        (35, 5),
    ]
    shapes += [(36, 6), (36, 12), (34, 34), (36, 36), (36, 18), (18, 18), (35, 35), (51, 3), (50, 10)]
    wrong = []
    for nodes, segment in shapes:
        job = Job(1, "j", "u", "PENDING", (), "ultra", "", nodes, segment=segment, priority=1)
        never = any(hold.for_good for hold in explain_job(of, idle, job).holds)
        arguments = [f"-N{nodes}", *([f"--segment={segment}"] if segment else [])]
        try:
            accepted = cluster.accepts("-p", "ultra", *arguments)
        except CommandFailed as failed:  # sbatch itself refuses a segment that does not divide
            assert "evenly divisible" in failed.stderr
            accepted = False
        if never == accepted:
            wrong.append((nodes, segment, "never" if never else "runs"))
    assert wrong == []


def test_a_job_that_waits_for_room_in_one_block_is_told_so_and_runs_when_there_is(slurmctld: NewCluster) -> None:
    of, cluster = started(slurmctld, short_blocks())
    fillers = [cluster.submit("-p", "ultra", "--exclusive", "-N9", "-w", block(of, n, 9)) for n in range(3)]
    for filler in fillers:
        cluster.wait_running(filler)
    waiting = cluster.submit("-p", "ultra", "--exclusive", "-N10")
    # 26.05 has words of its own for it; older ones say Resources.
    wait_until(lambda: cluster.job(waiting).reason in ("No suitable topology unit found", "Resources"))
    (hold,) = explained(of, cluster, waiting).holds
    assert "at most one block" in hold.what and "25 in all" in hold.what and not hold.for_good
    cluster.cancel(fillers[2])
    nodes = cluster.wait_running(waiting)
    (lies,) = explained(of, cluster, waiting).lies
    assert lies.units == (("us-0003", 10),) and len(nodes) == 10


def test_a_job_held_by_a_topology_that_was_partial_runs_after_the_release_that_is_advised(
    slurmctld: NewCluster,
) -> None:
    of, cluster = started(slurmctld, inventory(64, 0, 0))
    filler = cluster.submit("-p", "train", "--exclusive", "-N64")
    cluster.wait_running(filler)
    job = cluster.submit("-p", "train", "--exclusive", "-N40")
    whole = of.desired.topology("tree")
    assert whole is not None and isinstance(whole.body, Tree)
    root, spine = whole.body.switches[-1], whole.body.switches[-2]
    kept = (*(s for s in whole.body.switches if s.name in spine.children), spine)
    partial = replace(whole, body=Tree((*kept, replace(root, children=(spine.name,)))))
    half = replace(of.desired, topologies=tuple(partial if t is whole else t for t in of.desired.topologies))
    cluster.write_topology(render(half))
    assert cluster.reconfigure()
    cluster.cancel(filler)
    cluster.submit("-p", "train", "--exclusive", "-N1")  # the scheduler looks at the queue again when a job comes
    assert cluster.wait_pending(job, "BadConstraints").priority == 0
    hold = explained(replace(of, in_force=half), cluster, job).holds[0]
    assert hold.for_good and "40 nodes is a size that train cannot run" in hold.what
    cluster.write_topology(render(of.desired))
    assert cluster.reconfigure()
    (hold,) = explained(of, cluster, job).holds
    assert hold.remedy == f"scontrol release {job}"
    cluster.scontrol("release", str(job))
    assert len(cluster.wait_running(job)) == 40


def test_few_switches_that_can_never_be_met_are_a_preference_that_passes(slurmctld: NewCluster) -> None:
    of, cluster = started(slurmctld, inventory(32, 0, 0, per_leaf=8))
    job = cluster.submit("-p", "train", "--exclusive", "-N12", "--switches=1@4:00")
    time.sleep(1)
    why = explained(of, cluster, job)
    assert why.job.pending and why.job.switch_wait == 240
    assert "the largest leaf has 8 nodes" in why.holds[0].what and "after 240 s it starts anyway" in why.holds[0].remedy
    short = cluster.submit("-p", "train", "--exclusive", "-N12", "--switches=1@0:04")
    assert len(cluster.wait_running(short)) == 12
