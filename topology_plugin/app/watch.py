"""Watching: passes for ever, settled. A change waits until it is whole, failures back off, drift is found."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Protocol

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.signs import Sign, Signs, changed, taken_over
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.reconcile import Outcome, Wish
from topology_plugin.app.recording import BACK_OFF_FIRST, back_off
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.settings import NAMES, Settings

DRIFT_SECONDS = 300.0  # Slurm is asked at least so often, even if no file changed
PENDING_SECONDS = 60.0  # and so often while an API still owes an answer or jobs are waited for
SETTINGS = "settings"  # the sign of the settings' file
HOLDS_SETTINGS = {SETTINGS, "provisioning_parameters"}
MOST_NEWS = 20  # sentences a pass


class Passes(Protocol):
    """What a watch needs of the reconciler."""

    def run(self, wish: Wish) -> Outcome: ...

    def as_left(self) -> frozenset[str]:
        """Files that hold what the last pass saw or put there."""
        ...

    def relieved(self) -> bool:
        """True once, when another controller wrote until now, and from now on we do."""
        ...

    def leave(self) -> None:
        """Let another controller write."""
        ...


@dataclass(frozen=True)
class Ground:
    """What a watch stands on, made anew when settings change."""

    passes: Passes
    signs: Signs
    settings: Settings


@dataclass
class Watch:
    """Polls cost a few stat calls: nothing is read or parsed, and Slurm is not called, before a pass is due."""

    ground: Ground
    clock: Clock
    say: Callable[[str], None]
    renew: Callable[[], Ground]

    _seen: dict[str, Sign] | None = None
    _since: float | None = None  # first unanswered change
    _last: float = 0.0  # newest change
    _next: float = 0.0  # when a pass is due without any change
    _not_before: float = 0.0  # not even with one
    _reconfigured: float | None = None
    failures: int = 0
    _owed: float = PENDING_SECONDS  # pause before an API that owes answers is asked again
    _waiting_since: float | None = None  # jobs that a change would make never runnable
    _told: str = ""
    _notes: frozenset[str] = field(default_factory=frozenset)

    def run(self, wait: Callable[[float], bool]) -> None:
        """Polls until `wait(seconds)` says stop; a pass under way is finished first."""
        self.say("watching")
        while not wait(self.ground.settings.poll_seconds):
            self.poll()
        self.ground.passes.leave()
        self.say("stopped")

    def poll(self) -> Outcome | None:
        """One look at the signs, and a pass if one is due."""
        now = self.clock.monotonic()
        signs = self.ground.signs.read()
        names = changed(self._seen, signs) if self._seen is not None else ["everything"]
        if self._seen is not None and HOLDS_SETTINGS.intersection(names):
            self._renew()
        relieved = self.ground.passes.relieved()
        if relieved:
            self.say("the controller that wrote is gone: writing from now on")
        if names or relieved:
            self._since = now if self._since is None else self._since
            self._last = now
            self._seen = signs
        if not self._due(now):
            return None
        return self._pass(signs)

    def _due(self, now: float) -> bool:
        if self._since is None:
            return now >= self._next
        settings = self.ground.settings
        settled = now - self._last >= settings.settle_seconds
        too_long = now - self._since >= settings.max_wait_seconds
        return (settled or too_long) and now >= self._not_before

    def _renew(self) -> None:
        """Settings changed: everything made anew from them. What cannot be used changes nothing."""
        try:
            fresh = self.renew()
        except InputError as error:
            self._tell(f"the settings cannot be used, the former ones hold: {error}")
            return
        if fresh.settings != self.ground.settings:
            names = [name for name in NAMES if getattr(fresh.settings, name) != getattr(self.ground.settings, name)]
            self.say(f"settings changed: {', '.join(names)}")
            self.ground.passes.leave()
            self.ground = fresh

    # --- a pass ---

    def _pass(self, before: dict[str, Sign]) -> Outcome | None:
        """What changes while it runs is a change of its own: only what still is as the pass left it is taken over."""
        wish = self._wish(self.clock.monotonic())
        self._since = None
        outcome: Outcome | None = None
        try:
            outcome = self.ground.passes.run(wish)
        except (InputError, PassError) as error:
            self._failed(error)
        except Exception as error:  # a fault of ours: the service goes on, and says what it was
            self._failed(PassError(f"{type(error).__name__}: {error} (a fault of this program, please report it)"))
        after = self.ground.signs.read()
        self._seen = taken_over(before, after, self.ground.passes.as_left())
        if outcome is not None:
            self._ended(outcome)
        return outcome

    def _wish(self, now: float) -> Wish:
        settings = self.ground.settings
        patient = self._waiting_since is None or now - self._waiting_since < settings.max_wait_seconds
        return Wish(patient=patient, sparing=now < self._apart())

    def _apart(self) -> float:
        """When the next reconfigure may be."""
        if self._reconfigured is None:
            return float("-inf")
        return self._reconfigured + self.ground.settings.min_reconfigure_interval

    def _failed(self, error: InputError | PassError) -> None:
        now = self.clock.monotonic()
        self.failures += 1
        pause, rest = back_off(self.failures), BACK_OFF_FIRST
        if isinstance(error, ApplyFailed):
            if error.reconfigured:
                self._reconfigured = now
                pause = max(pause, self.ground.settings.min_reconfigure_interval)
            if error.code == "no-answer":  # asking costs next to nothing, and it may be back any moment
                pause, rest = min(pause, PENDING_SECONDS), 0.0
        self._next, self._not_before = now + pause, now + rest
        self._tell(f"the pass failed, the former state is kept: {error}")

    def _ended(self, outcome: Outcome) -> None:
        now = self.clock.monotonic()
        if outcome.waits != "distance":  # else what failed has not been tried again yet
            self.failures, self._not_before = 0, 0.0
        self._next = now + DRIFT_SECONDS
        if outcome.applied is not None and outcome.applied.reconfigured:
            self._reconfigured = now
        self._waiting_since = (self._waiting_since or now) if outcome.waits == "jobs" else None
        if self._waiting_since is not None:
            left = self._waiting_since + self.ground.settings.max_wait_seconds - now
            self._next = now + max(0.0, min(PENDING_SECONDS, left))
        elif outcome.waits == "distance":
            self._next = self._apart()
        elif outcome.open_answers:
            self._next = now + self._owed
        # An API that never knows an instance must not make every minute a busy one.
        idle = outcome.open_answers and outcome.applied is None
        self._owed = min(2 * self._owed, DRIFT_SECONDS) if idle else PENDING_SECONDS
        self._tell(_sentence(outcome))
        self._tell_news((*outcome.notes, *outcome.state.notes), outcome.state.last.error)

    # --- saying ---

    def _tell(self, sentence: str) -> None:
        """The same news once."""
        if sentence != self._told:
            self.say(sentence)
        self._told = sentence

    def _tell_news(self, notes: Iterable[str], said: str) -> None:
        """Notes of this pass that the one before did not have."""
        now = dict.fromkeys(note for note in notes if note != said)
        news = [note for note in now if note not in self._notes]
        for note in news[:MOST_NEWS]:
            self.say(note)
        if len(news) > MOST_NEWS:
            self.say(f"and {len(news) - MOST_NEWS} more like these (all of them: hyperpod-topology doctor)")
        self._notes = frozenset(now)


def _sentence(outcome: Outcome) -> str:
    state = outcome.state
    if state.last.result == "applied":
        return f"generation {state.generation} is in force: {', '.join(t.name for t in state.desired.topologies)}"
    if state.last.result == "unchanged":
        return "nothing to do" if outcome.answered else outcome.nothing_to_do
    return f"{state.last.result}: {state.last.error}"
