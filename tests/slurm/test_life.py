"""A cluster's life at random on a real slurmctld: growth, loss, replacement, labels late and changed, an agent that
rewrites, kills, full disks, failing reconfigures. After every step what is loaded equals the facts.

hypothesis chooses the events and shrinks those that fail. `make soak` runs it longer (SOAK_SEQUENCES) and prints a
summary.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, rule, run_state_machine_as_test
from hypothesis.strategies import randoms, sampled_from

from tests.slurm.conftest import NewRoom
from tests.slurm.life import KINDS, Life

WORKERS = 4  # so that test workers can share the sequences
SEQUENCES = int(os.environ.get("SOAK_SEQUENCES", "40"))
EVENTS = int(os.environ.get("SOAK_EVENTS", "6"))
SEED = int(os.environ.get("SOAK_SEED", "1"))


class Lives(RuleBasedStateMachine):
    """One life after another, each in a room of its own."""

    room: NewRoom
    lived: Counter[str]

    def __init__(self) -> None:
        super().__init__()
        self.life = Life(self.room())
        self.lived["lives"] += 1
        self.well = True

    @rule(event=sampled_from(KINDS), rng=randoms())
    def happens(self, event: str, rng: random.Random) -> None:
        self.life.rng = rng
        self.well = False
        getattr(self.life, event)()
        self.life.settle()
        self.well = True
        self.lived[event] += 1

    def teardown(self) -> None:
        try:
            if self.well:  # else there is a reason already
                self.life.everyone_works()
        finally:
            self.life.room.ctld.stop()


@pytest.mark.slow
@pytest.mark.parametrize("worker", range(WORKERS))
def test_any_life_ends_with_what_is_loaded_equal_to_the_facts(
    room: NewRoom, worker: int, record_property: Callable[[str, object], None]
) -> None:
    class Here(Lives):
        pass

    Here.room, Here.lived = staticmethod(room), Counter()
    sequences = len(range(worker, SEQUENCES, WORKERS))
    lives = settings(
        max_examples=sequences,
        stateful_step_count=EVENTS,
        deadline=None,
        database=None,
        print_blob=False,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(seed(SEED * WORKERS + worker)(Here), settings=lives)
    for event, count in sorted(Here.lived.items()):
        record_property(event, count)
    assert Here.lived["lives"] >= sequences
    print(f"{sum(Here.lived.values()) - Here.lived['lives']} events: {dict(sorted(Here.lived.items()))}")
