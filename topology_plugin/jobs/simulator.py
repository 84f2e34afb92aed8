"""Plays a trace: arrivals, ends, lost and replaced nodes as events of the trace's own time; Slurm decides at each.

Between two events nothing happens, so that time costs nothing: every event waits only until Slurm has gone over its
queue. What is measured is what Slurm did; the simulator places no job.
"""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topology_plugin.core.live import Job
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Configuration
from topology_plugin.jobs.levels import fewest
from topology_plugin.jobs.outcome import Outcome, by_size
from topology_plugin.jobs.placement import Placed, place, summary
from topology_plugin.jobs.play import Play, Run
from topology_plugin.jobs.policies import Place, Policy
from topology_plugin.jobs.scheduler import Row, Scheduler
from topology_plugin.jobs.traces import TraceJob


@dataclass
class Player:
    """One trace on one scheduler."""

    policy: Policy
    place: Place
    scheduler: Scheduler
    play: Play
    told: Callable[[float, int, int], None] | None = None
    now: float = 0.0
    runs: dict[int, Run] = field(default_factory=dict)
    placed: list[Placed] = field(default_factory=list)
    refused: list[tuple[int, str]] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    down: dict[str, float] = field(default_factory=dict)
    then: list[float] = field(default_factory=list)
    lost: int = 0
    reloads: int = 0

    def __post_init__(self) -> None:
        self._chance = random.Random(self.play.seed)  # noqa: S311 (a reproducible run, not a secret)
        self._events: list[tuple[float, int, str, Any]] = []
        self._number = 0
        self._configuration: Configuration = self.policy.configuration(self.place)
        self._network = self.place.network(self._configuration)
        self._homes = dict(self.place.positions)
        self._used = self._measured = 0.0  # node time, while the cluster is kept busy
        self._used_in_all = 0.0
        self._full_since: float | None = None
        self._arriving = True

    def run(self, trace: Sequence[TraceJob]) -> Outcome:
        waiting = deque(sorted(trace, key=lambda job: job.submit))
        if self.play.occupancy is None:
            for job in waiting:
                self._at(job.submit, "arrive", job)
            waiting.clear()
        last = max((job.submit for job in trace), default=0.0)
        self._next_loss()
        self._feed(waiting)
        self._decide()
        while self._events and (waiting or any(what != "lose" for _, _, what, _ in self._events)):
            self._arriving = bool(waiting) or (self.play.occupancy is None and self.now < last)
            moment, happened = self._pop()
            self._pass_time(moment)
            self._apply(happened)
            self._feed(waiting)
            self._decide()
            if self.told:
                self.told(self.now, len(self.waits), len(trace))
        return self._outcome(len(trace), len(waiting))

    # Time

    def _at(self, moment: float, what: str, about: Any) -> None:
        self._number += 1
        heapq.heappush(self._events, (moment, self._number, what, about))

    def _pop(self) -> tuple[float, list[tuple[str, Any]]]:
        """The next event and those that count as one with it."""
        first = self._events[0][0]
        happened = []
        moment = first
        while self._events and self._events[0][0] <= first + self.play.grain:
            moment, _, what, about = heapq.heappop(self._events)
            happened.append((what, about))
        return moment, happened

    def _pass_time(self, moment: float) -> None:
        elapsed = max(0.0, moment - self.now)
        busy = self._busy()
        size = len(self.place.nodes)
        if self._full_since is None and busy >= 0.75 * (self.play.occupancy or 0.9) * size:
            self._full_since = self.now
        if self._full_since is not None and self._arriving:
            self._used += busy * elapsed
            self._measured += size * elapsed
        self._used_in_all += busy * elapsed
        self.now = max(self.now, moment)

    def _occupancy(self) -> float:
        if self._measured:
            return self._used / self._measured
        return self._used_in_all / (len(self.place.nodes) * self.now) if self.now else 0.0

    def _busy(self) -> int:
        return sum(len(run.nodes) for run in self.runs.values())

    # Events

    def _apply(self, happened: Sequence[tuple[str, Any]]) -> None:
        ended = []
        for what, about in happened:
            if what == "arrive":
                self._submit(about)
            elif what == "end":
                job, turn = about
                run = self.runs.get(job)
                if run is not None and run.turn == turn and run.since is not None:
                    ended.append(job)
                    del self.runs[job]
            elif what == "relax":
                if about in self.runs and self.runs[about].since is None:
                    self.runs[about].few = None
                    self.scheduler.relax(about)
            elif what == "lose":
                self._lose()
            elif what == "replace":
                self._replace(about)
        if ended:
            self.scheduler.end(ended)

    def _submit(self, job: TraceJob) -> None:
        few = None
        if self.policy.wait and job.nodes > 1 and self._network.kind == "tree":
            few = fewest(self._network.leaf_sizes, job.nodes)
        answer = self.scheduler.submit(job.nodes, math.ceil(job.limit / 60), few)
        if isinstance(answer, str):
            self.refused.append((job.nodes, answer))
            return
        self.runs[answer] = Run(job, self.now, job.duration, few=few)
        if few is not None:
            self._at(self.now + (self.policy.wait or 0), "relax", answer)

    def _feed(self, waiting: deque[TraceJob]) -> None:
        """With a target occupancy jobs come from a backlog, in the trace's order. A job that could start and waits
        for fewer leaves does not keep others from coming."""
        if self.play.occupancy is None:
            return
        size = len(self.place.nodes)
        while waiting:
            idle = size - self._busy() - len(self.down)
            runs = self.runs.values()
            picky = [run for run in runs if run.few and run.arrived < self.now and run.trace.nodes <= idle]
            apart = min(sum(run.trace.nodes for run in picky), size // 2)
            if sum(run.trace.nodes for run in runs) - apart >= self.play.occupancy * size:
                return
            self._submit(waiting.popleft())

    def _next_loss(self) -> None:
        if self.play.losses > 0:
            rate = self.play.losses / 1000 * len(self.place.nodes) / 86400
            self._at(self.now + self._chance.expovariate(rate), "lose", None)

    def _lose(self) -> None:
        up = [node for node in self.place.nodes if node not in self.down]
        if up and self._arriving:
            node = self._chance.choice(up)
            self.down[node] = self.now
            self.lost += 1
            self.scheduler.fail(node)
            for run in self.runs.values():
                if node in run.nodes:  # it goes on later from where it was: training jobs keep checkpoints
                    run.left = max(60.0, run.left - run.ran(self.now))
                    run.since, run.nodes, run.turn = None, (), run.turn + 1
            self._at(self.now + self.play.repair, "replace", node)
        if self._arriving:
            self._next_loss()

    def _replace(self, node: str) -> None:
        self.down.pop(node, None)
        if self._chance.random() >= self.play.same_place:
            self._move(node)
        self.scheduler.restore(node)

    def _move(self, node: str) -> None:
        """The new instance lies on another leaf, or in another UltraServer that lacks a node."""
        here = self.place.positions[node]
        members: dict[Position, int] = {}
        for position in self.place.positions.values():
            members[position] = members.get(position, 0) + 1
        most = max(members.values())
        free = sorted(p for p in set(self._homes.values()) if p != here and members.get(p, 0) < most)
        if not here.ultraserver and not free:
            free = sorted(p for p in members if p != here)
        if not free:
            return
        self.place = self.place.moved(node, self._chance.choice(free))
        configuration = self.policy.configuration(self.place)
        if configuration != self._configuration:
            self.scheduler.reload(configuration)
            self.reloads += 1
        self._configuration = configuration
        self._network = self.place.network(configuration)

    # Slurm's turn

    def _decide(self) -> None:
        waiting = [run for run in self.runs.values() if run.since is None]
        if not waiting:
            return
        idle = len(self.place.nodes) - self._busy() - len(self.down)
        if min(run.trace.nodes for run in waiting) > idle:
            return  # nothing can start, whatever Slurm thinks
        if len(waiting) > 1:
            # Slurm plans ahead for what must wait, with the ends of what runs.
            self.scheduler.remaining(
                {job: self._minutes(run) for job, run in self.runs.items() if run.since is not None}
            )
        used = {node for run in self.runs.values() for node in run.nodes}
        for job, row in sorted(self.scheduler.settled(self._nothing_more).items()):
            run = self.runs.get(job)
            if run is None or run.since is not None or not row.nodes:
                continue
            if len(row.nodes) > 1:
                self._compare(row.nodes, used)
            used.update(row.nodes)
            run.since, run.nodes, run.few = self.now, row.nodes, None
            run.turn += 1
            if run.waited is None:
                run.waited = self.now - run.arrived
                self.waits.append(run.waited)
            self.placed.append(place(Job(job, state="RUNNING", nodes=row.nodes), self._network))
            self._at(self.now + run.left, "end", (job, run.turn))

    def _compare(self, nodes: Sequence[str], used: set[str]) -> None:
        """With the best that was to be had at this moment."""
        leaf = self._network.leaf
        idle = Counter(leaf(node) for node in self.place.nodes if node not in used and node not in self.down)
        best = fewest(list(idle.values()), len(nodes))
        self.then.append(len({leaf(node) for node in nodes}) / max(1, best))

    def _nothing_more(self, rows: Mapping[int, Row]) -> bool:
        """No job that still waits could start on what is idle, whatever Slurm thinks."""
        idle = len(self.place.nodes) - len(self.down) - sum(len(row.nodes) for row in rows.values())
        waiting = [run.trace.nodes for job, run in self.runs.items() if job not in rows or not rows[job].nodes]
        return min(waiting, default=idle + 1) > idle

    def _minutes(self, run: Run) -> int:
        ran = run.trace.duration - run.left + run.ran(self.now)
        return max(1, math.ceil((run.trace.limit - ran) / 60))

    def _outcome(self, jobs: int, unsubmitted: int) -> Outcome:
        rows = self.scheduler.queue() if self.runs else {}
        left = [job for job, run in self.runs.items() if run.since is None]
        held = sum(1 for job in left if job in rows and rows[job].held)
        waits = sorted(self.waits)
        return Outcome(
            policy=self.policy.name,
            jobs=jobs,
            started=len(self.waits),
            refused=len(self.refused),
            held=held,
            waiting=len(left) - held + unsubmitted,
            near=summary(self.placed),
            then=sum(self.then) / len(self.then) if self.then else None,
            mean_wait=sum(waits) / len(waits) if waits else 0.0,
            p95_wait=waits[math.ceil(0.95 * len(waits)) - 1] if waits else 0.0,
            occupancy=self._occupancy(),
            lost_nodes=self.lost,
            reloads=self.reloads,
            span=self.now,
            never=tuple(sorted(set(self.refused))),
            by_size=by_size(self.placed),
        )
