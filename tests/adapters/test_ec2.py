from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from botocore.stub import Stubber

from tests import cases
from tests.fake_aws import Failure, Service
from tests.fakes import FakeClock
from topology_plugin.adapters.aws import Calls, boto3_client, region_of
from topology_plugin.adapters.ec2 import Ec2Topology
from topology_plugin.core import labels
from topology_plugin.core.position import Position


class Ec2:
    """DescribeInstanceTopology over a table of instances, as strict as the real one."""

    def __init__(self, instances: Sequence[Mapping[str, Any]]) -> None:
        self.instances = {entry["InstanceId"]: dict(entry) for entry in instances}
        self.unknown: set[str] = set()
        self.names_ids = True
        self.page = 100
        self.failures: list[Failure | None] = []
        self.service = Service("ec2", self.answer)

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "DescribeInstanceTopology"
        assert "MaxResults" not in parameters
        ids = parameters["InstanceIds"]
        if self.failures:
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
        if len(ids) > 100:
            raise Failure("InvalidParameterValue", "instance-ids cannot contain over 100 values.")
        bad = sorted(self.unknown.intersection(ids))
        if bad:
            message = f"The instance IDs '{', '.join(bad)}' do not exist" if self.names_ids else "Some do not exist"
            raise Failure("InvalidInstanceID.NotFound", message)
        found = [self.instances[i] for i in ids if i in self.instances]
        start = int(parameters.get("NextToken") or 0)
        answer: dict[str, Any] = {"Instances": found[start : start + self.page]}
        if start + self.page < len(found):
            answer["NextToken"] = str(start + self.page)
        return answer

    @property
    def asked(self) -> list[list[str]]:
        return [parameters["InstanceIds"] for parameters in self.service.asked]


def topology(ec2: Ec2, clock: FakeClock, seconds: float = 60) -> Ec2Topology:
    return Ec2Topology(ec2.service.calls(clock, seconds), clock)


def ids_of(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    return [entry["InstanceId"] for entry in entries]


F0 = cases.f0_ec2()["Instances"]


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


# --- BR-06 ---


def test_br_06_180_ids_are_asked_in_batches_of_at_most_100_and_every_page_is_read() -> None:
    clock, ec2 = FakeClock(), Ec2(cases.g(180)["ec2"]["Instances"])
    ec2.page = 40
    found = topology(ec2, clock).answers(list(ec2.instances))
    assert len(found.positions) == 180
    assert {len(batch) for batch in ec2.asked} == {100, 80}
    assert len(ec2.asked) == 3 + 2


def test_br_06_throttled_calls_are_waited_out_inside_the_budget_and_the_rest_is_done_by_later_passes() -> None:
    clock, ec2 = FakeClock(), Ec2(cases.g(1000)["ec2"]["Instances"])
    ids = list(ec2.instances)
    throttled = Failure("RequestLimitExceeded", "Request limit exceeded.", 503)
    ec2.failures = [None if number % 10 == 9 else throttled for number in range(100)]
    source = topology(ec2, clock)
    start = clock.monotonic()
    first = source.answers(ids)
    assert clock.monotonic() - start <= 60
    assert clock.slept == sorted(clock.slept)  # ever longer, never more than 20 s
    assert 0.5 <= clock.slept[0] <= 1
    assert max(clock.slept) <= 20
    assert len(first.positions) < 1000
    assert first.pending == frozenset(ids) - first.positions.keys()
    assert set(first.silent) == first.pending
    assert "RequestLimitExceeded for 60 s" in str(first.problem)
    passes = 1
    while source.answers(ids).pending:
        clock.sleep(10)
        passes += 1
        assert passes < 50
    last = source.answers(ids)
    assert (len(last.positions), last.pending, last.problem, last.silent) == (1000, frozenset(), None, {})


def test_jitter_spreads_the_waits() -> None:
    waits = []
    for jitter in (0.0, 0.999):
        clock, ec2 = FakeClock(), Ec2(F0)
        ec2.failures = [Failure("RequestLimitExceeded")]
        calls = Calls(lambda ec2=ec2: ec2.service.client, clock, 60, jitter=lambda jitter=jitter: jitter)  # type: ignore[misc]
        Ec2Topology(calls, clock).answers(ids_of(F0))
        waits.extend(clock.slept)
    assert waits == [pytest.approx(0.5), pytest.approx(1.0, abs=0.01)]


# --- BR-07 ---

GOOD = [{**entry, "InstanceId": f"i-0e00000000000000{n}"} for n, entry in enumerate(F0, 1)]
LAUNCHED, TERMINATED = "i-0e000000000000005", "i-0e000000000000006"


@pytest.mark.parametrize("names_ids", [True, False], ids=["ids-in-the-message", "no-ids-in-the-message"])
def test_br_07_ids_that_fail_the_call_are_split_off_and_the_good_ones_answered_in_the_same_pass(
    names_ids: bool,
) -> None:
    clock, ec2 = FakeClock(), Ec2(GOOD)
    ec2.unknown, ec2.names_ids = {LAUNCHED, TERMINATED}, names_ids
    source = topology(ec2, clock)
    ids = [*ids_of(GOOD), LAUNCHED, TERMINATED]
    first = source.answers(ids)
    assert sorted(first.positions) == ids_of(GOOD)
    assert first.pending == {LAUNCHED, TERMINATED}
    assert set(first.silent) == {LAUNCHED, TERMINATED}
    assert "does not know this instance" in first.silent[TERMINATED]
    calls = len(ec2.asked)
    # Forty seconds later EC2 knows the new one; passes every ten seconds find it, without asking in each of them.
    for _ in range(10):
        clock.sleep(10)
        if clock.monotonic() - FakeClock().monotonic() >= 40 and LAUNCHED in ec2.unknown:
            ec2.unknown.discard(LAUNCHED)
            ec2.instances[LAUNCHED] = {**F0[0], "InstanceId": LAUNCHED}
        last = source.answers(ids)
    assert sorted(last.positions) == [*ids_of(GOOD), LAUNCHED]
    assert last.pending == {TERMINATED}
    assert len(ec2.asked) - calls <= 8
    assert all(set(ids_of(GOOD)).isdisjoint(batch) for batch in ec2.asked[calls:])


def test_br_07_one_bad_id_among_many_without_its_name_is_found_by_halves() -> None:
    clock, ec2 = FakeClock(), Ec2(cases.g(100)["ec2"]["Instances"])
    ids = sorted(ec2.instances)
    del ec2.instances[ids[37]]
    ec2.unknown, ec2.names_ids = {ids[37]}, False
    found = topology(ec2, clock).answers(ids)
    assert set(found.positions) == set(ids) - {ids[37]}
    assert found.pending == {ids[37]}
    assert len(ec2.asked) <= 16


# --- BR-08 ---


@pytest.mark.parametrize("nothing", [None, "null", "", ...], ids=["null", "the-word-null", "empty", "absent"])
def test_br_08_a_capacity_block_that_is_not_filled_in_is_no_block_and_is_asked_for_again(nothing: Any) -> None:
    clock = FakeClock()
    nodes = ["nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa1"]
    entries: list[dict[str, Any]] = []
    for number in range(6):
        entry = {"InstanceId": f"i-0f{number}", "InstanceType": "p6e-gb200.36xlarge", "NetworkNodes": nodes}
        block = "cb-0aaaaaaaaaaaaaaa1" if number % 2 else nothing
        entries.append(entry if block is ... or block is None else {**entry, "CapacityBlockId": block})
    ec2 = Ec2(entries)
    source = topology(ec2, clock)
    first = source.answers(ids_of(entries))
    assert {i: p.ultraserver for i, p in first.positions.items()} == {
        f"i-0f{n}": "cb-0aaaaaaaaaaaaaaa1" if n % 2 else None for n in range(6)
    }
    assert first.pending == {"i-0f0", "i-0f2", "i-0f4"}
    for entry in entries:
        ec2.instances[entry["InstanceId"]] = {**entry, "CapacityBlockId": "cb-0aaaaaaaaaaaaaaa1"}
    clock.sleep(120)
    last = source.answers(ids_of(entries))
    assert {p.ultraserver for p in last.positions.values()} == {"cb-0aaaaaaaaaaaaaaa1"}
    assert last.pending == frozenset()
    assert ec2.asked[1:] == [["i-0f0", "i-0f2", "i-0f4"]]


# --- BR-09, BR-10: no data is an answer ---


def test_br_09_types_without_network_data_are_silent_with_a_reason_and_nobody_waits_for_them() -> None:
    clock, ec2 = FakeClock(), Ec2(F0)
    others = ["i-0c000000000000031", "i-0c000000000000032", "i-0d000000000000001"]
    source = topology(ec2, clock)
    found = source.answers([*ids_of(F0), *others])
    assert set(found.silent) == set(others)
    assert set(found.silent.values()) == {"EC2 has no network data for this instance"}
    assert found.pending == frozenset()
    assert clock.slept == []
    clock.sleep(60)
    source.answers([*ids_of(F0), *others])
    assert len(ec2.asked) == 1


@pytest.mark.parametrize("names_ids", [True, False], ids=["ids-in-the-message", "no-ids-in-the-message"])
@pytest.mark.parametrize("count", [4, 2000])
def test_br_10a_an_account_that_knows_no_instance_is_a_quiet_reason_in_a_few_calls(count: int, names_ids: bool) -> None:
    clock = FakeClock()
    ids = [f"i-0{number:016x}" for number in range(count)]
    ec2 = Ec2([])
    ec2.unknown, ec2.names_ids = set(ids), names_ids
    source = topology(ec2, clock)
    found = source.answers(ids)
    assert found.positions == {}
    assert set(found.silent) == set(ids)
    assert clock.slept == []
    assert len(ec2.asked) <= 20
    if count > 100:
        assert found.problem == "EC2 knows none of these instances (HyperPod's belong to the service's account)"
        for _ in range(30):
            clock.sleep(10)
            assert source.answers(ids).problem == found.problem
        assert len(ec2.asked) <= 20  # left alone for a while


def test_br_10b_an_empty_answer_is_no_data_for_each() -> None:
    clock, ec2 = FakeClock(), Ec2([])
    found = topology(ec2, clock).answers(ids_of(F0))
    assert (found.positions, found.problem, len(found.silent)) == ({}, None, 4)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("UnsupportedOperation", "the region has no DescribeInstanceTopology"),
        ("UnauthorizedOperation", "ec2:DescribeInstanceTopology is not granted"),
        ("AccessDeniedException", "ec2:DescribeInstanceTopology is not granted"),
        ("AuthFailure", "EC2 cannot be asked: AuthFailure: no"),
        ("OptInRequired", "EC2 cannot be asked: OptInRequired: no"),
    ],
)
def test_a_refusal_is_one_reason_and_the_service_is_left_alone(code: str, words: str) -> None:
    clock, ec2 = FakeClock(), Ec2(cases.g(300)["ec2"]["Instances"])
    ec2.failures = [Failure(code, "no")]
    source = topology(ec2, clock)
    found = source.answers(list(ec2.instances))
    assert words in str(found.problem)
    assert set(found.silent) == set(ec2.instances)
    assert found.pending == frozenset()
    clock.sleep(300)
    assert source.answers(list(ec2.instances)).problem == found.problem
    assert source.answers(["i-0new"]).silent == {"i-0new": found.problem}
    assert len(ec2.asked) == 1
    clock.sleep(301)
    assert len(source.answers(list(ec2.instances)).positions) == 300


def test_a_refusal_in_the_middle_keeps_what_was_answered() -> None:
    clock, ec2 = FakeClock(), Ec2(cases.g(300)["ec2"]["Instances"])
    ec2.failures = [None, Failure("ExpiredToken", "the token has expired")]
    found = topology(ec2, clock).answers(list(ec2.instances))
    assert (len(found.positions), len(found.silent)) == (100, 200)
    assert "ExpiredToken" in str(found.problem)


def test_an_answer_with_odd_ids_gives_no_position() -> None:
    clock = FakeClock()
    odd = [
        {"InstanceId": "i-0f1", "InstanceType": "p5.48xlarge", "NetworkNodes": ["nn-1", "null", "nn-3"]},
        {"InstanceId": "i-0f2", "InstanceType": "p5.48xlarge", "NetworkNodes": ["nn-1", "nn-1"]},
        {"InstanceId": "i-0f3", "InstanceType": "p5.48xlarge", "NetworkNodes": []},
        {"InstanceId": "i-0f4", "InstanceType": "p5.48xlarge"},
        {"InstanceId": "i-0f9", "InstanceType": "p5.48xlarge", "NetworkNodes": ["nn-1"]},
    ]
    ec2 = Ec2(odd)
    ec2.answer = lambda operation, parameters: {"Instances": odd}  # type: ignore[method-assign]
    ec2.service.answer = ec2.answer
    found = topology(ec2, clock).answers(ids_of(odd[:4]))
    assert found.positions == {}
    assert set(found.silent) == {"i-0f1", "i-0f2", "i-0f3", "i-0f4"}


# --- boto3 itself ---


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
