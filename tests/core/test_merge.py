"""The merge: every node where its sources say, one id space a topology, names and bytes that only facts decide."""

from __future__ import annotations

import copy
import json
import random
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests import cases
from tests.clusters import conf_text, decide, inventory_of, names, words
from topology_plugin.core import decision_json, records, topology_yaml
from topology_plugin.core.decision import Decision, Memory
from topology_plugin.core.inventory_json import Positions
from topology_plugin.core.merge import merge
from topology_plugin.core.position import Position
from topology_plugin.core.settings import Settings, layered
from topology_plugin.core.sources import ApiAnswers, ApiGroup
from topology_plugin.core.topology import Blocks, Tree
from topology_plugin.jobs.simulated_cluster import (
    CLUSTER_ARN,
    Machine,
    SimulatedCluster,
    SimulatedGroup,
    answers,
    cluster,
    in_tree,
    in_ultraservers,
    machine,
    mixed,
    without_network_data,
)

P5 = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train",))
GB = SimulatedGroup("worker-gb", "ml.p6e-gb200.36xlarge", ("gb",))
SIMPLE = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))


def tree_of(decision: Decision, name: str = "tree") -> Tree:
    topology = decision.configuration.topology(name)
    assert topology is not None
    assert isinstance(topology.body, Tree)
    return topology.body


def blocks_of(decision: Decision, name: str = "block") -> Blocks:
    topology = decision.configuration.topology(name)
    assert topology is not None
    assert isinstance(topology.body, Blocks)
    return topology.body


def leaf_of(decision: Decision, node: str) -> str:
    return next(s.name for s in tree_of(decision).switches if node in s.nodes)


def f0_decision(config: dict[str, Any] | None = None, lines: list[str] | None = None, **more: Any) -> Decision:
    return decide(
        SIMPLE,
        config=config or cases.f0(),
        parameters=more.pop("parameters", cases.f0_provisioning()),
        lines=lines or cases.F0_LINES,
        **more,
    )


def test_f0_is_one_tree_for_both_partitions_with_the_login_node_unplaced() -> None:
    decision = f0_decision()
    assert words(decision) == {"dev": "tree", "train": "tree"}
    assert {s.name: s.nodes for s in tree_of(decision).switches if s.nodes} == {
        "nn-3aaaaaaaaaaaaaaa1": ("ip-10-1-1-11",),
        "nn-3aaaaaaaaaaaaaaa2": ("ip-10-1-1-12",),
        "nn-3aaaaaaaaaaaaaaa3": ("ip-10-1-1-21", "ip-10-1-1-22"),
        "unplaced-ip-10-1-1-8": ("ip-10-1-1-8",),
    }


def test_br_01_a_group_without_instances_is_zero_nodes() -> None:
    plain = f0_decision()
    for absent in ({}, {"Instances": None}, {"Instances": []}):
        config = cases.f0()
        config["InstanceGroups"].append({"Name": "worker-x", "InstanceType": "ml.p5.48xlarge", **absent})
        given = cases.f0_provisioning()
        given["worker_groups"].append({"instance_group_name": "worker-x", "partition_name": "spare"})
        decision = f0_decision(config, [*cases.F0_LINES, 'PartitionName=spare Nodes=""'], parameters=given)
        assert decision.configuration.topologies == plain.configuration.topologies
        assert words(decision) == {"dev": "tree", "train": "tree", "spare": "tree"}


def test_br_04_membership_comes_from_the_controller_not_from_a_workers_stale_copy() -> None:
    """The worker's record names its own instance only, so its ghost groups can reach nothing."""
    config = cases.f0()
    place = cases.labels(cases.TOP, "nn-2aaaaaaaaaaaaaaa2", "nn-3aaaaaaaaaaaaaaa9")
    config["InstanceGroups"].append(
        {
            "Name": "worker-c",
            "InstanceType": "ml.p5.48xlarge",
            "Instances": [cases.member("worker-c", 1, "i-0c100000000000001", "1", 31, place)],
        }
    )
    lines = [*cases.F0_LINES[:-2], "NodeName=ip-10-1-1-31 NodeAddr=10.1.1.31", *cases.F0_LINES[-2:]]
    decision = f0_decision(config, lines)
    assert "ip-10-1-1-31" in set(tree_of(decision).nodes())
    assert not any("worker-old" in str(decision.partitions[p]) for p in decision.partitions)


def test_br_05_dots_all_and_a_group_in_two_partitions() -> None:
    given = cases.f0_provisioning()
    given["worker_groups"] = [
        {"instance_group_name": "worker-a", "partition_name": "ml.p5.48xlarge"},
        {"instance_group_name": "worker-b", "partition_name": "ml.p5.48xlarge"},
        {"instance_group_name": "worker-a", "partition_name": "debug"},
    ]
    lines = [
        *cases.F0_LINES[:-1],
        "PartitionName=ml.p5.48xlarge Nodes=ip-10-1-1-[11-12,21-22]",
        "PartitionName=debug Nodes=ip-10-1-1-[11-12]",
    ]
    decision = f0_decision(None, lines, parameters=given)
    assert words(decision) == {"dev": "tree", "ml.p5.48xlarge": "tree", "debug": "tree"}
    assert sorted(tree_of(decision).nodes()) == sorted(f"ip-10-1-1-{n}" for n in (8, 11, 12, 21, 22))


def test_br_09_nodes_without_network_data_wait_for_nobody() -> None:
    config = cases.f0()
    config["InstanceGroups"].append(
        {
            "Name": "worker-c",
            "InstanceType": "ml.m5.xlarge",
            "Instances": [cases.member("worker-c", n, f"i-0e00000000000000{n}", "1", 30 + n, None) for n in (1, 2)],
        }
    )
    given = cases.f0_provisioning()
    given["worker_groups"].append({"instance_group_name": "worker-c", "partition_name": "cpu"})
    lines = [
        *cases.F0_LINES[:-2],
        *(f"NodeName=ip-10-1-1-{n} NodeAddr=10.1.1.{n}" for n in (31, 32)),
        *cases.F0_LINES[-2:],
        "PartitionName=cpu Nodes=ip-10-1-1-[31-32]",
    ]
    decision = f0_decision(config, lines, parameters=given)
    assert names(decision) == ["flat", "tree"]
    assert words(decision) == {"dev": None, "train": "tree", "cpu": None}
    assert "worker-c" in decision.partitions["dev"].rule
    joined = f0_decision(config, lines, parameters=given, settings={"mixed_partitions": "tree"})
    assert joined.placements["tree"].unplaced.keys() == {"ip-10-1-1-8", "ip-10-1-1-31", "ip-10-1-1-32"}
    assert "InstanceLabel is empty" in joined.placements["tree"].unplaced["ip-10-1-1-31"]


@pytest.mark.parametrize(
    "silence", [{}, {"silent": {"i-0a000000000000001": "InvalidInstanceID.NotFound"}}], ids=["empty", "not-found"]
)
def test_br_10_labels_serve_where_ec2_finds_nothing_and_without_either_nothing_is_pretended(
    silence: dict[str, Any],
) -> None:
    api = {"ec2": ApiAnswers(**silence)}
    decision = f0_decision(api=api)
    assert set(decision.placements["tree"].source.values()) == {"resource-config"}
    bare = cases.f0()
    for name in ("worker-a", "worker-b"):
        for entry in cases.group_of(bare, name)["Instances"]:
            entry["InstanceLabel"] = None
    without = f0_decision(bare, api=api)
    assert names(without) == ["flat"]
    assert words(without) == {"dev": None, "train": None}


def test_br_11_a_block_wish_without_any_domain_makes_no_block_topology() -> None:
    decision = f0_decision(settings={"partitions": {"train": {"kind": "block"}}})
    assert names(decision) == ["tree", "flat"]
    assert words(decision) == {"dev": "tree", "train": "flat"}
    assert "no node has a position" in decision.partitions["train"].rule
    assert "block" not in topology_yaml.render(decision.configuration).split("\n", 1)[1]


def test_br_12_the_base_size_depends_neither_on_the_first_block_nor_on_the_smallest() -> None:
    for sizes in ([18, 16, 9, 8], [8, 9, 16, 18]):
        decision = decide(cluster(GB).with_machines(in_ultraservers("worker-gb", sizes)))
        assert blocks_of(decision).sizes == (18,)
        assert sorted(len(b.nodes) for b in blocks_of(decision).blocks if b.name.startswith("us-srv")) == [8, 9, 16, 18]


def test_br_12_on_24_11_block_only_if_every_node_is_in_a_full_block() -> None:
    full, _ = (cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", s)) for s in ([18, 18], [18, 9]))
    short = cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", [18, 9]))
    no_path = cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", [18, 9], with_layers=False))
    kinds = []
    for simulated in (full, short, no_path):
        inventory, memory = inventory_of(simulated)
        decision = merge(inventory, Settings(), memory, classic=True)
        kinds.append(names(decision))
        assert set(words(decision).values()) == {None}
    assert kinds == [["block"], ["tree"], ["flat"]]


def test_br_13_only_nodes_of_slurm_conf_and_the_others_are_listed() -> None:
    config = cases.f0()
    extra = cases.group_of(config, "worker-b")["Instances"]
    extra.append(
        cases.member(
            "worker-b", 8, "i-0b000000000000008", "1", 28, cases.labels(cases.TOP, "nn-2x", "nn-3aaaaaaaaaaaaaaa8")
        )
    )
    extra.append(
        {
            **cases.member(
                "worker-b", 9, "i-0b000000000000009", "1", 29, cases.labels(cases.TOP, "nn-2x", "nn-3aaaaaaaaaaaaaaa9")
            ),
            "CustomerIpAddress": "",
            "InstanceName": "",
        }
    )
    decision = f0_decision(config)
    assert decision.configuration == f0_decision().configuration
    assert any("i-0b000000000000008" in note for note in decision.notes)
    assert any("i-0b000000000000009" in note for note in decision.notes)


def test_br_14_two_zones_are_two_roots_and_the_log_says_so() -> None:
    config = cases.f0()
    for entry in cases.group_of(config, "worker-b")["Instances"]:
        entry["InstanceLabel"]["network-node-layer-1"] = "nn-1bbbbbbbbbbbbbbb1"
    zones = {
        i["InstanceId"]: zone
        for name, zone in (("worker-a", "usw2-az1"), ("worker-b", "usw2-az2"))
        for i in cases.group_of(config, name)["Instances"]
    }
    apart = f0_decision(config, api={"ec2": ApiAnswers(zones=zones)})
    assert [r.name for r in tree_of(apart).roots()][:2] == ["root-usw2-az1", "root-usw2-az2"]
    assert any("a job cannot span root-usw2-az1 and root-usw2-az2" in note for note in apart.notes)
    joined = f0_decision(config)
    assert [r.name for r in tree_of(joined).roots()] == ["root"]
    assert any(
        "joins the top network nodes nn-1aaaaaaaaaaaaaaa1, nn-1bbbbbbbbbbbbbbb1" in note for note in joined.notes
    )


def test_br_17_layers_in_any_order_give_the_same_tree() -> None:
    config = cases.f0()
    entry = cases.group_of(config, "worker-a")["Instances"][0]
    entry["InstanceLabel"] = {
        k: entry["InstanceLabel"][k] for k in ("network-node-layer-3", "network-node-layer-1", "network-node-layer-2")
    }
    assert f0_decision(config).configuration == f0_decision().configuration


def test_br_18_scheduler_state_does_not_decide_membership() -> None:
    loaded = [
        {"name": f"ip-10-1-1-{n}", "state": state}
        for n, state in ((11, ["IDLE", "DRAIN"]), (12, ["DOWN"]), (21, ["IDLE", "POWERED_DOWN"]))
    ]
    assert f0_decision(loaded=loaded).configuration == f0_decision().configuration


def test_a_dynamic_node_is_a_member_and_an_unknown_static_one_is_not() -> None:
    loaded = [
        {"name": "dyn-1", "address": "10.1.9.9", "hostname": "dyn-1", "state": ["IDLE", "DYNAMIC_NORM"]},
        {"name": "gone-1", "address": "10.1.9.8", "hostname": "gone-1", "state": ["DOWN"]},
    ]
    decision = f0_decision(loaded=loaded)
    assert "dyn-1" in decision.placements["tree"].unplaced
    assert "gone-1" not in set(tree_of(decision).nodes())


# --- id spaces -------------------------------------------------------------------------------------------------------


def unlabelled(simulated: SimulatedCluster, silent: set[str]) -> SimulatedCluster:
    return replace(
        simulated, machines=tuple(replace(m, label=None) if m.name in silent else m for m in simulated.machines)
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
    record = records.Record(
        CLUSTER_ARN,
        late.instance_id,
        f"{late.group}-{late.number}",
        late.address,
        late.agent_address,
        late.group,
        late.instance_type,
        None,
        None,
        {"resource-config": late.label},
        {},
    )  # type: ignore[dict-item]
    without = decide(unlabelled(SIMPLE, {late.name}))
    assert late.name in without.placements["tree"].unplaced
    filled = decide(unlabelled(SIMPLE, {late.name}), records={late.instance_id: record})
    assert filled.configuration == decide(SIMPLE).configuration
    assert filled.placements["tree"].source[late.name] == "records"


def test_a_setting_without_a_source_leaves_it_out() -> None:
    decision = decide(SIMPLE, {"sources": ["ec2"]})
    assert names(decision) == ["flat"]


# --- no data is not "no nodes" ---------------------------------------------------------------------------------------


LOOSE = SimulatedGroup("loose", "ml.m5.xlarge")
TOLD_ONCE = [
    pytest.param(
        cluster(P5).with_machines(
            [*in_tree("worker-p5", "ml.p5.48xlarge", 4), *in_tree("worker-p5", "ml.p5.48xlarge", 4, fabric="b", first=9)]
        ),
        {
            "api": {"ec2": ApiAnswers(zones={m.instance_id: z for ms, z in ((in_tree("worker-p5", "ml.p5.48xlarge", 4), "az1"), (in_tree("worker-p5", "ml.p5.48xlarge", 4, fabric="b", first=9), "az2")) for m in ms})}
        },
        id="zones",
    ),
    pytest.param(
        cluster(P5, LOOSE).with_machines(
            [*in_tree("worker-p5", "ml.p5.48xlarge", 4), *without_network_data("loose", "ml.m5.xlarge", 2)]
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
    left = records.Record(CLUSTER_ARN, old.instance_id, None, old.address, old.agent_address, old.group, old.instance_type, None, None, {"resource-config": old.label}, {})  # fmt: skip
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
    ghosts = {m.instance_id: records.Record(CLUSTER_ARN, m.instance_id, None, m.address, m.agent_address, m.group, m.instance_type, None, None, {"resource-config": m.label}, {}) for m in SIMPLE.machines if m.label}  # fmt: skip
    listed = decide(SIMPLE, config=one.resource_config(), records=ghosts, memory=before.memory)
    assert listed.configuration == before.configuration
    gone = decide(one, records=ghosts, memory=listed.memory)
    assert [s.name for s in tree_of(gone).switches if not s.nodes and not s.children] == []
    assert len(set(tree_of(gone).nodes())) == 2


# --- blocks ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("types", "seen", "spares", "expected"),
    [
        pytest.param(["u-p6e-gb200x72"], 3, 0, 18, id="x72"),
        pytest.param(["u-p6e-gb200x36"], 9, 0, 9, id="x36"),
        pytest.param(["u-p6e-gb200x36", "u-p6e-gb200x72"], 9, 0, 18, id="both"),
        pytest.param([None], 9, 0, 9, id="unknown-and-never-more-than-9"),
        pytest.param([None], 10, 0, 18, id="unknown-and-once-10"),
        pytest.param([None], 18, 1, 17, id="a-spare"),
    ],
)
def test_the_base_size(types: list[str | None], seen: int, spares: int, expected: int) -> None:
    from topology_plugin.core.blocks import base_size

    assert base_size(types, seen, spares) == expected


def test_the_base_size_does_not_follow_what_is_broken_today() -> None:
    whole = cluster(GB).with_machines(in_ultraservers("worker-gb", [18, 18]))
    before = decide(whole)
    broken = whole.without({m.name for m in whole.members("worker-gb") if 8 < m.number <= 18 or m.number > 26})
    assert blocks_of(decide(broken, memory=before.memory)).sizes == (18,)


def test_br_08_nodes_whose_ultraserver_is_not_known_yet_share_no_block() -> None:
    machines = in_ultraservers("worker-gb", [6])
    late = cluster(GB, logins=0).with_machines(
        [*machines[:3], *(replace(m, label=Position(m.label.path if m.label else ())) for m in machines[3:])]
    )
    blocks = blocks_of(decide(late)).blocks
    assert [len(b.nodes) for b in blocks] == [3, 1, 1, 1]
    assert [b.name for b in blocks][1:] == [f"unplaced-{m.name}" for m in machines[3:]]
    filled = decide(cluster(GB, logins=0).with_machines(machines))
    assert [len(b.nodes) for b in blocks_of(filled).blocks] == [6]


def test_with_several_sizes_the_order_is_a_fact_new_blocks_append_and_padding_fills_the_largest_level() -> None:
    setting = {"block_sizes": [18, 36]}
    servers = in_ultraservers("worker-gb", [18, 18, 18])
    without_first = cluster(GB, logins=0).with_machines(servers[18:])
    before = decide(without_first, setting)
    assert [b.name for b in blocks_of(before).blocks] == ["us-srv0001", "us-srv0002"]
    after = decide(cluster(GB, logins=0).with_machines(servers), setting, memory=before.memory)
    assert [b.name for b in blocks_of(after).blocks] == ["us-srv0001", "us-srv0002", "us-srv0000", "pad-1"]


# --- 24.11, state, properties ----------------------------------------------------------------------------------------


def test_state_survives_its_own_json() -> None:
    decision = decide(mixed(), {"block_sizes": [18, 36]})
    positions = Positions()
    written = json.loads(json.dumps(decision_json.dump_decision(decision, positions, {})))
    assert decision_json.load_decision(written, Positions(positions.rows()), {}) == decision


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


def record_of(one: Machine) -> records.Record:
    answers = {"resource-config": one.label} if one.label else {}
    name = f"{one.group}-{one.number}"
    return records.Record(
        CLUSTER_ARN,
        one.instance_id,
        name,
        one.address,
        one.agent_address,
        one.group,
        one.instance_type,
        None,
        None,
        answers,
        {},
    )


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
    assert conf_text(simulated)
    assert without_network_data("x", "ml.c5.large", 1)[0].label is None
