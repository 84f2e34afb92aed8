"""EC2 takes 100 ids a call and throttles: a pass waits within its budget, later ones do the rest."""

from __future__ import annotations

import pytest

from tests import cases
from tests.fake_aws import Failure
from tests.fake_ec2 import F0, Ec2, ids_of, topology
from tests.fakes import FakeClock
from topology_plugin.adapters.aws import Calls
from topology_plugin.adapters.ec2 import Ec2Topology


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
