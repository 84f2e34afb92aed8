"""Levels are the network's own layers and UltraServers, by the words of the EKS side."""

from __future__ import annotations

import pytest

from tests import states
from topology_plugin.core.issues import InputError
from topology_plugin.jobs import distance, levels
from topology_plugin.jobs.distance import Network

STATE = states.state()
TRAIN = distance.of_state(STATE, "train")
ULTRA = distance.of_state(STATE, "ultra")


@pytest.mark.parametrize(
    ("word", "count"),
    [
        pytest.param("topology.k8s.aws/network-node-layer-1", 1, id="full word, top"),
        pytest.param("network-node-layer-2", 2, id="without the prefix"),
        pytest.param("layer-2", 2, id="short"),
        pytest.param("Layer3", 8, id="careless"),
        pytest.param("leaf", 8, id="leaf"),
    ],
)
def test_a_word_names_a_layer_of_the_network_and_not_a_depth_of_the_tree(word: str, count: int) -> None:
    assert len(levels.parse(word, TRAIN, "train").domains(TRAIN)) == count


@pytest.mark.parametrize("word", ["ultraserver", "topology.k8s.aws/ultraserver-id", "block"])
def test_ultraservers_are_a_level_where_there_are_some(word: str) -> None:
    assert sorted(levels.parse(word, ULTRA, "ultra").domains(ULTRA)) == ["us-0001", "us-0002"]


@pytest.mark.parametrize(
    ("word", "network", "partition", "named"),
    [
        pytest.param("rack", TRAIN, "train", "network-node-layer-3 (leaf, layer-3)", id="no level at all"),
        pytest.param("layer-4", TRAIN, "train", "network-node-layer-1 (layer-1)", id="a layer too many"),
        pytest.param("ultraserver", TRAIN, "train", "network-node-layer-2 (layer-2)", id="no UltraServers"),
        pytest.param("layer-3", ULTRA, "ultra", "topology.k8s.aws/ultraserver-id (ultraserver)", id="two layers"),
        pytest.param("leaf", Network(("a",)), "cpu", "nothing is known", id="nothing known"),
    ],
)
def test_an_unknown_level_is_an_error_that_names_those_of_the_partition(
    word: str, network: Network, partition: str, named: str
) -> None:
    with pytest.raises(InputError) as caught:
        levels.parse(word, network, partition)
    assert partition in str(caught.value)
    assert named in str(caught.value)


def test_layers_have_no_numbers_where_only_slurms_tree_is_known() -> None:
    topology = STATE.desired.of_partition("train")
    assert topology is not None
    network = distance.of_topology(topology)
    assert len(levels.parse("leaf", network, "train").domains(network)) == 8
    with pytest.raises(InputError, match="only where the state of the last pass can be read"):
        levels.parse("layer-2", network, "train")


def test_a_layer_that_only_some_nodes_have_holds_only_those() -> None:
    network = Network(("p5", "b200"), {"p5": ("t", "s", "l"), "b200": ("t", "a", "b", "c")})
    assert levels.parse("layer-4", network, "p").domains(network) == {"t/a/b/c": ("b200",)}
    assert len(levels.parse("leaf", network, "p").domains(network)) == 2


def test_equal_ids_below_different_switches_are_different_domains() -> None:
    network = Network(("a", "b"), {"a": ("t", "s1", "l"), "b": ("t", "s2", "l")})
    assert len(levels.parse("leaf", network, "p").domains(network)) == 2


@pytest.mark.parametrize(
    ("capacities", "size", "count"),
    [([8, 8, 8], 17, 3), ([3, 8, 8], 16, 2), ([8], 8, 1), ([8], 9, 1), ([], 1, 0), ([1, 1, 5], 6, 2)],
)
def test_the_fewest_domains_are_the_largest(capacities: list[int], size: int, count: int) -> None:
    assert levels.fewest(capacities, size) == count
