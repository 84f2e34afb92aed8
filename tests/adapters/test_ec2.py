"""EC2's DescribeInstanceTopology as a source of positions, through boto3's real client."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest
from botocore.stub import Stubber

from tests import cases
from tests.fake_aws import Service
from tests.fake_ec2 import F0, Ec2, ids_of, topology
from tests.fakes import FakeClock
from topology_plugin.adapters.aws import Calls, boto3_client, region_of
from topology_plugin.adapters.ec2 import Ec2Topology
from topology_plugin.core import labels
from topology_plugin.core.position import Position


def test_positions_and_zones_come_from_the_services_answer() -> None:
    clock, ec2 = FakeClock(), Ec2(F0)
    found = topology(ec2, clock).answers(ids_of(F0))
    assert found.positions["i-0a000000000000002"] == Position(
        ("nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa2")
    )
    assert set(found.zones.values()) == {"usw2-az2"}
    assert (len(found.positions), found.problem, found.pending) == (4, None, frozenset())
    assert found.silent == {}


def test_the_stubbed_service_is_asked_as_its_model_says() -> None:
    """The same with botocore's own Stubber, which fails on any other call."""
    clock = FakeClock()
    client = boto3_client("ec2", "us-west-2")()
    with Stubber(client) as stub:
        ids = sorted(ids_of(F0))
        stub.add_response(
            "describe_instance_topology", {"Instances": F0[:2], "NextToken": "more"}, {"InstanceIds": ids}
        )
        stub.add_response(
            "describe_instance_topology", {"Instances": F0[2:]}, {"InstanceIds": ids, "NextToken": "more"}
        )
        found = Ec2Topology(Calls(lambda: client, clock, 60), clock).answers(ids[::-1])
        stub.assert_no_pending_responses()
    assert len(found.positions) == 4


def test_br_17_ec2s_list_and_the_labels_of_one_instance_are_one_position() -> None:
    clock, ec2 = FakeClock(), Ec2(F0)
    label = cases.f0()["InstanceGroups"][2]["Instances"][0]["InstanceLabel"]
    backwards = dict(reversed(label.items()))
    assert topology(ec2, clock).answers(["i-0a000000000000001"]).positions == {
        "i-0a000000000000001": labels.parse(backwards)
    }


def test_what_is_known_is_not_asked_again() -> None:
    clock, ec2 = FakeClock(), Ec2(F0)
    source = topology(ec2, clock)
    first = source.answers(ids_of(F0))
    assert source.answers(ids_of(F0)) == first
    assert len(ec2.asked) == 1


def test_without_due_ids_nothing_is_called_and_no_client_is_made() -> None:
    def no_client() -> Any:
        raise AssertionError("no client is needed")

    clock = FakeClock()
    assert Ec2Topology(Calls(no_client, clock, 60), clock).answers([]).positions == {}


def test_without_credentials_or_a_way_to_the_service_there_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE", "AWS_SESSION_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    monkeypatch.delenv("AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", raising=False)
    clock = FakeClock()
    found = Ec2Topology(Calls(boto3_client("ec2", "us-west-2"), clock, 60), clock).answers(["i-0a1"])
    assert "NoCredentialsError" in str(found.problem)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_ENDPOINT_URL_EC2", "http://127.0.0.1:9")
    found = Ec2Topology(Calls(boto3_client("ec2", "us-west-2"), clock, 60), clock).answers(["i-0a1"])
    assert "EndpointConnectionError" in str(found.problem)
    assert len(clock.slept) == 1


def test_without_boto3_there_is_a_reason() -> None:
    def missing() -> Any:
        raise ModuleNotFoundError("No module named 'boto3'", name="boto3")

    clock = FakeClock()
    found = Ec2Topology(Calls(missing, clock, 60), clock).answers(["i-0a1"])
    assert "the Python package boto3 is not installed" in str(found.problem)


@pytest.mark.parametrize(
    ("arn", "region"),
    [
        (cases.ARN, "us-west-2"),
        ("arn:aws-us-gov:sagemaker:us-gov-west-1:1:cluster/x", "us-gov-west-1"),
        (None, None),
        ("x", None),
    ],
)
def test_the_region_is_the_clusters(arn: str | None, region: str | None) -> None:
    assert region_of(arn) == region


def test_a_fault_of_our_own_is_not_taken_for_the_services() -> None:
    def broken(operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        raise ZeroDivisionError(re.escape(operation))

    clock = FakeClock()
    with pytest.raises(ZeroDivisionError):
        Ec2Topology(Service("ec2", broken).calls(clock), clock).answers(["i-0a1"])
