"""Instances of which EC2 tells nothing, not all, or not yet, and refusals: each a reason, and none costs another."""

from __future__ import annotations

from typing import Any

import pytest

from tests import cases
from tests.fake_aws import Failure
from tests.fake_ec2 import F0, Ec2, ids_of, topology
from tests.fakes import FakeClock

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
