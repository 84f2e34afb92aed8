from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import cases
from topology_plugin.core import plain_records, record_file, records, resource_config
from topology_plugin.core.issues import Issue
from topology_plugin.core.position import Position
from topology_plugin.core.records import Record

ID = "i-0a000000000000001"
NAME = ID + ".json"


def f0_record() -> Record:
    config = resource_config.parse(json.dumps(cases.f0()))
    found = config.by_id(ID)
    assert found is not None
    return records.of_instance(config.cluster_arn, *found, ID, ("train",), "usw2-az2")


def changed(**changes: Any) -> bytes:
    return json.dumps({**json.loads(records.dump(f0_record())), **changes}).encode()


def answering(**answer: Any) -> bytes:
    return changed(answers={"resource-config": answer})


def test_a_record_has_the_documented_form() -> None:
    assert json.loads(records.dump(f0_record())) == {
        "schema": 1,
        "cluster_arn": cases.ARN,
        "instance_id": ID,
        "instance_name": "worker-a-1",
        "addresses": {"customer": "10.1.1.11", "agent": "172.16.1.11"},
        "group": "worker-a",
        "instance_type": "ml.p5.48xlarge",
        "partitions": ["train"],
        "zone_id": "usw2-az2",
        "answers": {
            "resource-config": {
                "path": ["nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa1"],
                "ultraserver": None,
            }
        },
        "fragment": {
            "kind": "tree",
            "switches": ["nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa1"],
        },
    }


@pytest.mark.parametrize(
    ("position", "fragment"),
    [
        (None, {"kind": "flat"}),
        (Position(("nn-1", "nn-2")), {"kind": "tree", "switches": ["nn-1", "nn-2"]}),
        (Position(("nn-1", "nn-2"), "us-1"), {"kind": "block", "block": "us-1"}),
        (Position((), "us-1"), {"kind": "block", "block": "us-1"}),
    ],
)
def test_the_fragment_is_what_the_node_sees_of_its_partitions_topology(position: Any, fragment: Any) -> None:
    assert records.fragment(position) == fragment


TEXT = st.none() | st.text(st.characters(exclude_categories=("C", "Z")), min_size=1, max_size=20)
IDS = st.from_regex(r"[a-z][a-z0-9-]{0,20}", fullmatch=True).filter(lambda text: text not in ("null", "none"))
POSITIONS = st.builds(Position, st.lists(IDS, unique=True, max_size=5).map(tuple), st.none() | IDS).filter(bool)
RECORDS = st.builds(
    Record,
    cluster_arn=st.just(cases.ARN),
    instance_id=st.from_regex(r"i-[0-9a-f]{17}", fullmatch=True),
    instance_name=TEXT,
    customer_address=TEXT,
    agent_address=TEXT,
    group=TEXT,
    instance_type=TEXT,
    partitions=st.none() | st.lists(st.text("abc.", min_size=1), max_size=3).map(tuple),
    zone_id=TEXT,
    answers=POSITIONS.map(lambda position: {"resource-config": position}) | st.just({}),
    errors=st.just({}),
)


@given(RECORDS)
def test_what_is_written_is_read_back_and_written_alike(record: Record) -> None:
    data = records.dump(record)
    again = plain_records.parse(data, record.file_name, cases.ARN)
    assert again == record
    assert isinstance(again, Record)
    assert records.dump(again) == data


@given(RECORDS, st.data())
def test_whatever_a_records_form_it_says_the_same(record: Record, draw: st.DataObject) -> None:
    """A record as we write it is read by a short way: not another record, not another complaint, than by the long."""
    data = records.dump(record)
    at = draw.draw(st.integers(0, len(data) - 1))
    changed_data = (
        data[:at] + draw.draw(st.sampled_from([b"", b" ", b"\\", b'"', b",", b"}", b"0", data])) + data[at + 1 :]
    )
    for text in (data, changed_data):
        for cluster_arn in (cases.ARN, None):
            told = record_file.parse(text, record.file_name, cluster_arn)
            assert plain_records.parse(text, record.file_name, cluster_arn) == told


def of_neighbours(text: str) -> bytes:
    """A record whose second half is `text`."""
    own, _, _ = records.dump(f0_record()).decode().partition(' "group"')
    return (own + text).encode()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("}", "not valid JSON", id="nothing-behind-a-comma"),
        pytest.param(' "group": "g", "instance_id": "i-0b1"}', "says it is 'i-0b1'", id="another-instance-follows"),
        pytest.param(' "group": "g", "cluster_arn": "arn:x"}', "belongs to another cluster", id="another-cluster-follows"),
        pytest.param(' "group": "g"} {}', "not valid JSON", id="more-than-one"),
        pytest.param(' "group": 5}', "group is 5", id="a-number"),
        pytest.param(f' "group": "g", "fragment": "{"x" * 70_000}"}}', "larger than", id="large"),
    ],
)  # fmt: skip
def test_the_half_that_neighbours_share_hides_nothing(text: str, words: str) -> None:
    issue = plain_records.parse(of_neighbours(text), NAME, cases.ARN)
    assert isinstance(issue, Issue) and words in issue.what


def test_the_half_that_neighbours_share_is_read_once() -> None:
    first, second = (
        plain_records.parse(records.dump(f0_record()._replace(instance_id=i)), f"{i}.json", None) for i in (ID, "i-0b1")
    )
    assert isinstance(first, Record) and isinstance(second, Record)
    assert first.answers is second.answers and first.partitions is second.partitions


def test_a_label_that_could_not_be_read_is_an_error_not_a_position() -> None:
    record = Record(cases.ARN, ID, errors={"resource-config": "layer 2 has no id"})
    assert json.loads(records.dump(record))["answers"] == {"resource-config": {"error": "layer 2 has no id"}}
    again = plain_records.parse(records.dump(record), NAME, cases.ARN)
    assert isinstance(again, Record)
    assert again.position is None
    assert again.errors == {"resource-config": "layer 2 has no id"}


def test_the_next_schema_is_read_without_what_is_new_in_it() -> None:
    data = changed(schema=2, colour="blue", partitions={"new": "form"}, answers={"gossip": [1], "resource-config": {}})
    record = plain_records.parse(data, NAME, cases.ARN)
    assert isinstance(record, Record)
    assert (record.instance_id, record.group, record.partitions, record.position) == (ID, "worker-a", None, None)


def test_the_former_schema_is_read_with_what_it_lacks_unknown() -> None:
    data = json.dumps({"schema": 0, "instance_id": ID, "cluster_arn": cases.ARN}).encode()
    assert plain_records.parse(data, NAME, cases.ARN) == Record(cases.ARN, ID)


@pytest.mark.parametrize(
    ("data", "name", "words"),
    [
        pytest.param(b"", NAME, "is empty", id="empty"),
        pytest.param(b'{"schema": 1, "inst', NAME, "not valid JSON", id="cut"),
        pytest.param(b"\0" * 600, NAME, "not valid JSON", id="zeroes-after-a-crash"),
        pytest.param(b"[" * 60_000, NAME, "not valid JSON", id="deep"),
        pytest.param(b"\xff\xfe\xfa", NAME, "not valid JSON", id="not-text"),
        pytest.param(b'{"schema": ' + b"1" * 6000 + b"}", NAME, "not valid JSON", id="huge-number"),
        pytest.param(b"[]", NAME, "no JSON object", id="list"),
        pytest.param(b" " * (64 * 1024 + 1), NAME, "larger than 65536 bytes", id="large"),
        pytest.param(changed(schema=3), NAME, "has schema 3; this version reads 0 to 2", id="two-schemas-on"),
        pytest.param(changed(schema=True), NAME, "has schema True", id="schema-true"),
        pytest.param(changed(schema="1"), NAME, "has schema '1'", id="schema-text"),
        pytest.param(changed(instance_id="i-0b1"), NAME, "says it is 'i-0b1'", id="another-instance"),
        pytest.param(changed(), "i-0b1.json", f"says it is '{ID}'", id="renamed"),
        pytest.param(changed(), "../" + NAME, "not named by an instance id", id="path-in-the-name"),
        pytest.param(changed(), "i-\n.json", "not named by an instance id", id="line-break-in-the-name"),
        pytest.param(changed(), ".tmp-" + NAME, "not named by an instance id", id="temporary"),
        pytest.param(changed(cluster_arn="arn:x"), NAME, "belongs to another cluster: 'arn:x'", id="other-cluster"),
        pytest.param(changed(cluster_arn=None), NAME, "belongs to another cluster", id="no-cluster"),
        pytest.param(changed(group="a\x1b[31mred"), NAME, "group is 'a\\x1b[31mred'", id="escape-sequence"),
        pytest.param(changed(instance_name="\ud800"), NAME, "instance_name is '\\ud800'", id="lone-surrogate"),
        pytest.param(changed(group="x" * 300), NAME, "group is", id="endless-name"),
        pytest.param(changed(partitions="train"), NAME, "partitions is 'train'", id="partitions-text"),
        pytest.param(changed(answers=[1]), NAME, "answers is [1]", id="answers-list"),
        pytest.param(answering(path="nn-1"), NAME, "answers.resource-config", id="path-text"),
        pytest.param(answering(path=["a", "a"]), NAME, "answers.resource-config", id="loop"),
        pytest.param(answering(path=["null"]), NAME, "answers.resource-config", id="null-id"),
    ],
)  # fmt: skip
def test_an_unusable_record_is_one_issue_that_names_file_and_reason(data: bytes, name: str, words: str) -> None:
    issue = plain_records.parse(data, name, cases.ARN)
    assert isinstance(issue, Issue)
    assert words in issue.what
    assert issue.where.startswith("nodes/")
    assert str(issue).isprintable()
    assert len(str(issue)) < 400


@given(st.binary(max_size=200) | st.text(max_size=100).map(lambda text: json.dumps({"schema": 1, text: text}).encode()))
def test_no_bytes_make_reading_fail(data: bytes) -> None:
    assert isinstance(plain_records.parse(data, NAME, None), Record | Issue)


def test_without_an_arn_of_its_own_a_controller_takes_any_clusters_records() -> None:
    assert isinstance(plain_records.parse(changed(cluster_arn="arn:x"), NAME, None), Record)
