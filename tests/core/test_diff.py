"""What a pass would change, with the reason for every node that changes place."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.states import changed, inventory, live, state, without
from topology_plugin.core.decision import Memory
from topology_plugin.core.diff import Diff, Fact, between, compare
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.live import Job
from topology_plugin.core.merge import merge
from topology_plugin.core.settings import Settings, parse
from topology_plugin.core.state import State
from topology_plugin.core.topology import FLAT_ONLY, Blocks, Configuration, Switch, Topology, Tree


def after(then: Inventory, now: Inventory, **settings: object) -> State:
    """The cluster is `now`, in force is what was right for `then`."""
    chosen = Settings(**settings)  # type: ignore[arg-type]
    before = merge(then, Settings(), Memory()).configuration
    return state(now, in_force=before, settings=chosen)


def of(diff: Diff, node: str, topology: str = "tree") -> tuple[str, str]:
    (change,) = [c for c in diff.nodes if c.node == node and c.topology == topology]
    return change.verb, change.why


def test_nothing_is_pending_when_in_force_is_desired() -> None:
    found = compare(state(), live(state()).jobs)
    assert not found.pending and found == Diff()


def test_a_node_that_gets_a_position_moves_out_of_unplaced() -> None:
    found = compare(after(inventory(unlabelled=(3,)), inventory()))
    assert of(found, "ip-10-1-0-4") == ("moves", "its position is now known (resource-config)")
    (change,) = found.nodes
    assert change.before == ("root", "unplaced", "unplaced-ip-10-1-0-4")
    assert change.after is not None and len(change.after) == 3


def test_a_node_whose_position_is_lost_says_so() -> None:
    found = compare(after(inventory(), inventory(unlabelled=(3,))))
    verb, why = of(found, "ip-10-1-0-4")
    assert verb == "moves" and why.startswith("its position is no longer known: no source knows its position")


def test_br_27_a_replaced_instance_on_another_leaf_moves_and_its_ids_are_told() -> None:
    seen = inventory()
    other = seen.nodes["ip-10-1-0-60"].answers
    now = changed(seen, "ip-10-1-0-4", answers=other, instance_id="i-0new")
    found = compare(after(seen, now), facts={"ip-10-1-0-4": Fact("i-0old", "records")})
    assert of(found, "ip-10-1-0-4") == ("moves", "i-0old was replaced by i-0new; resource-config says so")


def test_br_27_a_replaced_instance_on_the_same_leaf_changes_nothing() -> None:
    seen = inventory()
    assert not compare(after(seen, changed(seen, "ip-10-1-0-4", instance_id="i-0new"))).pending


def test_another_source_that_is_believed_is_named() -> None:
    seen = inventory()
    now = changed(seen, "ip-10-1-0-4", answers={"records": seen.nodes["ip-10-1-0-60"].answers["records"]})
    found = compare(after(seen, now), facts={"ip-10-1-0-4": Fact("i-0a000000000000003", "resource-config")})
    assert of(found, "ip-10-1-0-4") == ("moves", "records is believed now, before it was resource-config")


def test_joining_and_leaving_nodes_are_told_with_reasons() -> None:
    found = compare(after(without(inventory(), "ip-10-1-0-7"), without(inventory(), "ip-10-1-0-9")))
    assert of(found, "ip-10-1-0-7") == ("joins", "new; resource-config says so")
    assert of(found, "ip-10-1-0-9") == ("leaves", "slurm.conf no longer lists it")


def test_a_node_taken_out_of_the_partition_but_not_of_the_cluster_has_another_reason() -> None:
    seen = inventory()
    train = replace(seen.partitions["train"], nodes=seen.partitions["train"].nodes[1:])
    found = compare(after(seen, replace(seen, partitions={**seen.partitions, "train": train})))
    assert of(found, "ip-10-1-0-1") == ("leaves", "no partition that tree serves has it any more")


def test_a_partition_that_changes_kind_is_one_line_not_a_line_for_each_node() -> None:
    found = compare(state(in_force=FLAT_ONLY))
    assert {(c.partition, c.before, c.after) for c in found.partitions} == {
        ("train", ("flat", "flat"), ("tree", "tree")),
        ("ultra", ("flat", "flat"), ("block", "block")),
    }
    assert found.nodes == () and found.pending


def test_blocks_that_shrink_and_sizes_that_become_impossible_are_told() -> None:
    then = inventory(0, 54, 0)
    now = without(then, "ip-10-9-0-1", "ip-10-9-1-1")
    jobs = (
        Job(7, "wide", partition="ultra", nodes_wanted=36),
        Job(8, "fits", partition="ultra", nodes_wanted=35),
        Job(9, "elsewhere", partition="ultra,dev", nodes_wanted=36),
    )
    found = compare(after(then, now), jobs)
    assert [(b.block, b.before, b.after) for b in found.blocks] == [("us-0001", 18, 17), ("us-0002", 18, 17)]
    sizes = {s.partition: s for s in found.sizes}
    assert sizes["ultra"].impossible == ((36, 36),) and sizes["ultra"].possible == ()
    assert [(c.job.id, c.lost) for c in found.jobs if c.lost and c.job.partition == "ultra"] == [(7, True)]
    back = compare(after(now, then), jobs)
    assert {s.partition: s.possible for s in back.sizes}["ultra"] == ((36, 36), (53, 54))
    assert [(c.job.id, c.lost) for c in back.jobs if c.job.id == 7] == [(7, False)]


def test_a_pending_job_that_requires_a_leaving_node_is_lost_and_a_running_one_is_told_of_it() -> None:
    then, now = inventory(), without(inventory(), "ip-10-1-0-9")
    jobs = (
        Job(7, partition="train", nodes_wanted=1, required=("ip-10-1-0-9",)),
        Job(8, state="RUNNING", nodes=("ip-10-1-0-9", "ip-10-1-0-10"), partition="train"),
    )
    lost, kept = compare(after(then, now), jobs).jobs
    assert (lost.job.id, lost.lost) == (7, True) and "ip-10-1-0-9" in lost.what
    assert (kept.job.id, kept.lost, kept.what) == (8, False, "runs on node ip-10-1-0-9, which leaves")


def test_what_a_pending_job_requires_or_cuts_into_segments_counts_not_its_size_alone() -> None:
    then = state(inventory(0, 54, 0), in_force=FLAT_ONLY, settings=Settings(block_sizes=parse("block_sizes", [36])))
    two = ("ip-10-9-0-1", "ip-10-9-1-1")
    jobs = (
        Job(7, "apart", partition="ultra", nodes_wanted=2, required=two),
        Job(8, "wide", partition="ultra", nodes_wanted=30),
        Job(9, "in pieces", partition="ultra", nodes_wanted=36, segment=18),
        Job(10, "elsewhere too", partition="ultra,cpu", nodes_wanted=2, required=two),
        Job(11, "near", partition="ultra", nodes_wanted=2, required=("ip-10-9-0-1", "ip-10-9-0-2")),
    )
    said = {concern.job.id: concern.what for concern in compare(then, jobs).jobs if concern.lost}
    assert set(said) == {7, 8}
    assert said[7] == (
        "requires nodes (-w) of 2 blocks (us-0001, us-0002): ultra could no longer run that, Slurm would hold it"
    )
    assert said[8].startswith("asks for 30 nodes: ultra could no longer run that")


def test_a_pending_job_whose_segments_fit_no_block_any_more_is_lost() -> None:
    then, now = inventory(0, 54, 0), without(inventory(0, 54, 0), "ip-10-9-0-1", "ip-10-9-1-1")
    shapes = ((54, 18), (18, 18), (34, 17), (36, 18))
    jobs = [Job(i, partition="ultra", nodes_wanted=size, segment=cut) for i, (size, cut) in enumerate(shapes)]
    said = {c.job.id: c.what.partition(":")[0] for c in compare(after(then, now), jobs).jobs if c.lost}
    assert said == {0: "asks for 3 segments of 18 nodes", 3: "asks for 2 segments of 18 nodes"}
    assert not [c for c in compare(after(now, now), jobs).jobs if c.lost]  # it was lost before


def test_a_pending_job_that_would_span_two_roots_is_lost() -> None:
    of = state(inventory(16, 0, 0))
    nodes = of.inventory.partitions["train"].nodes
    job = Job(7, partition="train", nodes_wanted=2, required=(nodes[0], nodes[-1]))
    split = Tree((Switch("a", nodes[:8]), Switch("b", nodes[8:])))
    apart = Configuration((Topology("tree", split, default=True),), {"train": "tree"})
    (concern,) = between(of, of.desired, apart, [job]).jobs
    assert concern.lost and concern.what.startswith("requires nodes (-w) of 2 roots (a, b): train could no longer")


def test_a_running_job_whose_node_only_moves_keeps_running() -> None:
    job = Job(8, state="RUNNING", nodes=("ip-10-1-0-4", "ip-10-1-0-10"), partition="train")
    (concern,) = compare(after(inventory(unlabelled=(3,)), inventory()), [job]).jobs
    assert (concern.lost, concern.what) == (False, "keeps running; node ip-10-1-0-4 of it changes place")


def test_a_size_for_which_there_are_no_nodes_left_is_not_called_possible() -> None:
    whole = inventory(0, 37, 0)
    then = without(whole, "ip-10-9-1-1")  # 18, 17, 1: 36 is refused
    now = without(then, "ip-10-9-2-1")  # 18, 17: there is no 36th node
    before, after_it = compare(after(whole, then)), compare(after(then, now))
    assert {s.partition: s.impossible for s in before.sizes} == {"ultra": ((36, 36),)}
    assert [s.possible for s in after_it.sizes if s.possible] == []


def test_levels_that_come_and_go_with_the_depth_of_others_move_nobody() -> None:
    then = inventory(16, 0, 0)
    train = then.partitions["train"]
    joined = replace(train, nodes=(*train.nodes, "deep-1"))
    deep = Inventory(
        then.nodes | {n.name: n for n in _deeper(then)}, then.groups, {**then.partitions, "train": joined}
    )  # fmt: skip
    found = compare(after(then, deep))
    assert {c.node for c in found.nodes if c.verb == "moves"} == set()
    assert any("appear" in sentence for sentence in found.other)


def _deeper(seen: Inventory) -> list:  # type: ignore[type-arg]
    node = seen.nodes["ip-10-1-0-1"]
    position = node.answers["records"]
    longer = replace(position, path=(*position.path[:2], "nn-x", "nn-y", "nn-z"))
    return [replace(node, name="deep-1", answers={"records": longer}, instance_id="i-0dead")]


def test_other_block_sizes_are_pending_although_no_node_moves() -> None:
    found = compare(after(inventory(), inventory(), block_sizes=parse("block_sizes", [9])))
    assert found.pending and found.nodes == ()
    assert found.other == ("topology block: block sizes become 9, they are 18",)


def test_a_word_that_somebody_took_away_is_pending() -> None:
    made = state()
    words = {**made.desired.words, "train": None}
    found = compare(replace(made, in_force=replace(made.desired, words=words)))
    assert [(c.partition, c.before, c.after) for c in found.partitions] == [
        ("train", ("flat", "flat"), ("tree", "tree"))
    ]


def test_when_nothing_is_known_to_be_in_force_everything_desired_is_new() -> None:
    found = compare(state(in_force=None))
    assert found.pending and not found.known and {c.before for c in found.partitions} == {None}


def test_blocks_in_another_order_are_pending_when_levels_depend_on_it() -> None:
    made = state()
    block = made.desired.topology("block")
    assert block is not None and isinstance(block.body, Blocks)
    turned = Topology("block", replace(block.body, blocks=block.body.blocks[::-1]))
    topologies = tuple(turned if t.name == "block" else t for t in made.desired.topologies)
    found = compare(replace(made, in_force=Configuration(topologies, made.desired.words)))
    assert found.other == ("topology block: the blocks change their order",)


@pytest.mark.parametrize("attribute", ["partitions", "nodes", "blocks", "other"])
def test_each_kind_of_change_alone_makes_it_pending(attribute: str) -> None:
    assert replace(Diff(), **{attribute: ("something",)}).pending


@given(st.data())
def test_there_is_a_difference_whenever_slurm_would_get_another_text(data: st.DataObject) -> None:
    """Nothing that changes topology.yaml or a word escapes the diff, and equal configurations give none."""
    from topology_plugin.core.topology_yaml import render

    full = inventory(12, 6, 2, per_leaf=3, leaves=2)
    names = st.sets(st.sampled_from(list(full.nodes)), max_size=6)
    then, now = (without(full, *data.draw(names)) for _ in range(2))
    lost = data.draw(st.sets(st.sampled_from(list(now.nodes)), max_size=3))
    for name in lost:
        now = changed(now, name, answers={})
    made = after(then, now)
    assert made.in_force is not None
    same = render(made.in_force) == render(made.desired) and made.in_force.words == made.desired.words
    assert compare(made).pending == (not same)
