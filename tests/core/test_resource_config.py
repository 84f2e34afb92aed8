from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import cases
from topology_plugin.core import resource_config
from topology_plugin.core.issues import InputError
from topology_plugin.core.position import Position


def read(document: Any) -> resource_config.ResourceConfig:
    return resource_config.parse(json.dumps(document))


def wheres(document: Any) -> list[str]:
    return [issue.where for issue in read(document).issues]


def test_f0_is_read_whole_and_without_an_issue() -> None:
    config = read(cases.f0())
    assert config.issues == ()
    assert config.cluster_arn == cases.ARN
    assert config.cluster_name == "c1"
    assert config.controller_addresses == ("10.1.1.5",)
    assert [(g.name, g.instance_type, len(g.instances)) for g in config.groups] == [
        ("controller-machine", "ml.m5.4xlarge", 1),
        ("login-group", "ml.m5.xlarge", 1),
        ("worker-a", "ml.p5.48xlarge", 2),
        ("worker-b", "ml.p5.48xlarge", 2),
    ]
    found = config.by_id("i-0a000000000000002")
    assert found is not None
    group, machine = found
    assert group.name == "worker-a"
    assert (machine.instance_name, machine.customer_address, machine.agent_address) == (
        "worker-a-2",
        "10.1.1.12",
        "172.16.1.12",
    )
    assert machine.position == Position(("nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa2"))


@pytest.mark.parametrize("nested", [True, False], ids=["inside-ClusterConfig", "top-level"])
def test_cluster_keys_are_read_from_both_places(nested: bool) -> None:
    document = cases.f0()
    keys = {
        "ClusterType": "Slurm",
        "ClusterArn": cases.ARN,
        "ClusterName": "c1",
        "SlurmConfig": {"PrimaryControllerIp": "10.1.1.5", "SecondaryControllerIps": ["10.1.1.6"]},
    }
    for key in ("ClusterConfig", "ClusterType", "SlurmConfig"):
        document.pop(key)
    document.update({"ClusterConfig": keys} if nested else keys)
    config = read(document)
    assert (config.cluster_arn, config.cluster_name, config.issues) == (cases.ARN, "c1", ())
    assert config.controller_addresses == ("10.1.1.5", "10.1.1.6")


@pytest.mark.parametrize("nested", [True, False], ids=["inside-ClusterConfig", "top-level"])
def test_a_kubernetes_cluster_is_refused_plainly(nested: bool) -> None:
    document = cases.f0()
    del document["ClusterType"]
    (document["ClusterConfig"] if nested else document)["ClusterType"] = "Kubernetes"
    with pytest.raises(InputError, match="Kubernetes cluster; topologies are for Slurm clusters only"):
        read(document)


@pytest.mark.parametrize("form", [..., None, []], ids=["missing", "null", "empty"])
def test_br_01_a_group_without_machines_counts_as_zero_nodes(form: Any) -> None:
    document = cases.f0()
    extra: dict[str, Any] = {"Name": "worker-x", "InstanceType": "ml.p5.48xlarge"}
    if form is not ...:
        extra["Instances"] = form
    document["InstanceGroups"].insert(1, extra)
    config = read(document)
    assert config.issues == ()
    assert config.groups[1] == resource_config.InstanceGroup("worker-x", "ml.p5.48xlarge", ())
    assert sum(1 for _ in config.instances()) == 6


def test_br_02_bom_and_crlf_are_read() -> None:
    data = b"\xef\xbb\xbf" + json.dumps(cases.f0(), indent=1).replace("\n", "\r\n").encode()
    assert resource_config.parse(data) == read(cases.f0())


@pytest.mark.parametrize(
    ("data", "where", "words"),
    [
        pytest.param(b"", "resource_config.json", "is empty", id="empty"),
        pytest.param(b"\0" * 4096, "resource_config.json", "is empty", id="a-hole-after-a-crash"),
        pytest.param(b'{"InstanceGroups": [\n {"Name": "a" 1', "resource_config.json:2:15", "not valid JSON", id="cut"),
        pytest.param(b"[]", "resource_config.json", "no JSON object", id="list"),
        pytest.param(b"\xff\xfe{\0", "resource_config.json", "not UTF-8", id="utf-16"),
        pytest.param(b'{"a":' * 100_000, "resource_config.json", "nested too deeply", id="deep"),
        pytest.param(
            b'{"InstanceGroups": ' + b"9" * 5000 + b"}", "resource_config.json", "too large", id="huge-number"
        ),
        pytest.param(b"{}", "InstanceGroups", "is missing", id="no-groups"),
        pytest.param(b'{"InstanceGroups": {}}', "InstanceGroups", "not a list", id="groups-as-object"),
    ],
)
def test_a_file_of_which_nothing_can_be_used_is_refused_with_its_place(data: bytes, where: str, words: str) -> None:
    with pytest.raises(InputError) as caught:
        resource_config.parse(data)
    assert len(caught.value.issues) == 1
    assert caught.value.issues[0].where == where
    assert words in caught.value.issues[0].what


def test_every_fault_is_named_with_its_place_and_costs_no_other_machine() -> None:
    document = cases.f0()
    a, b = document["InstanceGroups"][2], document["InstanceGroups"][3]
    a["Instances"][0]["CustomerIpAddress"] = ""
    a["Instances"][0]["InstanceName"] = ""
    a["Instances"][1]["CustomerIpAddress"] = "10.1.1.999"
    a["Instances"].insert(1, "nonsense")
    b["Instances"][0]["InstanceId"] = "../../etc/passwd"
    b["Instances"][1]["InstanceLabel"] = {"network-node-layer-2": "nn-2"}
    b["InstanceType"] = 5
    document["InstanceGroups"].append(7)
    config = resource_config.parse(json.dumps(document), "resource_config.json")
    assert sorted(issue.where for issue in config.issues) == [
        "resource_config.json: InstanceGroups[2].Instances[0].CustomerIpAddress",
        "resource_config.json: InstanceGroups[2].Instances[0].InstanceName",
        "resource_config.json: InstanceGroups[2].Instances[1]",
        "resource_config.json: InstanceGroups[2].Instances[2].CustomerIpAddress",
        "resource_config.json: InstanceGroups[3].InstanceType",
        "resource_config.json: InstanceGroups[3].Instances[0].InstanceId",
        "resource_config.json: InstanceGroups[3].Instances[1].InstanceLabel",
        "resource_config.json: InstanceGroups[4]",
    ]
    assert [machine.instance_id for _, machine in config.instances()] == [
        "i-0c000000000000001",
        "i-0d000000000000001",
        "i-0a000000000000001",
        "i-0a000000000000002",
        None,
        "i-0b000000000000002",
    ]
    last = config.groups[3].instances[1]
    assert last.position is None
    assert "layer 1 has no id" in last.label_issue
    assert config.groups[3].instances[0].position is not None


def test_ids_and_addresses_that_stand_twice_are_named_with_both_places() -> None:
    document = cases.f0()
    machines = document["InstanceGroups"][2]["Instances"]
    machines.append({**machines[0], "InstanceId": "i-0a0000000000000ff"})
    document["InstanceGroups"][3]["Instances"][1]["InstanceId"] = machines[1]["InstanceId"]
    config = read(document)
    assert [(issue.where, issue.what) for issue in config.issues] == [
        (
            "InstanceGroups[2].Instances[2].CustomerIpAddress",
            "10.1.1.11 also stands in InstanceGroups[2].Instances[0].CustomerIpAddress",
        ),
        (
            "InstanceGroups[3].Instances[1].InstanceId",
            "i-0a000000000000002 also stands in InstanceGroups[2].Instances",
        ),
    ]
    assert sum(1 for _ in config.instances()) == 7


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "::1", "0.0.0.0"])
def test_br_03_a_loopback_address_names_no_machine(address: str) -> None:
    document = cases.f0()
    document["InstanceGroups"][2]["Instances"][0]["CustomerIpAddress"] = address
    config = read(document)
    assert [i.where for i in config.issues] == ["InstanceGroups[2].Instances[0].CustomerIpAddress"]
    assert config.groups[2].instances[0].customer_address is None


def test_two_groups_of_one_name_are_read_as_one_and_said() -> None:
    document = cases.f0()
    document["InstanceGroups"][3]["Name"] = "worker-a"
    config = read(document)
    assert wheres(document) == ["InstanceGroups[3].Name"]
    assert [len(g.instances) for g in config.groups] == [1, 1, 4]


def test_a_group_without_a_name_keeps_its_machines() -> None:
    document = cases.f0()
    del document["InstanceGroups"][2]["Name"]
    config = read(document)
    assert wheres(document) == ["InstanceGroups[2].Name"]
    assert [machine.instance_name for machine in config.groups[2].instances] == ["worker-a-1", "worker-a-2"]


@pytest.mark.parametrize(
    ("slurm_config", "role", "partitions", "issues"),
    [
        (None, None, None, 0),
        ({"NodeType": "Compute", "PartitionNames": ["ml.p5.48xlarge"]}, "compute", ("ml.p5.48xlarge",), 0),
        ({"NodeType": "Login"}, "login", (), 0),
        ({"NodeType": "Controller", "PartitionNames": []}, "controller", (), 0),
        ({"NodeType": "Boss", "PartitionNames": "train"}, None, None, 2),
        ("Compute", None, None, 1),
    ],
)
def test_a_groups_slurm_config_gives_role_and_partitions(
    slurm_config: Any, role: Any, partitions: Any, issues: int
) -> None:
    document = cases.f0()
    document["InstanceGroups"][2]["SlurmConfig"] = slurm_config
    config = read(document)
    assert (config.groups[2].role, config.groups[2].partitions) == (role, partitions)
    assert len(config.issues) == issues


@pytest.mark.parametrize(
    "arn",
    ["arn:aws:sagemaker:us-west-2:1:cluster/..", "arn:aws:sagemaker:us-west-2:1:cluster/a/b", "abc", 7, "", "a" * 9999],
)
def test_what_is_no_arn_never_becomes_a_directorys_name(arn: Any) -> None:
    document = cases.f0()
    document["ClusterConfig"]["ClusterArn"] = arn
    assert read(document).cluster_arn is None
    assert wheres(document) == ["ClusterConfig.ClusterArn"]


def test_a_line_break_does_not_smuggle_a_second_value_through_a_column() -> None:
    document = cases.f0()
    document["InstanceGroups"][2]["Instances"][0]["InstanceId"] = "i-0a1\ni-0a2"
    document["InstanceGroups"][2]["Instances"][1]["CustomerIpAddress"] = "10.0.0.1\n10.0.0.2"
    assert wheres(document) == [
        "InstanceGroups[2].Instances[0].InstanceId",
        "InstanceGroups[2].Instances[1].CustomerIpAddress",
    ]


KEYS = [
    *("ClusterConfig", "ClusterType", "SlurmConfig", "InstanceGroups", "Name", "InstanceType", "Instances"),
    *("InstanceName", "InstanceId", "CustomerIpAddress", "InstanceLabel", "NodeType", "PartitionNames"),
]
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
JSON = st.recursive(
    SCALARS | st.sampled_from(["10.1.1.1", "i-01", "::1"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=25,
)


@given(
    st.dictionaries(st.sampled_from(["ClusterConfig", "SlurmConfig", "ClusterType"]), JSON), st.lists(JSON, max_size=4)
)
def test_whatever_the_json_holds_there_is_a_config_or_an_input_error(
    document: dict[str, Any], groups: list[Any]
) -> None:
    try:
        config = read({**document, "InstanceGroups": groups})
    except InputError as error:
        assert error.issues
    else:
        assert all(issue.where and issue.what for issue in config.issues)


def test_sixteen_thousand_machines_cost_little_more_than_reading_their_json() -> None:
    data = json.dumps(cases.g(16_384)["rc"]).encode()

    def seconds(call: Any) -> float:
        start = time.process_time()
        call(data)
        return time.process_time() - start

    # In turn, the least of many: what else the machine does falls on both.
    times = [(seconds(json.loads), seconds(resource_config.parse)) for _ in range(10)]
    plain, whole = map(min, zip(*times, strict=True))
    assert whole - plain < 6 * plain  # measured 2.4; on this test's own scale, so that a busy machine does not matter
    config = resource_config.parse(data)
    assert sum(1 for _ in config.instances()) == 16_384
    assert config.issues == ()
