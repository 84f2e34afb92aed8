from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core import labels
from topology_plugin.core.position import Position

P = "topology.k8s.aws/"
L = "network-node-layer-"
THREE = Position(("nn-1", "nn-2", "nn-3"))
TWELVE = Position(tuple(f"nn-{n}" for n in range(1, 13)))
MAP = {L + "1": "nn-1", L + "2": "nn-2", L + "3": "nn-3"}


@pytest.mark.parametrize(
    ("label", "position"),
    [
        pytest.param(MAP, THREE, id="map"),
        pytest.param({L + "3": "nn-3", L + "1": "nn-1", L + "2": "nn-2"}, THREE, id="map-in-another-order"),
        pytest.param({P + L + "1": "nn-1", P + L + "2": "nn-2", P + L + "3": "nn-3"}, THREE, id="prefix"),
        pytest.param({P + L + "1": "nn-1", L + "2": "nn-2", L + "3": "nn-3"}, THREE, id="prefix-on-some"),
        pytest.param([{"Key": f"{L}{n}", "Value": f"nn-{n}"} for n in (2, 3, 1)], THREE, id="list-of-Key-Value"),
        pytest.param([{"Name": f"{P}{L}{n}", "Value": f"nn-{n}"} for n in (1, 2, 3)], THREE, id="list-of-Name-Value"),
        pytest.param({L + "1": "nn-1"}, Position(("nn-1",)), id="one-layer"),
        pytest.param({f"{L}{n}": f"nn-{n}" for n in range(12, 0, -1)}, TWELVE, id="twelve-layers-not-in-text-order"),
        pytest.param({L + "1": "nn-1", "ultraserver-id": "us-7"}, Position(("nn-1",), "us-7"), id="ultraserver"),
        pytest.param({P + "ultraserver-id": "us-7"}, Position((), "us-7"), id="ultraserver-alone-with-prefix"),
        pytest.param({L + "1": "nn-1", "ultraserver-id": "null"}, Position(("nn-1",)), id="ultraserver-the-word-null"),
        pytest.param({L + "1": "nn-1", "ultraserver-id": None}, Position(("nn-1",)), id="ultraserver-null"),
        pytest.param({**MAP, L + "4": None}, THREE, id="fourth-layer-null"),
        pytest.param({**MAP, L + "4": "null"}, THREE, id="fourth-layer-the-word-null"),
        pytest.param({L + "1": " nn-1 "}, Position(("nn-1",)), id="blanks-around-an-id"),
        pytest.param({L + "1": "nn-1", "instance-color": {"deep": [1]}}, Position(("nn-1",)), id="unknown-keys"),
        pytest.param(None, None, id="null"),
        pytest.param("null", None, id="the-word-null"),
        pytest.param("", None, id="empty-text"),
        pytest.param({}, None, id="empty-map"),
        pytest.param([], None, id="empty-list"),
        pytest.param({L + "1": None, L + "2": "null", L + "3": ""}, None, id="all-layers-null"),
    ],
)  # fmt: skip
def test_every_form_of_a_label_gives_its_position(label: Any, position: Position | None) -> None:
    assert labels.parse(label) == position


@pytest.mark.parametrize(
    ("label", "words"),
    [
        pytest.param({L + "1": "nn-1", L + "3": "nn-3"}, "layer 2 has no id although layer 3 has one", id="gap"),
        pytest.param({L + "1": None, L + "2": "nn-2"}, "layer 1 has no id", id="top-missing"),
        pytest.param({L + "1": "nn-1", L + "2": "nn-1"}, "two layers", id="one-id-twice"),
        pytest.param([{"Key": L + "1", "Value": "a"}, {"Key": L + "1", "Value": "b"}], "two ids", id="layer-twice"),
        pytest.param({"ultraserver-id": "a", P + "ultraserver-id": "b"}, "two UltraServers", id="two-ultraservers"),
        pytest.param({L + "1": 7}, "is not text", id="number"),
        pytest.param({L + "1": ["nn-1"]}, "is not text", id="list-for-an-id"),
        pytest.param({L + "1": "nn\n1"}, "cannot be an id", id="line-break"),
        pytest.param({L + "1": "\ud800"}, "cannot be an id", id="lone-surrogate"),
        pytest.param({L + "1": "x" * 5000}, "cannot be an id", id="endless"),
        pytest.param("nn-1/nn-2", "neither a map nor a list", id="text"),
        pytest.param(3, "neither a map nor a list", id="a-number-as-label"),
        pytest.param(["nn-1", "nn-2"], "no key with a value", id="list-of-text"),
        pytest.param([{"Value": "nn-1"}], 'neither "Key" nor "Name"', id="no-key"),
    ],
)  # fmt: skip
def test_a_label_that_cannot_be_used_says_why_and_gives_no_position(label: Any, words: str) -> None:
    with pytest.raises(labels.LabelError) as caught:
        labels.parse(label)
    assert words in str(caught.value)
    assert str(caught.value).isascii()
    assert len(str(caught.value)) < 300


def test_br_17_labels_in_any_order_and_ec2s_top_down_list_are_the_same_path() -> None:
    network_nodes = ("nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa1")
    label = {L + "3": network_nodes[2], L + "1": network_nodes[0], L + "2": network_nodes[1]}
    assert labels.parse(label) == Position(network_nodes)


IDS = st.from_regex(r"nn-[0-9a-f]{1,17}", fullmatch=True)


@given(st.lists(IDS, unique=True, min_size=1, max_size=8), st.none() | IDS, st.randoms(), st.booleans())
def test_form_order_and_prefix_say_nothing_about_the_position(
    path: list[str], server: str | None, order: Any, k8s: bool
) -> None:
    pairs = [(f"{P if k8s else ''}{L}{n}", identity) for n, identity in enumerate(path, 1)]
    if server:
        pairs.append((f"{P if k8s else ''}ultraserver-id", server))
    order.shuffle(pairs)
    expected = Position(tuple(path), server)
    assert labels.parse(dict(pairs)) == expected
    assert labels.parse([{"Key": key, "Value": value} for key, value in pairs]) == expected
    assert labels.parse([{"Name": key, "Value": value} for key, value in pairs]) == expected


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text()
    | st.sampled_from([L + "1", L + "2", "ultraserver-id", "null"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from([L + "1", P + L + "2", "Key", "Name", "Value", "ultraserver-id"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@given(JSON)
def test_whatever_stands_there_is_a_position_nothing_or_a_label_error(label: Any) -> None:
    try:
        position = labels.parse(label)
    except labels.LabelError:
        return
    if position is not None:
        assert position
        assert all(map(labels.is_id, (*position.path, *filter(None, [position.ultraserver]))))
