"""Advice: what to pass, whether it starts now, what it costs; only what Slurm takes is offered."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests import states
from topology_plugin.core.hostlists import expand
from topology_plugin.core.live import Live
from topology_plugin.core.topology import Blocks, Switch, Topology, Tree
from topology_plugin.jobs import distance
from topology_plugin.jobs.advice import Advice, advise
from topology_plugin.jobs.segments import divisors, fits, widest

STATE = states.state()
TRAIN, ULTRA, DEV = (distance.of_state(STATE, name) for name in ("train", "ultra", "dev"))
TREE, BLOCK, FLAT = (STATE.desired.of_partition(name) for name in ("train", "ultra", "dev"))


def live(*busy: str) -> Live:
    return Live({**dict.fromkeys(STATE.inventory.nodes, "idle"), **dict.fromkeys(busy, "allocated")})


def train(size: int, seen: Live | None) -> Advice:
    return advise("train", size, TRAIN, TREE, seen, 300)


@pytest.mark.parametrize(("optional", "refused"), [(False, True), (True, False)], ids=["topology", "TopoOptional"])
def test_a_tree_that_slurm_may_leave_aside_refuses_no_size(optional: bool, refused: bool) -> None:
    half = len(TRAIN.nodes) // 2
    split = Topology("tree", Tree((Switch("a", TRAIN.nodes[:half]), Switch("b", TRAIN.nodes[half:]))))
    found = advise("train", half + 1, TRAIN, split, live(), 300, optional)
    assert (found.refused, found.now) == (refused, not refused)


def ultra(size: int, seen: Live | None, topology: Topology | None = BLOCK) -> Advice:
    return advise("ultra", size, ULTRA, topology, seen, 300)


@pytest.mark.parametrize(
    ("size", "busy", "option", "starts"),
    [
        pytest.param(8, (), "--switches=1@05:00", True, id="a leaf is free"),
        pytest.param(8, TRAIN.nodes[::8], "--switches=1@05:00", False, id="every leaf is broken"),
        pytest.param(20, (), "--switches=3@05:00", True, id="three leaves"),
    ],
)
def test_in_a_tree_few_leaves_for_a_while(size: int, busy: tuple[str, ...], option: str, starts: bool) -> None:
    found = train(size, live(*busy))
    assert [(o.option, o.now) for o in found.options] == [(option, starts)]
    assert found.now is True  # without the option it can start either way
    assert not found.refused


def test_what_a_start_now_costs_against_the_best_possible() -> None:
    found = train(8, live(*TRAIN.nodes[::8]))
    assert found.best is not None and found.likely is not None
    assert (found.best.worst_hops, found.likely.worst_hops) == (1, 3)
    full = train(8, live(*TRAIN.nodes[:57]))
    assert (full.now, full.likely) == (False, None)
    assert "it would wait" in full.notes[0]


def test_where_slurm_cannot_be_asked_nothing_is_said_of_now() -> None:
    found = train(8, None)
    assert (found.now, found.options[0].now, found.likely) == (None, None, None)


def test_more_nodes_than_there_are() -> None:
    found = train(65, live())
    assert (found.refused, found.next_size, found.options) == (True, None, ())
    assert "the partition has 64 nodes" in found.notes


def test_segments_from_the_widest_that_works_to_the_smallest() -> None:
    found = ultra(36, live(ULTRA.nodes[0]))
    assert [(o.option, o.now) for o in found.options] == [
        ("--segment=18", False), ("--segment=1", False), ("--exclusive=topo", False),
    ]  # fmt: skip
    found = ultra(32, live(*ULTRA.nodes[:4]))
    assert [(o.option, o.now) for o in found.options][:3] == [
        ("--segment=16", False), ("--segment=2", True), ("--segment=1", True),
    ]  # fmt: skip


def test_for_short_blocks_the_segment_that_still_works_and_the_sizes_that_do_not() -> None:
    assert BLOCK is not None and isinstance(BLOCK.body, Blocks)
    names = [block.nodes for block in BLOCK.body.blocks]
    short = replace(BLOCK.body.blocks[1], nodes=names[1][:-1])
    lonely = replace(BLOCK.body.blocks[1], name="unplaced-x", nodes=names[1][-1:])
    topology = replace(BLOCK, body=replace(BLOCK.body, blocks=(BLOCK.body.blocks[0], short, lonely)))
    found = ultra(36, live(), topology)
    assert (found.refused, found.refused_sizes, found.now) == (True, "36", False)
    assert [o.option for o in found.options] == ["--segment=1"]
    assert "only one that works" in found.options[0].why
    assert ultra(34, live(), topology).options[0].option == "--segment=17"


def test_exclusive_topo_needs_ultraservers_in_which_nothing_runs() -> None:
    def exclusive(seen: Live) -> bool | None:
        return next(o.now for o in ultra(9, seen).options if o.option == "--exclusive=topo")

    assert exclusive(live(ULTRA.nodes[0])) is True  # the other one is empty
    assert exclusive(live(ULTRA.nodes[0], ULTRA.nodes[18])) is False


def test_a_flat_partition_has_no_options_and_says_so() -> None:
    found = advise("dev", 8, DEV, FLAT, live(), 300)
    assert found.options == ()
    assert "flat for Slurm" in found.notes[0]


@pytest.mark.parametrize(
    ("size", "taken"),
    [(2, "7-8"), (3, "18-20"), (8, "1,30-36"), (14, "1,30-36,40-45"), (19, "7-8,30-36,40-45,50-53")],
)
def test_flat_takes_runs_of_neighbours_as_slurmctld_does(size: int, taken: str) -> None:
    """The shortest run that holds what is missing, else the longest (run on 26.05.5, with idle nodes at random)."""
    names = [f"n{i}" for i in range(1, 61)]
    idle = set(expand("n[1,7-8,18-20,30-36,40-45,50-53]"))
    network = distance.Network(tuple(names), {name: (name,) for name in names})
    seen = Live({name: "idle" if name in idle else "allocated" for name in names})
    found = advise("dev", size, network, FLAT, seen, 300)
    assert found.likely == network.spread(expand(f"n[{taken}]"))


def test_unplaced_nodes_are_told() -> None:
    seen = states.state(states.inventory(unlabelled=(0, 1)))
    network = distance.of_state(seen, "train")
    found = advise("train", 4, network, seen.desired.of_partition("train"), None, 300)
    assert found.notes == ("2 nodes of the partition have no known place: far from everything",)


def test_the_json_has_the_documented_keys() -> None:
    found = json.loads(json.dumps(ultra(16, live()).to_json()))
    assert list(found) == ["partition", "nodes", "kind", "options", "refused", "next_size", "refused_sizes",
                           "startable_now", "best", "likely", "notes"]  # fmt: skip
    assert list(found["options"][0]) == ["option", "why", "now"]


@pytest.mark.parametrize(
    ("counts", "size", "limit", "segment"),
    [
        ([18, 18], 36, 18, 18), ([18, 17, 1], 36, 18, 1), ([18, 17, 1], 34, 18, 17), ([17, 17, 2], 36, 16, 1),
        ([18, 18, 9], 36, 9, 9), ([5], 7, 5, None),
    ],
)  # fmt: skip
def test_the_widest_segment(counts: list[int], size: int, limit: int, segment: int | None) -> None:
    assert widest(counts, size, limit) == segment
    assert all(not fits(counts, size, s) for s in divisors(size, limit) if s > (segment or 0))
