"""The merge, case by case, on the cluster F0: every node where its sources say, and nothing else decides."""

from __future__ import annotations

from typing import Any

import pytest

from tests import cases
from tests.clusters import SIMPLE, decide, names, tree_of, words
from topology_plugin.core import topology_yaml
from topology_plugin.core.decision import Decision
from topology_plugin.core.sources import ApiAnswers


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
