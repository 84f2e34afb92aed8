"""Which kind each partition gets: a row per rule of HyperPod's own manager, then what goes beyond it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.clusters import CPU, GB, P5, conf_text, decide, names, words
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    without_network_data,
)

p5_nodes = in_tree("worker-p5", "ml.p5.48xlarge", 16)
gb_nodes = in_ultraservers("worker-gb", [18, 18])
cpu_nodes = without_network_data("worker-cpu", "ml.c5.9xlarge", 4)

ROWS = [
    pytest.param(cluster(P5).with_machines(p5_nodes), ["tree"], {"dev": "tree", "train": "tree"}, id="only-p5"),
    pytest.param(cluster(GB).with_machines(gb_nodes), ["block"], {"dev": "block", "gb": "block"}, id="only-ultraservers"),
    pytest.param(cluster(CPU).with_machines(cpu_nodes), ["flat"], {"dev": None, "cpu": None}, id="only-cpu"),
    pytest.param(
        cluster(P5, GB).with_machines([*p5_nodes, *gb_nodes]),
        ["tree", "block"],
        {"dev": "tree", "train": "tree", "gb": "block"},
        id="p5-and-ultraservers",
    ),
    pytest.param(
        cluster(P5, CPU).with_machines([*p5_nodes, *cpu_nodes]),
        ["flat", "tree"],
        {"dev": None, "train": "tree", "cpu": None},
        id="p5-and-cpu",
    ),
    pytest.param(
        cluster(P5, GB, CPU).with_machines([*p5_nodes, *gb_nodes, *cpu_nodes]),
        ["flat", "block", "tree"],
        {"dev": None, "train": "tree", "gb": "block", "cpu": None},
        id="all-three",
    ),
    pytest.param(
        cluster(P5, SimulatedGroup("worker-gb", "ml.p6e-gb200.36xlarge", ("train",))).with_machines([*p5_nodes, *gb_nodes]),
        ["tree"],
        {"dev": "tree", "train": "tree"},
        id="ultraservers-and-p5-in-one-partition",
    ),
    pytest.param(
        cluster(P5, SimulatedGroup("worker-cpu", "ml.c5.9xlarge", ("train",))).with_machines([*p5_nodes, *cpu_nodes]),
        ["flat"],
        {"dev": None, "train": None},
        id="p5-and-cpu-in-one-partition",
    ),
    pytest.param(
        cluster(P5, CPU).with_machines(p5_nodes), ["flat", "tree"], {"dev": None, "train": "tree", "cpu": None}, id="cpu-scaled-to-zero"
    ),
    pytest.param(cluster(P5, GB).with_machines(p5_nodes), ["tree"], {"dev": "tree", "train": "tree", "gb": None}, id="ultraservers-scaled-to-zero"),
]  # fmt: skip


@pytest.mark.parametrize(("simulated", "topologies", "expected"), ROWS)
def test_kinds_and_default_are_hyperpods(
    simulated: SimulatedCluster, topologies: list[str], expected: dict[str, str | None]
) -> None:
    decision = decide(simulated)
    assert names(decision) == topologies
    assert words(decision) == expected


def test_a_login_group_is_no_compute_group_but_its_node_in_dev_is_unplaced() -> None:
    decision = decide(cluster(P5).with_machines(p5_nodes))
    assert set(decision.placements["tree"].unplaced) == {"ip-10-1-0-8"}
    assert decision.partitions["dev"].rule == "every group has network data: worker-p5"


def test_a_login_group_with_a_node_in_a_named_partition_is_a_compute_group_like_any_other() -> None:
    simulated = cluster(P5).with_machines(p5_nodes)
    decision = decide(simulated, lines=conf_text(simulated, "PartitionName=interactive Nodes=ip-10-1-0-8"))
    assert words(decision) == {"dev": None, "train": "tree", "interactive": None}
    assert decision.default_rule == "groups without network data: login-group"


def test_a_group_that_no_partition_names_counts_in_dev_unless_it_is_controller_or_login() -> None:
    loose = SimulatedGroup("loose", "ml.m5.xlarge")
    simulated = cluster(P5, loose).with_machines([*p5_nodes, *without_network_data("loose", "ml.m5.xlarge", 2)])
    assert words(decide(simulated)) == {"dev": None, "train": "tree"}
    assert words(decide(simulated, parameters=None))["dev"] == "tree", "roles unknown: it does not count"


def test_nodes_in_a_named_partition_make_a_compute_group_without_any_parameters() -> None:
    decision = decide(cluster(P5, CPU).with_machines([*p5_nodes, *cpu_nodes]), parameters=None)
    assert words(decision) == {"dev": None, "train": "tree", "cpu": None}


def test_a_group_in_two_partitions_serves_both_with_one_topology() -> None:
    both = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train", "debug"))
    decision = decide(cluster(both).with_machines(p5_nodes))
    assert names(decision) == ["tree"]
    assert words(decision) == {"dev": "tree", "train": "tree", "debug": "tree"}


def test_evidence_wins_over_the_table_of_types() -> None:
    new = SimulatedGroup("worker-new", "ml.p9.96xlarge", ("new",))
    assert words(decide(cluster(new).with_machines(in_tree("worker-new", "ml.p9.96xlarge", 8))))["new"] == "tree"
    servers = in_ultraservers("worker-new", [4, 4], instance_type="ml.p9.96xlarge")
    assert words(decide(cluster(new).with_machines(servers)))["new"] == "block"


def test_one_late_label_flips_nothing_because_the_type_is_remembered() -> None:
    new = SimulatedGroup("worker-new", "ml.p9.96xlarge", ("new",))
    machines = in_tree("worker-new", "ml.p9.96xlarge", 3)
    before = decide(cluster(new).with_machines(machines))
    silent = (
        cluster(new).with_machines(machines).with_changed(machines[0].name, label=None, instance_id="i-0new00000000001")
    )
    after = decide(silent, memory=before.memory)
    assert words(after) == words(before)
    assert machines[0].name in after.placements["tree"].unplaced


def test_a_partition_whose_nodes_have_no_position_is_flat_and_says_why() -> None:
    silent = [m.__class__(**{**m.__dict__, "label": None}) for m in p5_nodes]
    decision = decide(cluster(P5).with_machines(silent))
    assert names(decision) == ["flat"]
    assert decision.partitions["train"].rule.endswith("but no node has a position, so flat")
    assert decision.default_rule.endswith("so flat")


@pytest.mark.parametrize(
    ("settings", "topologies", "expected"),
    [
        pytest.param({"partitions": {"train": {"kind": "flat"}}}, ["tree", "flat"], {"dev": "tree", "train": "flat"}, id="kind"),
        pytest.param(
            {"partitions": {"train": {"separate_fabrics": True}}},
            ["tree", "tree-train"],
            {"dev": "tree", "train": "tree-train"},
            id="options-of-its-own",
        ),
        pytest.param({"partitions": {"elsewhere": {"kind": "flat"}}}, ["tree"], {"dev": "tree", "train": "tree"}, id="no-such-partition"),
    ],
)  # fmt: skip
def test_settings_for_one_partition(settings: dict[str, Any], topologies: list[str], expected: dict[str, str]) -> None:
    decision = decide(cluster(P5).with_machines(p5_nodes), settings)
    assert names(decision) == topologies
    assert words(decision) == expected


def test_mixed_partitions_tree_places_who_can_be_placed() -> None:
    mixed = cluster(P5, SimulatedGroup("worker-cpu", "ml.c5.9xlarge", ("train",))).with_machines(
        [*p5_nodes, *cpu_nodes]
    )
    decision = decide(mixed, {"mixed_partitions": "tree"})
    assert names(decision) == ["flat", "tree"]
    assert words(decision) == {"dev": "tree", "train": "tree"}
    assert set(decision.placements["tree"].unplaced) == {"ip-10-1-0-8", *(m.name for m in cpu_nodes)}


def test_a_name_that_slurm_cannot_take_is_hashed() -> None:
    dotted = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("ml.p5.48xlarge",))
    settings = {"partitions": {"ml.p5.48xlarge": {"separate_fabrics": False}}}
    decision = decide(cluster(dotted).with_machines(p5_nodes), settings)
    word = words(decision)["ml.p5.48xlarge"]
    assert word is not None
    assert word.startswith("tree-")
    assert "." not in word


def test_an_empty_partition_gets_a_word_only_if_that_topology_exists_anyway() -> None:
    spare = SimulatedGroup("worker-x", "ml.p5.48xlarge", ("spare",))
    assert words(decide(cluster(P5, spare).with_machines(p5_nodes)))["spare"] == "tree"
    only = decide(cluster(spare, CPU).with_machines(cpu_nodes))
    assert names(only) == ["flat"]
    assert words(only)["spare"] is None
    flat_default_tree = decide(
        cluster(P5).with_machines(p5_nodes),
        lines=conf_text(cluster(P5).with_machines(p5_nodes), 'PartitionName=none Nodes=""'),
    )
    assert words(flat_default_tree)["none"] is None
    assert names(flat_default_tree) == ["tree"]
