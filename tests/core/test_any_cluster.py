"""What holds of the decision about any cluster, by whichever sources it is known and in whichever order."""

from __future__ import annotations

import copy
import random
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.clusters import decide, inventory_of, record_of
from topology_plugin.core import records, topology_yaml
from topology_plugin.core.decision import Memory
from topology_plugin.core.merge import merge
from topology_plugin.core.position import Position
from topology_plugin.core.settings import Settings, layered
from topology_plugin.core.sources import ApiAnswers
from topology_plugin.core.topology import Tree
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    machine,
    mixed,
)

types_of = st.sampled_from(
    ["ml.p5.48xlarge", "ml.p6-b200.48xlarge", "ml.p6e-gb200.36xlarge", "ml.c5.9xlarge", "ml.unheard.of"]
)


@st.composite
def random_clusters(draw: st.DrawFn) -> SimulatedCluster:
    groups, machines = [], []
    for g in range(draw(st.integers(1, 4))):
        kind = draw(types_of)
        partitions = tuple(draw(st.lists(st.sampled_from(["a", "b", "ml.p5"]), max_size=2, unique=True)))
        name = f"g{g}"
        groups.append(SimulatedGroup(name, kind, partitions))
        for n in range(draw(st.integers(0, 8))):
            path = tuple(f"nn-{layer}{draw(st.integers(0, 2))}" for layer in range(draw(st.integers(0, 4))))
            server = draw(st.sampled_from([None, None, "us-a1", "us-b1", "Server.7"]))
            machines.append(
                machine(name, kind, n + 1, f"10.{g + 1}.1.{n + 1}", Position(path, server) if path or server else None)
            )
    return cluster(*groups).with_machines(machines)


random_settings = st.fixed_dictionaries(
    {},
    optional={
        "mixed_partitions": st.sampled_from(["flat", "tree"]),
        "block_sizes": st.sampled_from(["auto", [4, 8], [1], [18]]),
        "separate_fabrics": st.sampled_from(["auto", True, False]),
        "max_unplaced_leaves": st.integers(0, 4),
        "partitions": st.dictionaries(
            st.sampled_from(["a", "b", "dev"]),
            st.fixed_dictionaries({}, optional={"kind": st.sampled_from(["tree", "block", "flat"]), "separate_fabrics": st.booleans(), "block_sizes": st.just([2, 4])}),
            max_size=2,
        ),
    },
)  # fmt: skip


def told_as(label: Position, form: str) -> Any:
    """InstanceLabel in one of the forms it has been seen in."""
    pairs = {f"network-node-layer-{i}": node for i, node in enumerate(label.path, 1)}
    if label.ultraserver:
        pairs["ultraserver-id"] = label.ultraserver
    if form == "prefixed":
        return {f"topology.k8s.aws/{key}": value for key, value in reversed(pairs.items())}
    if form in ("Key", "Name"):
        return [{form: key, "Value": value} for key, value in pairs.items()]
    return pairs


@st.composite
def mixed_inputs(draw: st.DrawFn) -> tuple[SimulatedCluster, dict[str, Any]]:
    """A cluster, and who knows what of it: each place by any of the sources, in any form of label, or by nobody."""
    simulated = draw(random_clusters())
    config = simulated.resource_config()
    entries = {entry["InstanceId"]: entry for group in config["InstanceGroups"] for entry in group["Instances"]}
    registered: dict[str, records.Record] = {}
    told: dict[str, dict[str, Position]] = {"ec2": {}, "sagemaker": {}}
    for one in simulated.machines:
        if one.label is None:
            continue
        who = draw(st.sets(st.sampled_from(["resource-config", "records", "ec2", "sagemaker"])))
        form = draw(st.sampled_from(["map", "prefixed", "Key", "Name"]))
        entries[one.instance_id]["InstanceLabel"] = told_as(one.label, form) if "resource-config" in who else "null"
        if "records" in who:
            registered[one.instance_id] = record_of(one)
        if "ec2" in who:
            server = one.label.ultraserver and f"cb-{one.label.ultraserver}"
            told["ec2"][one.instance_id] = Position(tuple(f"ec2-{n}" for n in one.label.path), server)
        if "sagemaker" in who and one.label.ultraserver:
            told["sagemaker"][one.instance_id] = Position((), f"sm-{one.label.ultraserver}")
    api = {source: ApiAnswers(positions=positions) for source, positions in told.items() if positions}
    return simulated, {"config": config, "records": registered, "api": api}


@settings(deadline=None)
@given(mixed_inputs(), random_settings)
def test_every_node_of_a_partition_is_in_its_topology_exactly_once(
    given_inputs: tuple[SimulatedCluster, dict[str, Any]], setting: dict[str, Any]
) -> None:
    simulated, inputs = given_inputs
    inventory, memory = inventory_of(simulated, **inputs)
    decision = merge(inventory, layered([("test", setting)]), memory)
    configuration = decision.configuration
    assert configuration.topologies[0].default
    assert sum(t.default for t in configuration.topologies) == 1
    for name, partition in inventory.partitions.items():
        serving = configuration.of_partition(name)
        assert serving is not None, "a word names a topology that is defined"
        if serving.kind != "flat":
            listed = list(serving.body.nodes())
            assert len(listed) == len(set(listed))
            assert set(partition.nodes) <= set(listed)
    for topology in configuration.topologies:
        serves = [p for p in inventory.partitions if configuration.of_partition(p) is topology]
        assert serves or topology.default
        if topology.kind != "flat":
            allowed = {n for p in serves for n in inventory.partitions[p].nodes}
            assert set(topology.body.nodes()) == allowed, (
                "a topology holds exactly the nodes of the partitions it serves"
            )


@settings(deadline=None)
@given(mixed_inputs(), random_settings, st.randoms(use_true_random=False))
def test_same_facts_same_bytes_whatever_the_order(
    given_inputs: tuple[SimulatedCluster, dict[str, Any]], setting: dict[str, Any], rng: random.Random
) -> None:
    simulated, inputs = given_inputs
    chosen = layered([("test", setting)])
    config = copy.deepcopy(inputs["config"])
    for group in config["InstanceGroups"]:
        rng.shuffle(group["Instances"])
    rng.shuffle(config["InstanceGroups"])
    others = dict(reversed(inputs["records"].items()))
    orders = (inputs, {**inputs, "config": config, "records": others})
    plain, shuffled = (merge(*_with(inventory_of(simulated, **order), chosen)) for order in orders)
    assert topology_yaml.render(plain.configuration) == topology_yaml.render(shuffled.configuration)
    again = merge(*_with(inventory_of(simulated, **inputs, memory=plain.memory), chosen))
    assert again.configuration == plain.configuration, "a second pass over the same facts changes nothing"


def _with(stock: tuple[Any, Memory], chosen: Settings) -> tuple[Any, Settings, Memory]:
    return stock[0], chosen, stock[1]


@settings(deadline=None)
@given(mixed_inputs(), random_settings)
def test_an_unplaced_node_shares_its_leaf_or_block_with_nobody_and_ids_of_two_sources_are_never_mixed(
    given_inputs: tuple[SimulatedCluster, dict[str, Any]], setting: dict[str, Any]
) -> None:
    simulated, inputs = given_inputs
    decision = decide(simulated, {**setting, "max_unplaced_leaves": 64}, **inputs)
    for placement in decision.placements.values():
        assert len({p.path[0][:4] == "ec2-" for p in placement.placed.values() if p.path}) <= 1
        assert (
            len(
                {
                    (p.ultraserver or "")[:3]
                    for p in placement.placed.values()
                    if str(p.ultraserver)[:3] in ("cb-", "sm-")
                }
            )
            <= 1
        )
    for topology in decision.configuration.topologies:
        unplaced = set(decision.placements[topology.name].unplaced) if topology.name in decision.placements else set()
        for unit in topology.body.switches if isinstance(topology.body, Tree) else getattr(topology.body, "blocks", ()):
            if unplaced & set(unit.nodes):
                assert len(unit.nodes) == 1


def test_a_cluster_of_every_kind_is_written_whole() -> None:
    simulated = mixed(p5=16, ultraservers=(18, 17), cpu=2)
    text = topology_yaml.render(decide(simulated).configuration)
    assert [t.name for t in topology_yaml.parse(text).topologies] == ["flat", "block", "tree"]
