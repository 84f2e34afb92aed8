"""How a trace is played, and what the player keeps of each job."""

from __future__ import annotations

from dataclasses import dataclass

from topology_plugin.jobs.traces import TraceJob


@dataclass(frozen=True)
class Play:
    """How a trace is played.

    `occupancy`: None: jobs arrive when the trace says; else the next one arrives as soon as less than this share of the
    nodes is in use. `losses`: nodes lost per 1,000 node-days; `repair`: seconds
    until a lost node is replaced; `same_place`: chance that the new instance lies where the old one did. `grain`:
    events nearer than so many seconds count as one.
    """

    seed: int = 1
    occupancy: float | None = None
    losses: float = 0.0
    repair: float = 1500.0
    same_place: float = 0.8
    grain: float = 1.0


@dataclass
class Run:
    """A job of the trace under way. `left`: how long it still has to run; `since`: start of its present run, if any;
    `few`: the number of leaves that it waits for."""

    trace: TraceJob
    arrived: float
    left: float
    since: float | None = None
    nodes: tuple[str, ...] = ()
    turn: int = 0
    waited: float | None = None
    few: int | None = None

    def ran(self, now: float) -> float:
        """Seconds of the present run."""
        return 0.0 if self.since is None else now - self.since
