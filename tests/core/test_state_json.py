"""state.json says everything, and of a large cluster nothing twice."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.clusters import P5, decide, inventory_of
from topology_plugin.core import decision_json, state_json
from topology_plugin.core.decision import Identity, Memory, Placement
from topology_plugin.core.inventory_json import Positions
from topology_plugin.core.issues import InputError
from topology_plugin.core.position import Position
from topology_plugin.core.state import Counters, Owner, PassResult, State
from topology_plugin.core.topology import Configuration
from topology_plugin.jobs.simulated_cluster import cluster, in_tree, mixed


def state_of(simulated: Any = None, **changes: Any) -> State:
    simulated = simulated or mixed()
    decision = decide(simulated)
    inventory, memory = inventory_of(simulated)
    decision = replace(decision, memory=replace(decision.memory, identities=memory.identities))
    state = State(
        cluster_arn="arn:aws:sagemaker:us-west-2:111122223333:cluster/abc123def456",
        version="1",
        slurm_version="26.05.5",
        generation=3,
        last=PassResult("failed", "a reason", "code", 1.5, 2.5),
        owner=Owner("agent", "its file", False),
        inventory=inventory,
        decision=decision,
        in_force=decision.configuration,
        refused={"block": ((19, 36), (40, 40))},
        held=(4, 5),
        hold=True,
        adopted=True,
        counters=Counters(7, 2, 0.5, {"reconfigure": 1}, 3, 9.5, 1),
        notes=("a note",),
    )
    return replace(state, **changes)


def again(state: State) -> State:
    return state_json.load(json.loads(json.dumps(state_json.dump(state))))


def test_a_state_is_the_same_after_its_own_json() -> None:
    state = state_of()
    assert again(state) == state


def test_a_decision_with_blocks_of_several_sizes_is_the_same_after_its_own_json() -> None:
    decision = decide(mixed(), {"block_sizes": [18, 36]})
    positions = Positions()
    written = json.loads(json.dumps(decision_json.dump_decision(decision, positions, {})))
    assert decision_json.load_decision(written, Positions(positions.rows()), {}) == decision


def with_memory(state: State, **changes: Any) -> State:
    return replace(state, decision=replace(state.decision, memory=replace(state.decision.memory, **changes)))


NODE = "ip-10-1-1-1"
ODD: list[Any] = [
    pytest.param(lambda s: with_memory(s, identities={}), id="no-instance-is-remembered"),
    pytest.param(lambda s: with_memory(s, identities={"gone": Identity("i-0f", "n", "g", "t", "z")}), id="of-no-node"),
    pytest.param(
        lambda s: with_memory(s, identities={**s.decision.memory.identities, NODE: Identity("i-0f", zone="z")}),
        id="another-instance-is-remembered",
    ),
    pytest.param(
        lambda s: with_memory(s, positions={"i-0f": {"ec2": Position(("a", "b")), "labels": Position((), "us-1")}}),
        id="positions-of-instances-that-are-gone",
    ),
    pytest.param(lambda s: replace(s, decision=replace(s.decision, memory=Memory())), id="an-empty-memory"),
    pytest.param(lambda s: replace(s, in_force=None, generation=None, cluster_arn=None), id="nothing-is-known"),
    pytest.param(
        lambda s: replace(
            s,
            decision=replace(
                s.decision,
                placements={"tree": Placement("labels", {"a": Position(("x",)), "b": Position()}, {"a": "records"})},
            ),
        ),
        id="a-placement-without-a-source",
    ),
]


@pytest.mark.parametrize("change", ODD)
def test_states_that_are_not_as_most_are_survive_too(change: Any) -> None:
    state = change(state_of())
    assert again(state) == state


def test_equal_positions_are_one_object_when_read() -> None:
    state = again(state_of())
    first, second = (state.inventory.nodes[m.name] for m in mixed().members("worker-gb200")[:2])
    assert first.answers["resource-config"] is second.answers["resource-config"]


def test_a_node_more_costs_a_few_hundred_bytes() -> None:
    def size(nodes: int) -> int:
        simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", nodes, per_leaf=16))
        return len(json.dumps(state_json.dump(state_of(simulated))))

    assert (size(256) - size(128)) / 128 < 250


@pytest.mark.parametrize(
    "data",
    [[], {}, {"schema": "1"}, {"schema": 1}, {"schema": 9}, {"schema": 1, "inventory": 5, "decision": {}}],
    ids=repr,
)
def test_what_is_no_state_is_said_so(data: Any) -> None:
    with pytest.raises(InputError):
        state_json.load(data)


def test_a_position_that_is_not_in_the_list_is_damage() -> None:
    data = json.loads(json.dumps(state_json.dump(state_of())))
    del data["positions"][1:]
    with pytest.raises(InputError, match="damaged"):
        state_json.load(data)


def test_what_the_nodes_of_a_leaf_have_in_common_stands_once_and_is_one_object_when_read() -> None:
    state = state_of(cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 64, per_leaf=16)))
    data = state_json.dump(state)
    assert len([common for common in data["inventory"]["common"] if common["answers"]]) == 4
    assert len(data["decision"]["memory"]["positions"]) == 4
    read = again(again(state))
    assert len({id(node.answers) for node in read.inventory.nodes.values() if node.answers}) == 4
    assert len({id(spaces) for spaces in read.decision.memory.positions.values()}) == 4


def test_what_is_in_force_as_desired_stands_once() -> None:
    state = state_of()
    assert set(state_json.dump(state)["in_force"]) == {"words"}
    other = replace(state, in_force=Configuration(state.desired.topologies[:1], state.desired.words))
    assert again(other) == other
