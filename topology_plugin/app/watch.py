"""Watching: passes for ever, settled. A change waits until it is whole, failures back off, drift is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.signs import Sign, Signs, changed, taken_over
from topology_plugin.app.reconcile import Outcome, Wish, back_off
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.settings import Settings

DRIFT_SECONDS = 300.0  # Slurm is asked at least so often, even if no file changed
PENDING_SECONDS = 60.0  # and so often while an API still owes an answer or jobs are waited for


class Passes(Protocol):
    """What a watch needs of the reconciler."""

    def run(self, wish: Wish) -> Outcome: ...


@dataclass
class Watch:
    """`signs`: what changed on disk; `own`: names among them that passes write themselves."""

    passes: Passes
    signs: Signs
    settings: Settings
    clock: Clock
    own: Callable[[], frozenset[str]] = frozenset
    say: Callable[[str], None] = field(default=lambda sentence: None)

    _seen: dict[str, Sign] | None = None
    _since: float | None = None  # first unanswered change
    _last: float = 0.0  # newest change
    _passed: float = 0.0  # end of the last pass
    _reconfigured: float | None = None
    _retry: float | None = None
    _failures: int = 0
    _waiting_since: float | None = None  # jobs that a change would make never runnable
    _told: str = ""

    def run(self, wait: Callable[[float], bool]) -> None:
        """Polls until `wait(seconds)` says stop."""
        self.say("watching")
        while not wait(self.settings.poll_seconds):
            self.poll()
        self.say("stopped")

    def poll(self) -> Outcome | None:
        """One look at the signs, and a pass if one is due."""
        now = self.clock.monotonic()
        signs = self.signs.read()
        if self._seen is None or changed(self._seen, signs):
            self._since = now if self._since is None else self._since
            self._last = now
            self._seen = signs
        if not self._due(now):
            return None
        return self._pass(signs)

    def _due(self, now: float) -> bool:
        if self._retry is not None and self._since is None:
            return now >= self._retry
        if self._since is None:
            return now - self._passed >= DRIFT_SECONDS
        settled = now - self._last >= self.settings.settle_seconds
        too_long = now - self._since >= self.settings.max_wait_seconds
        if not (settled or too_long):
            return False
        if self._failures and self._retry is not None and now < self._retry:
            return False
        apart = self._reconfigured is None or now - self._reconfigured >= self.settings.min_reconfigure_interval
        return apart

    def _pass(self, before: dict[str, Sign]) -> Outcome | None:
        now = self.clock.monotonic()
        patient = self._waiting_since is None or now - self._waiting_since < self.settings.max_wait_seconds
        outcome: Outcome | None = None
        try:
            outcome = self.passes.run(Wish(patient=patient))
        except (InputError, PassError) as error:
            self._failures += 1
            self._retry = self.clock.monotonic() + back_off(self._failures)
            self._tell(f"the pass failed, the former state is kept: {error}")
        self._passed = self.clock.monotonic()
        self._since = None
        self._seen = taken_over(before, self.signs.read(), self.own())
        if outcome is not None:
            self._after(outcome)
        return outcome

    def _after(self, outcome: Outcome) -> None:
        self._failures, self._retry = 0, None
        state = outcome.state
        if state.last.result == "pending":
            self._waiting_since = self._passed if self._waiting_since is None else self._waiting_since
            self._retry = self._passed + min(PENDING_SECONDS, self.settings.max_wait_seconds)
        else:
            self._waiting_since = None
        if outcome.open_answers:
            self._retry = self._passed + PENDING_SECONDS
        if outcome.applied is not None and outcome.applied.reconfigured:
            self._reconfigured = self._passed
        self._tell(_sentence(outcome))

    def _tell(self, sentence: str) -> None:
        """The same news once."""
        if sentence != self._told:
            self.say(sentence)
        self._told = sentence


def _sentence(outcome: Outcome) -> str:
    state = outcome.state
    if state.last.result == "applied":
        return f"generation {state.generation} is in force: {', '.join(t.name for t in state.desired.topologies)}"
    if state.last.result == "unchanged":
        return "nothing to do"
    return f"{state.last.result}: {state.last.error}"
