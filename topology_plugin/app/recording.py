"""What a pass leaves in state.json and in the metrics, whichever way it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.files import FileError
from topology_plugin.adapters.generations import Generations
from topology_plugin.core import state_json
from topology_plugin.core.issues import PassError
from topology_plugin.core.state import PassResult, State

BACK_OFF_FIRST, BACK_OFF_MOST = 30.0, 900.0  # seconds between tries after failures in a row


def back_off(failed_in_a_row: int) -> float:
    """Seconds until the next try."""
    return float(min(BACK_OFF_FIRST * 2 ** max(min(failed_in_a_row, 30) - 1, 0), BACK_OFF_MOST))


@dataclass(frozen=True)
class Recorder:
    """`shared` False: another controller writes, state.json too; only this machine's metrics are told."""

    generations: Generations
    clock: Clock
    metrics: Callable[[State], None]
    shared: bool = True

    def ended(self, state: State, result: str, reason: str) -> tuple[State, Sequence[str]]:
        """(the state as recorded, what could not be recorded)."""
        now = self.clock.now()
        good = result in ("unchanged", "applied")
        counters = replace(
            state.counters,
            passes=state.counters.passes + 1,
            failed_in_a_row=state.counters.failed_in_a_row if result == "pending" else 0,
            last_success=now if good else state.counters.last_success,
        )
        state = replace(state, last=PassResult(result, reason, time=now), counters=counters)
        return state, self._save(state)

    def failed(self, state: State, code: str, why: str, reconfigured: bool = False) -> None:
        """The former state with this failure. `code`: a short stable word."""
        now = self.clock.now()
        counters = state.counters
        row = counters.failed_in_a_row + 1
        counters = replace(
            counters,
            passes=counters.passes + 1,
            failures={**counters.failures, code: counters.failures.get(code, 0) + 1},
            failed_in_a_row=row,
            reconfigures=counters.reconfigures + reconfigured,
        )
        last = PassResult("failed", why, code, now, now + back_off(row))
        self._save(replace(state, last=last, counters=counters))

    def _save(self, state: State) -> Sequence[str]:
        """What cannot be written is said: it undoes nothing."""
        notes = []
        if self.shared:
            try:
                self.generations.save_state(state_json.dump(state))
            except FileError as error:
                notes.append(f"state.json could not be written: {error}")
        try:
            self.metrics(state)
        except (OSError, PassError) as error:
            notes.append(f"metrics could not be written: {error}")
        return notes
