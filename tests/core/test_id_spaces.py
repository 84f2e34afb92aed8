"""Every topology in the ids of one source: whose, and what becomes of nodes that only others know."""

from __future__ import annotations

from tests.clusters import SIMPLE, decide, names, record_of, unlabelled
from topology_plugin.core.decision import Memory
from topology_plugin.core.position import Position
from topology_plugin.core.sources import ApiAnswers
from topology_plugin.jobs.simulated_cluster import (
    answers,
)


def test_the_source_that_places_most_nodes_wins_and_the_others_nodes_stay_unplaced() -> None:
    machines = [m for m in SIMPLE.machines if m.label]
    silent = {m.name for m in machines[:12]}
    foreign = {i: Position(tuple(f"ec2-{n}" for n in p.path)) for i, p in answers(machines[:14]).items()}
    decision = decide(unlabelled(SIMPLE, silent), api={"ec2": ApiAnswers(positions=foreign)})
    placement = decision.placements["tree"]
    assert placement.space == "ec2"
    assert len(placement.placed) == 14
    assert all(p.path[0].startswith("ec2-") for p in placement.placed.values()), "ids of two sources are never mixed"
    assert placement.unplaced[machines[15].name] == "only a source other than ec2 knows it"


def test_ties_go_by_the_order_of_sources_and_the_last_choice_sticks() -> None:
    foreign = {i: Position(tuple(f"ec2-{n}" for n in p.path)) for i, p in answers(SIMPLE.machines).items()}
    api = {"ec2": ApiAnswers(positions=foreign)}
    assert decide(SIMPLE, api=api).placements["tree"].space == "labels"
    assert decide(SIMPLE, {"sources": ["ec2", "resource-config"]}, api=api).placements["tree"].space == "ec2"
    assert decide(SIMPLE, api=api, memory=Memory(spaces={"tree": "ec2"})).placements["tree"].space == "ec2"


def test_a_record_fills_in_what_the_controllers_copy_lacks() -> None:
    late = next(m for m in SIMPLE.machines if m.label)
    without = decide(unlabelled(SIMPLE, {late.name}))
    assert late.name in without.placements["tree"].unplaced
    filled = decide(unlabelled(SIMPLE, {late.name}), records={late.instance_id: record_of(late)})
    assert filled.configuration == decide(SIMPLE).configuration
    assert filled.placements["tree"].source[late.name] == "records"


def test_a_setting_without_a_source_leaves_it_out() -> None:
    decision = decide(SIMPLE, {"sources": ["ec2"]})
    assert names(decision) == ["flat"]
