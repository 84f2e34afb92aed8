"""What fits now counts whole idle nodes only, and only where they are near each other."""

from __future__ import annotations

from dataclasses import replace

from tests import states
from topology_plugin.core.live import Job, Live
from topology_plugin.jobs import distance
from topology_plugin.jobs.room import room

STATE = states.state()
TRAIN = distance.of_state(STATE, "train")
ULTRA = distance.of_state(STATE, "ultra")


def busy(*nodes: str, state: str = "allocated") -> Live:
    every = dict.fromkeys(STATE.inventory.nodes, "idle")
    return Live({**every, **dict.fromkeys(nodes, state)}, (Job(1, state="RUNNING", nodes=nodes, partition="train"),))


def test_an_idle_partition_offers_its_largest_leaf_and_spine() -> None:
    found = room(TRAIN, busy())
    assert (found.nodes, found.idle, found.leaf, found.spine, found.block) == (64, 64, 8, 32, None)
    assert found.segments == {1: 64, 2: 32, 4: 16, 8: 8, 9: 0, 16: 0, 18: 0}


def test_one_busy_node_in_each_leaf_breaks_every_segment_of_eight() -> None:
    found = room(TRAIN, busy(*TRAIN.nodes[::8]))
    assert (found.idle, found.leaf, found.spine) == (56, 7, 28)
    assert (found.segments[4], found.segments[8]) == (8, 0)


def test_segments_lie_inside_ultraservers_and_fragments_are_counted() -> None:
    live = busy(*ULTRA.nodes[:2], *ULTRA.nodes[18:35])
    found = room(ULTRA, live)
    assert (found.block, found.segments) == (16, {1: 17, 2: 8, 4: 4, 8: 2, 9: 1, 16: 1, 18: 0})
    assert [(b.name, b.idle, b.jobs, b.fragments) for b in found.blocks] == [
        ("us-0001", 16, 1, 2),
        ("us-0002", 1, 1, 2),
    ]


def test_drained_and_unknown_nodes_are_out_and_mixed_ones_are_not_idle() -> None:
    live = busy(TRAIN.nodes[0], state="drained")
    live = replace(live, states={**live.states, TRAIN.nodes[1]: "mixed", TRAIN.nodes[2]: "unknown"})
    found = room(TRAIN, live)
    assert (found.idle, found.mixed, found.out) == (61, 1, 2)


def test_idle_nodes_without_a_place_are_no_room_for_a_job_of_two() -> None:
    seen = states.state(states.inventory(unlabelled=(0, 1, 2)))
    network = distance.of_state(seen, "train")
    found = room(network, busy(*network.nodes[3:]))
    assert (found.idle, found.leaf, found.spine, found.segments[2]) == (3, 1, 1, 0)
