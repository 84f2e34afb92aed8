"""No data is not "no nodes": what was known of an instance holds until something else is known or it is gone."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clusters import GB, P5, SIMPLE, decide, leaf_of, record_of, tree_of, unlabelled
from topology_plugin.core.position import Position
from topology_plugin.core.sources import ApiAnswers, ApiGroup
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    mixed,
    without_network_data,
)

LOOSE = SimulatedGroup("loose", "ml.m5.xlarge")
HERE = in_tree("worker-p5", "ml.p5.48xlarge", 4)
THERE = in_tree("worker-p5", "ml.p5.48xlarge", 4, fabric="b", first=9)
TOLD_ONCE = [
    pytest.param(
        cluster(P5).with_machines([*HERE, *THERE]),
        {"api": {"ec2": ApiAnswers(zones={m.instance_id: zone for machines, zone in ((HERE, "az1"), (THERE, "az2")) for m in machines})}},
        id="zones",
    ),
    pytest.param(
        cluster(P5, LOOSE).with_machines(
            [*HERE, *without_network_data("loose", "ml.m5.xlarge", 2)]
        ),
        {"api_groups": {"controller-machine": ApiGroup("controller"), "login-group": ApiGroup("login")}},
        id="roles",
    ),
    pytest.param(
        cluster(GB).with_machines(in_ultraservers("worker-gb", [4, 2])),
        {"api": {"sagemaker": ApiAnswers(ultraserver_types={m.instance_id: "u-p6e-gb200x72" for m in in_ultraservers("worker-gb", [4, 2])})}},
        id="types-of-ultraservers",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("simulated", "told"), TOLD_ONCE)
def test_what_an_api_told_once_holds_while_it_is_silent(simulated: SimulatedCluster, told: dict[str, Any]) -> None:
    once = decide(simulated, parameters=None, **told)
    never = decide(simulated, parameters=None)
    assert once.configuration != never.configuration, "it matters here"
    silent = {"ec2": ApiAnswers(problem="throttled"), "sagemaker": ApiAnswers(problem="throttled")}
    later = decide(simulated, parameters=None, api=silent, memory=once.memory)
    assert later.configuration == once.configuration
    assert decide(simulated, parameters=None, memory=later.memory).configuration == once.configuration


def test_an_unreadable_resource_config_keeps_every_last_known_position() -> None:
    before = decide(mixed())
    blind = decide(mixed(), config=None, memory=before.memory)
    assert blind.configuration == before.configuration


def test_the_record_of_a_replaced_instance_does_not_come_back_when_resource_config_cannot_be_read() -> None:
    old = next(m for m in SIMPLE.machines if m.label)
    assert old.label is not None
    left = record_of(old, instance_name=None)
    now = SIMPLE.with_changed(
        old.name, instance_id="i-0fffffffffffffff1", label=Position((*old.label.path[:-1], "nn-la9"))
    )
    before = decide(now, records={old.instance_id: left})
    blind = decide(now, config=None, records={old.instance_id: left}, memory=before.memory)
    assert blind.configuration == before.configuration and leaf_of(blind, old.name) == "nn-la9"


def test_labels_that_vanish_keep_the_positions_of_the_same_instances() -> None:
    before = decide(SIMPLE)
    after = decide(unlabelled(SIMPLE, {m.name for m in SIMPLE.machines}), memory=before.memory)
    assert after.configuration == before.configuration
    assert set(after.placements["tree"].source.values()) == {"last-known:labels"}


def test_a_new_instance_does_not_inherit_the_position_of_the_one_it_replaces() -> None:
    before = decide(SIMPLE)
    victim = next(m for m in SIMPLE.machines if m.label)
    replaced = SIMPLE.with_changed(victim.name, instance_id="i-0fffffffffffffff1", label=None)
    after = decide(replaced, memory=before.memory)
    assert victim.name in after.placements["tree"].unplaced


def test_br_27_a_replacement_on_another_leaf_moves_and_on_the_same_leaf_changes_nothing() -> None:
    before = decide(SIMPLE)
    victim = next(m for m in SIMPLE.machines if m.label)
    assert victim.label is not None
    other_leaf = Position((*victim.label.path[:-1], "nn-la9"))
    same = decide(SIMPLE.with_changed(victim.name, instance_id="i-0fffffffffffffff1"), memory=before.memory)
    assert same.configuration == before.configuration
    moved = decide(
        SIMPLE.with_changed(victim.name, instance_id="i-0fffffffffffffff1", label=other_leaf), memory=before.memory
    )
    assert leaf_of(moved, victim.name) == "nn-la9"
    assert victim.instance_id not in moved.memory.positions, "the old id is forgotten"


def test_br_28_ghosts_leave_when_slurm_conf_no_longer_lists_them_and_not_earlier() -> None:
    one = SIMPLE.without({m.name for m in SIMPLE.machines if m.label and m.number > 1})
    before = decide(SIMPLE)
    ghosts = {m.instance_id: record_of(m, instance_name=None) for m in SIMPLE.machines if m.label}
    listed = decide(SIMPLE, config=one.resource_config(), records=ghosts, memory=before.memory)
    assert listed.configuration == before.configuration
    gone = decide(one, records=ghosts, memory=listed.memory)
    assert [s.name for s in tree_of(gone).switches if not s.nodes and not s.children] == []
    assert len(set(tree_of(gone).nodes())) == 2
