from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.stub import Stubber

from tests import cases
from tests.fake_aws import Failure, Service
from tests.fakes import FakeClock
from topology_plugin.adapters.aws import Calls, boto3_client
from topology_plugin.adapters.sagemaker import SageMakerCluster
from topology_plugin.core.position import Position
from topology_plugin.core.sources import ApiGroup


def summary(number: int, server: Any = ...) -> dict[str, Any]:
    found = {
        "InstanceGroupName": "gb200",
        "InstanceId": f"i-0{number:016x}",
        "InstanceType": "ml.p6e-gb200.36xlarge",
        "LaunchTime": "2026-11-30T08:00:00Z",
        "InstanceStatus": {"Status": "Running"},
    }
    return found if server is ... else {**found, "UltraServerInfo": server}


class Cluster:
    def __init__(self, nodes: list[dict[str, Any]], groups: list[dict[str, Any]] | None = None) -> None:
        self.nodes = nodes
        self.groups = groups or []
        self.failures: list[Failure | None] = []
        self.service = Service("sagemaker", self.answer)

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert parameters["ClusterName"] == cases.ARN
        if self.failures:
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
        if operation == "DescribeCluster":
            status = {"ClusterArn": cases.ARN, "ClusterStatus": "InService"}
            return {**status, "InstanceGroups": self.groups}
        assert operation == "ListClusterNodes"
        start, size = int(parameters.get("NextToken") or 0), parameters["MaxResults"]
        answer: dict[str, Any] = {"ClusterNodeSummaries": self.nodes[start : start + size]}
        if start + size < len(self.nodes):
            answer["NextToken"] = str(start + size)
        return answer


def source(cluster: Cluster, clock: FakeClock) -> SageMakerCluster:
    return SageMakerCluster(cluster.service.calls(clock), clock, cases.ARN)


def test_ultraservers_of_every_page_are_read() -> None:
    clock = FakeClock()
    nodes = [summary(n, {"Id": f"us-{n // 18}", "Type": "u-p6e-gb200x72"}) for n in range(250)]
    cluster = Cluster(nodes)
    ids = [node["InstanceId"] for node in nodes]
    found = source(cluster, clock).answers(ids)
    assert found.positions[ids[19]] == Position((), "us-1")
    assert len(found.positions) == 250
    assert set(found.ultraserver_types.values()) == {"u-p6e-gb200x72"}
    assert (found.problem, found.pending, found.silent) == (None, frozenset(), {})
    assert len(cluster.service.asked) == 3


def test_the_stubbed_service_is_asked_as_its_model_says() -> None:
    clock = FakeClock()
    client = boto3_client("sagemaker", "us-west-2")()
    one, two = summary(1, {"Id": "us-1", "Type": "u-p6e-gb200x36"}), summary(2)
    with Stubber(client) as stub:
        request = {"ClusterName": cases.ARN, "MaxResults": 100}
        page = {"ClusterNodeSummaries": [one], "NextToken": "more"}
        stub.add_response("list_cluster_nodes", page, request)
        stub.add_response("list_cluster_nodes", {"ClusterNodeSummaries": [two]}, {**request, "NextToken": "more"})
        found = SageMakerCluster(Calls(lambda: client, clock, 60), clock, cases.ARN).answers(
            [one["InstanceId"], two["InstanceId"]]
        )
        stub.assert_no_pending_responses()
    assert found.positions == {one["InstanceId"]: Position((), "us-1")}
    assert found.silent == {two["InstanceId"]: "SageMaker names no UltraServer for this instance"}


@pytest.mark.parametrize("identity", [None, "", "null", ...], ids=["null", "empty", "the-word-null", "absent"])
def test_an_ultraserver_that_is_not_filled_in_makes_no_block_and_is_asked_for_again(identity: Any) -> None:
    clock = FakeClock()
    server = {"Type": "u-p6e-gb200x72"} if identity in (..., None) else {"Id": identity, "Type": "u-p6e-gb200x72"}
    cluster = Cluster([summary(1, server), summary(2, server)])
    ids = [node["InstanceId"] for node in cluster.nodes]
    cluster_source = source(cluster, clock)
    first = cluster_source.answers(ids)
    assert (first.positions, first.pending) == ({}, frozenset(ids))
    cluster.nodes = [summary(n, {"Id": "us-1", "Type": "u-p6e-gb200x72"}) for n in (1, 2)]
    clock.sleep(31)
    last = cluster_source.answers(ids)
    assert {p.ultraserver for p in last.positions.values()} == {"us-1"}
    assert (last.pending, last.silent) == (frozenset(), {})


def test_only_the_instances_asked_for_are_answered_and_unlisted_ones_are_asked_for_again() -> None:
    clock = FakeClock()
    cluster = Cluster([summary(n, {"Id": "us-1", "Type": "u-p6e-gb200x72"}) for n in range(5)])
    cluster_source = source(cluster, clock)
    found = cluster_source.answers([cluster.nodes[0]["InstanceId"], "i-0new"])
    assert list(found.positions) == [cluster.nodes[0]["InstanceId"]]
    assert found.silent == {"i-0new": "SageMaker does not list this instance (yet)"}
    assert found.pending == {"i-0new"}
    for _ in range(6):
        clock.sleep(10)
        cluster_source.answers(["i-0new"])
    assert len(cluster.service.asked) == 2  # not in every pass


def test_what_is_known_is_not_asked_again() -> None:
    clock = FakeClock()
    cluster = Cluster([summary(1, {"Id": "us-1", "Type": "u-p6e-gb200x72"})])
    cluster_source = source(cluster, clock)
    ids = [cluster.nodes[0]["InstanceId"]]
    first = cluster_source.answers(ids)
    clock.sleep(86_400)
    assert cluster_source.answers(ids) == first
    assert len(cluster.service.asked) == 1


def test_throttling_in_the_middle_keeps_the_pages_that_came_and_the_next_pass_goes_on() -> None:
    clock = FakeClock()
    nodes = [summary(n, {"Id": "us-1", "Type": "u-p6e-gb200x72"}) for n in range(250)]
    cluster = Cluster(nodes)
    cluster.failures = [None, *[Failure("ThrottlingException", "Rate exceeded")] * 20]
    ids = [node["InstanceId"] for node in nodes]
    cluster_source = source(cluster, clock)
    first = cluster_source.answers(ids)
    assert len(first.positions) == 100
    assert len(first.pending) == 150
    assert "ThrottlingException for 60 s" in str(first.problem)
    cluster.failures = []
    assert len(cluster_source.answers(ids).positions) == 250


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("AccessDeniedException", "sagemaker:ListClusterNodes is not granted"),
        ("ResourceNotFound", "SageMaker cannot be asked: ResourceNotFound"),
        ("ValidationException", "SageMaker cannot be asked: ValidationException"),
    ],
)
def test_a_refusal_is_one_reason_and_the_service_is_left_alone(code: str, words: str) -> None:
    clock = FakeClock()
    cluster = Cluster([summary(1)])
    cluster.failures = [Failure(code, "no")]
    cluster_source = source(cluster, clock)
    found = cluster_source.answers(["i-0a1", "i-0a2"])
    assert words in str(found.problem)
    assert set(found.silent) == {"i-0a1", "i-0a2"}
    clock.sleep(100)
    assert cluster_source.answers(["i-0a1"]).problem == found.problem
    assert len(cluster.service.asked) == 1


def test_a_service_that_pages_for_ever_is_stopped() -> None:
    clock = FakeClock()
    cluster = Cluster([])
    cluster.service.answer = lambda operation, parameters: {"ClusterNodeSummaries": [], "NextToken": "x"}
    found = source(cluster, clock).answers(["i-0a1"])
    assert "TooManyPages" in str(found.problem)


def test_groups_say_role_and_partitions() -> None:
    clock = FakeClock()
    cluster = Cluster(
        [],
        [
            {"InstanceGroupName": "head", "SlurmConfig": {"NodeType": "Controller"}},
            {"InstanceGroupName": "gpu", "SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["ml.p5.48xlarge"]}},
            {"InstanceGroupName": "plain", "InstanceType": "ml.m5.large"},
        ],
    )
    assert source(cluster, clock).groups() == {
        "head": ApiGroup("controller", ()),
        "gpu": ApiGroup("compute", ("ml.p5.48xlarge",)),
    }
    cluster.failures = [Failure("AccessDeniedException", "no")]
    refused = source(cluster, clock)
    assert refused.groups() == {}
    assert (
        refused.silence
        == "SageMaker may not be asked: sagemaker:DescribeCluster is not granted (AccessDeniedException)"
    )
    assert refused.groups() and refused.silence == ""
