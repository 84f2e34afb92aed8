"""What an API said of instances before, and when asking again makes sense. One of these lives as long as `watch`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from topology_plugin.adapters.clock import Clock
from topology_plugin.core.position import Position
from topology_plugin.core.sources import ApiAnswers

SOON, LATE = 30.0, 600.0  # seconds: a machine just launched is known soon; a service that refuses will still refuse


@dataclass
class Remembered:
    """Per instance id: the position, or why there is none and when to ask again. A position that is complete is final.

    A round begins with `due` and takes each id away with `tell`, `nothing` or `unknown`; what is left when the service
    stops answering is `unanswered` or `refused`."""

    clock: Clock
    positions: dict[str, Position] = field(default_factory=dict)
    zones: dict[str, str] = field(default_factory=dict)
    ultraserver_types: dict[str, str] = field(default_factory=dict)
    silent: dict[str, str] = field(default_factory=dict)
    pending: set[str] = field(default_factory=set)
    problem: str | None = None
    _open: set[str] = field(default_factory=set)
    _next: dict[str, float] = field(default_factory=dict)
    _pause: dict[str, float] = field(default_factory=dict)
    _quiet_until: float = 0.0

    def due(self, instance_ids: Iterable[str]) -> list[str]:
        """Which of these to ask for now, sorted; nothing while the whole service is left alone."""
        now = self.clock.monotonic()
        if now < self._quiet_until:
            return []
        self.problem = None
        self._open = {i for i in instance_ids if self._next.get(i, 0.0) <= now}
        return sorted(self._open)

    def doubtful(self, instance_id: str) -> bool:
        """The service did not know it when last asked."""
        return instance_id in self._pause

    def tell(self, instance_id: str, position: Position, complete: bool = True) -> None:
        self._open.discard(instance_id)
        self.positions[instance_id] = position
        self.silent.pop(instance_id, None)
        self._pause.pop(instance_id, None)
        if complete:
            self.pending.discard(instance_id)
            self._next[instance_id] = float("inf")
        else:
            self._again(instance_id, SOON)

    def nothing(self, instance_id: str, why: str) -> None:
        """The service knows the instance and has no data for it: asked again, but not soon."""
        self._silence(instance_id, why)
        self.pending.discard(instance_id)
        self._pause.pop(instance_id, None)
        self._next[instance_id] = self.clock.monotonic() + LATE

    def unknown(self, instance_id: str, why: str) -> None:
        """Perhaps not known yet: asked again soon, then ever more rarely."""
        self._silence(instance_id, why)
        pause = self._pause.get(instance_id, SOON)
        self._again(instance_id, pause)
        self._pause[instance_id] = min(2 * pause, LATE)

    def unanswered(self, why: str) -> None:
        """The service did not get to the rest: asked again in the next pass."""
        self.problem = f"{len(self._open)} instances are still to be asked for ({why}); the next pass goes on"
        for instance_id in list(self._open):
            self._silence(instance_id, why)
            self._again(instance_id, 0.0)

    def refused(self, problem: str) -> None:
        """The service has no answers for us: left alone for a while, and nothing asked of it is pending."""
        self.problem = problem
        self._quiet_until = self.clock.monotonic() + LATE
        for instance_id in list(self._open):
            self._silence(instance_id, problem)
            self.pending.discard(instance_id)

    def answers(self, instance_ids: Iterable[str]) -> ApiAnswers:
        """What is known of these now."""
        ids = sorted(set(instance_ids))
        quiet = self.problem if self.clock.monotonic() < self._quiet_until else None
        silent = {i: self.silent.get(i) or quiet for i in ids if i not in self.positions}
        return ApiAnswers(
            {i: self.positions[i] for i in ids if i in self.positions},
            {i: self.zones[i] for i in ids if i in self.zones},
            {i: self.ultraserver_types[i] for i in ids if i in self.ultraserver_types},
            {i: why for i, why in silent.items() if why},
            self.problem,
            frozenset(i for i in ids if i in self.pending),
        )

    def _silence(self, instance_id: str, why: str) -> None:
        self._open.discard(instance_id)
        if instance_id not in self.positions:
            self.silent[instance_id] = why

    def _again(self, instance_id: str, seconds: float) -> None:
        self.pending.add(instance_id)
        self._next[instance_id] = self.clock.monotonic() + seconds
