"""Nodes of a HyperPod-on-EKS cluster: every one appears, whatever it is labelled with."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core.explanation import explain_node, explain_partition
from topology_plugin.core.issues import InputError
from topology_plugin.core.kubernetes import cluster
from topology_plugin.views.scene import arrange

P5 = "ml.p5.48xlarge"


def node(name: str, layers: tuple[str, ...] = (), ultraserver: str | None = None, **more: Any) -> dict[str, Any]:
    labels = {f"topology.k8s.aws/network-node-layer-{i + 1}": layer for i, layer in enumerate(layers)}
    if ultraserver:
        labels["topology.k8s.aws/ultraserver-id"] = ultraserver
    labels["node.kubernetes.io/instance-type"] = more.get("type", P5)
    if "group" in more:
        labels["sagemaker.amazonaws.com/instance-group-name"] = more["group"]
    return {
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "providerID": f"aws:///usw2-az2/sagemaker/cluster/hyperpod-abc-{more.get('id', 'i-0a000000000000001')}",
            **({"unschedulable": True} if more.get("cordoned") else {}),
        },
        "status": {
            "conditions": [{"type": "Ready", "status": more.get("ready", "True")}],
            "addresses": [{"type": "InternalIP", "address": "10.1.1.1"}, {"type": "Hostname", "address": name}],
        },
    }


def listed(*items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}


def test_labels_give_the_tree_and_groups_stand_for_partitions() -> None:
    state, _ = cluster(listed(node("a", ("t", "m", "l1"), group="g1"), node("b", ("t", "m", "l2"), group="g2")))
    assert set(state.inventory.partitions) == {"g1", "g2"}
    (view,) = [v for v in arrange(state).views if v.kind == "tree"]
    assert view.partitions == ("g1", "g2") and set(view.nodes) == {"a", "b"}
    known = state.inventory.nodes["a"]
    assert (known.instance_id, known.instance_type, known.addresses) == ("i-0a000000000000001", P5, ("10.1.1.1",))
    assert not state.owner.writes and not state.drift
    assert all(seat.in_force == seat.desired for name in "ab" for seat in explain_node(state, name).seats)


def test_ultraservers_are_blocks_and_nothing_is_said_of_slurms_block_sizes() -> None:
    items = [node(f"n{i}", ("t",), f"us-{i % 2}", type="ml.p6e-gb200.36xlarge", group="g") for i in range(4)]
    state, _ = cluster(listed(*items))
    (view,) = [v for v in arrange(state).views if v.kind == "block"]
    assert sorted(unit.name for unit in view.units) == ["us-0", "us-1"]
    why = explain_partition(state, "g")
    assert (view.sizes, view.refused, why.sizes, why.refused, why.refused_in_force) == ((), {}, (), (), ())


@pytest.mark.parametrize("provider", ["aws:///usw2-az2/i-0a0000000000000{}", "kind://{}"], ids=["aws", "none"])
def test_a_node_is_explained_by_its_labels_and_nobody_is_sent_to_slurms_files(provider: str) -> None:
    items = [node("a", ("t", "m", "l"), group="g"), node("b", group="g")]
    for number, item in enumerate(items):
        item["spec"]["providerID"] = provider.format(10 + number)
    state, _ = cluster(listed(*items))
    placed, unplaced = (explain_node(state, name) for name in "ab")
    assert [(said.source, said.fits) for said in placed.said] == [("kubernetes", ("tree",))]
    assert [said.silent for said in unplaced.said] == ["no topology.k8s.aws labels"]
    assert placed.advice == unplaced.advice == ()
    assert placed.seats[0].won.startswith("labels place 1 of 2 nodes")
    assert "resource" not in f"{placed}{unplaced}"


def test_without_labels_of_groups_and_types_an_ultraserver_hides_no_switch() -> None:
    items = [node("p5", ("t", "m", "l")), node("gb", ("t", "m", "n"), "us-1"), node("cpu")]
    for item in items:
        del item["metadata"]["labels"]["node.kubernetes.io/instance-type"]
    state, _ = cluster(listed(*items))
    assert {view.kind: view.nodes for view in arrange(state).views if view.kind != "flat"} == {
        "tree": ("p5",), "block": ("gb",),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("more", "word"),
    [({}, "ready"), ({"ready": "False"}, "down"), ({"ready": "Unknown"}, "down"), ({"cordoned": True}, "drained")],
)
def test_the_state_is_that_of_the_node_and_jobs_are_not_known(more: dict[str, Any], word: str) -> None:
    _, live = cluster(listed(node("a", **more)))
    assert live.states == {"a": word} and not live.jobs_known


def test_one_node_alone_is_a_cluster_too() -> None:
    state, _ = cluster(node("a", ("t", "m", "l")))
    assert set(state.inventory.nodes) == {"a"}


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"items": 3},
        {"items": [{}]},
        {"items": [None]},
        {"items": [{"metadata": []}]},
        {"items": [{"metadata": {"name": 5}}]},
        {"items": [{"metadata": {"name": "x\x1b[31m"}}]},
        {"items": [{"kind": "Pod", "metadata": {"name": "x"}}]},
    ],
)
def test_what_is_no_list_of_nodes_is_refused_with_a_remedy(document: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="kubectl get nodes -o json"):
        cluster(document)


@pytest.mark.parametrize("odd", [None, 5, "x", [], [1], {}, {"conditions": 7, "addresses": "x"}])
def test_a_node_of_which_parts_are_of_another_form_is_shown_without_them(odd: object) -> None:
    state, live = cluster({"items": [{"metadata": {"name": "n1", "labels": odd}, "spec": odd, "status": odd}]})
    assert list(state.inventory.nodes) == ["n1"] and live.states == {"n1": "unknown"}


layer_names = st.lists(st.sampled_from(["a", "b", "c", "d", "null", ""]), max_size=5).map(tuple)


@given(
    st.lists(st.tuples(layer_names, st.sampled_from([None, "us-1", "us-2", "null"])), min_size=1, max_size=8),
    st.booleans(),
)
def test_every_node_appears_however_many_layers_it_has(
    shapes: list[tuple[tuple[str, ...], str | None]], one: bool
) -> None:
    items = [node(f"n{i}", layers, us, group="g" if one else f"g{i % 3}") for i, (layers, us) in enumerate(shapes)]
    state, _ = cluster(listed(*items))
    shown = {n for view in arrange(state).views for n in (*view.nodes, *view.uncovered)}
    assert shown == {f"n{i}" for i in range(len(shapes))}
    assert not any(view.uncovered for view in arrange(state).views)
