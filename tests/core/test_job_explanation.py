"""Which constraint of the topology holds a job. tests/slurm/test_explain_real.py asks a real slurmctld the same."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.states import inventory, live, state, without
from topology_plugin.core.job_explanation import JobWhy, explain_job
from topology_plugin.core.live import Job, Live
from topology_plugin.core.settings import Settings, parse
from topology_plugin.core.state import State
from topology_plugin.core.topology import FLAT_ONLY, Tree


def short_blocks() -> State:
    """UltraServers of 17, 17 and 18 nodes."""
    return state(without(inventory(8, 54, 0), "ip-10-9-0-1", "ip-10-9-1-1"))


def asks(nodes: int, partition: str = "ultra", **more: object) -> Job:
    base = Job(7, "j", "u", "PENDING", (), partition, "Resources", nodes, priority=1)
    return replace(base, **more)  # type: ignore[arg-type]


def why(of: State, job: Job, busy: tuple[str, ...] = ()) -> JobWhy:
    states = dict.fromkeys(of.inventory.nodes, "idle") | dict.fromkeys(busy, "allocated")
    return explain_job(of, Live(states, (job,)), job)


def of_block(of: State, number: int, count: int) -> tuple[str, ...]:
    return tuple(n for n in of.inventory.nodes if n.startswith(f"ip-10-9-{number}-"))[:count]


ULTRA = ("ip-10-9-0-2", "ip-10-9-1-2")


@pytest.mark.parametrize(
    ("job", "what", "remedy"),
    [
        pytest.param(
            asks(36),
            "36 nodes is a size that ultra cannot run (refused: 36)",
            "-N35 or -N37, or a range of sizes; or a --segment",
            id="refused-size",
        ),
        pytest.param(asks(60), "asks for 60 nodes, ultra has 52", "fewer", id="more-than-there-are"),
        pytest.param(
            asks(20, segment=7), "--segment=7 does not divide 20", "-N14 or -N21", id="segment-does-not-divide"
        ),
        pytest.param(asks(54 - 2, segment=13), "needs 4 segments of 13", "smaller --segment", id="too-many-segments"),
        pytest.param(
            asks(18, required=ULTRA), "nodes (-w) of 2 blocks", "fewer blocks, or none", id="required-across-blocks"
        ),
    ],
)
def test_what_can_never_run_is_called_so_with_a_way_out(job: Job, what: str, remedy: str) -> None:
    found = why(short_blocks(), job)
    assert found.holds[0].for_good and what in found.holds[0].what and remedy in found.holds[0].remedy


def test_a_job_of_more_than_a_block_may_require_nodes_of_as_many_blocks_as_it_needs() -> None:
    assert why(short_blocks(), asks(19, required=ULTRA)).holds == ()


def test_room_that_is_spread_over_too_many_blocks_makes_a_job_wait() -> None:
    of = short_blocks()
    busy = tuple(n for number in range(3) for n in of_block(of, number, 9))
    (hold,) = why(of, asks(10), busy).holds
    assert not hold.for_good and "at most one block" in hold.what and "25 in all" in hold.what
    assert why(of, asks(9), busy).holds == ()


def test_without_enough_idle_nodes_at_all_the_topology_is_not_to_blame() -> None:
    of = short_blocks()
    assert why(of, asks(10), tuple(of.inventory.partitions["ultra"].nodes[:45])).holds == ()


def test_with_several_block_sizes_a_job_must_lie_in_one_larger_block() -> None:
    of = state(inventory(0, 72, 0), settings=Settings(block_sizes=parse("block_sizes", [18, 36])))
    busy = (*of_block(of, 0, 18), *of_block(of, 2, 18))  # one block free in each pair
    (hold,) = why(of, asks(36), busy).holds
    assert "one level of 36" in hold.what and not hold.for_good


def test_a_preference_for_few_switches_is_told_as_one_that_passes() -> None:
    of = state(inventory(64, 0, 0))
    (never,) = why(of, asks(12, "train", switches=1, switch_wait=300)).holds
    assert "the largest leaf has 8 nodes" in never.what and "after 300 s it starts anyway" in never.remedy
    assert not never.for_good
    busy = tuple(f"ip-10-1-0-{i}" for i in range(1, 65, 2))
    (now,) = why(of, asks(8, "train", switches=1, switch_wait=300), busy).holds
    assert "not enough idle nodes under so few leaf switches now" in now.what
    assert why(of, asks(4, "train", switches=1), busy).holds == ()


@pytest.mark.parametrize(
    ("size", "line", "what", "remedy"),
    [
        (8, "sbatch --comment=hyperpod-topology: required=topology.k8s.aws/network-node-layer-3", "7 of them idle",
         "wait, or `submit --again 7` chooses the domain anew"),
        (8, "sbatch -x …", "7 of them idle", "wait, or exclude fewer nodes"),
        (9, "sbatch -x …", "it asks for 9", "exclude fewer nodes"),
    ],
    ids=["required-domain", "by-hand", "never"],
)  # fmt: skip
def test_nodes_that_a_job_excludes_hold_it(size: int, line: str, what: str, remedy: str) -> None:
    of = state(inventory(32, 0, 0))
    nodes = of.inventory.partitions["train"].nodes
    job = asks(size, "train", excluded=nodes[8:], submit_line=line)
    (hold,) = why(of, job, busy=nodes[:1]).holds
    assert hold.what.startswith("-x leaves it 8 of 32 nodes (all in ") and hold.what.endswith(what)
    assert (hold.remedy, hold.for_good) == (remedy, size > 8)
    roomy = replace(job, nodes_wanted=7)
    assert why(of, roomy, busy=nodes[:1]).holds == ()  # what is left would do: Slurm's own reason is the reason


def test_a_job_cannot_span_roots() -> None:
    seen = inventory(16, 0, 0)
    nodes = {}
    for number, (name, node) in enumerate(seen.nodes.items()):
        position = node.answers.get("records")
        if position is not None and number >= 8:
            other = replace(position, path=("nn-other", "nn-other2", f"nn-o{number % 2}"))
            node = replace(node, answers={"records": other}, zone="usw2-az9")
        nodes[name] = node
    of = state(replace(seen, nodes=nodes))
    assert len(of.desired.topology("tree").body.roots()) == 2  # type: ignore[union-attr]
    never = why(of, asks(9, "train")).holds[0]
    assert never.for_good and "9 nodes is a size that train cannot run" in never.what
    busy = tuple(f"ip-10-1-0-{i}" for i in (1, 2, 3, 4, 9, 10, 11, 12))
    (waits,) = why(of, asks(6, "train"), busy).holds
    assert "cannot span roots; the one with most room has 4 idle nodes" in waits.what and not waits.for_good
    tree = of.desired.topology("tree")
    assert tree is not None and isinstance(tree.body, Tree)
    top_down = replace(tree, body=Tree(tree.body.switches[::-1]))  # as others may have written it
    written = replace(of.desired, topologies=(replace(top_down, default=True),), words=dict.fromkeys(of.desired.words))
    told = why(replace(of, in_force=written), asks(6, "train"), busy)
    assert told.holds == (waits,)


def test_a_job_held_from_before_says_how_to_release_it_and_ours_that_it_is_released() -> None:
    of = short_blocks()
    stale = asks(4, reason="BadConstraints", priority=0)
    (hold,) = why(of, stale).holds
    assert hold.for_good and hold.remedy == "scontrol release 7"
    found = why(replace(of, held=(7,)), stale)
    assert found.ours and found.holds[0].remedy == "it is released by the next pass"


def test_a_held_job_that_really_cannot_run_is_told_why_instead() -> None:
    found = why(short_blocks(), asks(36, reason="BadConstraints", priority=0))
    assert "36 nodes is a size" in found.holds[0].what and "release" not in found.holds[0].remedy


def test_one_partition_of_several_that_can_run_it_is_enough() -> None:
    assert why(short_blocks(), asks(36, "ultra,dev")).holds == ()


def test_a_flat_partition_holds_nothing() -> None:
    assert why(state(in_force=FLAT_ONLY), asks(36, segment=7)).holds == ()


def test_a_partition_that_slurm_conf_lacks_is_noted() -> None:
    found = why(short_blocks(), asks(4, "gone"))
    assert found.holds == () and found.notes == ("partition gone is not in slurm.conf",)


def test_a_running_job_says_how_it_lies_and_how_close_it_could_be() -> None:
    of = state()
    seen = live(of)
    job = next(j for j in seen.jobs if j.id == 102)
    (lies,) = explain_job(of, seen, job).lies
    assert [count for _, count in lies.units] == [3, 2] and lies.least == 1 and lies.unit == "leaf"
    job = next(j for j in seen.jobs if j.id == 103)
    (lies,) = explain_job(of, seen, job).lies
    assert lies.units == (("us-0001", 16),) and lies.least == 1 and lies.unit == "block"
