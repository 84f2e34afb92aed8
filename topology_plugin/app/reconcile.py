"""One pass: observe, merge, compare, plan, validate, rehearse, apply, read back, record."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from topology_plugin.adapters import collector
from topology_plugin.adapters.cluster_lock import Turn
from topology_plugin.adapters.notes import OWNERSHIP, STATE
from topology_plugin.app import ownership, watched_files
from topology_plugin.app.apply import Applied, ApplyFailed, execute
from topology_plugin.app.doors import Doors
from topology_plugin.app.held import settle_jobs
from topology_plugin.app.judgement import Judge
from topology_plugin.app.observation import Observer
from topology_plugin.app.recording import Recorder
from topology_plugin.app.thought import Thinker, Thought, Wish
from topology_plugin.app.watched_files import Left
from topology_plugin.app.writer import Writer
from topology_plugin.core import plan as planning
from topology_plugin.core import target
from topology_plugin.core.diff import Diff
from topology_plugin.core.facts import facts_of
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.plan import Plan
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import State


@dataclass(frozen=True)
class Outcome:
    """`state` as recorded; `plan`: what was done, or would be; `open_answers`: an API still owes some; `waits`: what a
    pending change waits for, "jobs" or "distance" (from the last reconfigure); `answered`: slurmctld did, None if it
    was not asked (`--offline`)."""

    state: State
    plan: Plan
    diff: Diff
    applied: Applied | None = None
    notes: tuple[str, ...] = ()
    open_answers: bool = False
    waits: str = ""
    answered: bool | None = None

    @property
    def nothing_to_do(self) -> str:
        """What an empty plan means: where slurmctld was not heard, only of its files anything can be said."""
        if self.answered:
            return "nothing to do: what is in force is what is wanted"
        if self.answered is None:
            return "nothing to do: the files are as wanted"
        down = "slurmctld does not answer, so what it has loaded is not known"
        return f"{down}; nothing to do in the files: they are as wanted, and it loads them when it starts"


@dataclass
class Reconciler:
    """Passes over one cluster. Keeps what it read, so that the next look reads only what changed."""

    settings: Settings
    judge: Judge
    new_doors: Callable[[], Doors]
    observer: Observer
    writer: Writer
    metrics: Callable[[State], None] = field(default=lambda state: None)
    say: Callable[[str], None] = field(default=lambda sentence: None)
    conf_files: tuple[str, ...] = ()
    _now: Doors | None = None
    _left: Left | None = None

    @property
    def doors(self) -> Doors:
        """Of the pass under way, or of the last one."""
        if self._now is None:
            self._now = self.new_doors()
        return self._now

    @collector.paused()
    def run(self, wish: Wish) -> Outcome:
        """One pass under the lock. Raises InputError for inputs that cannot be used, PassError when the former state
        was kept; in both cases the state is recorded."""
        if wish.dry_run:
            thought = self.think(wish)
            answered = thought.answered
            return Outcome(thought.state, thought.plan, thought.diff, notes=thought.notes, answered=answered)
        with self.writer.turn() as turn:
            self._left = None
            try:
                thought = self.think(wish, turn)
            except (InputError, PassError) as error:
                self._record_blindness(turn, error)
                raise
            doors, on_disk = self.doors, thought.disk
            try:
                if thought.state.owner.writes:
                    doors.tidy()
                outcome = self._act(thought, wish)
                if outcome.applied is not None:
                    on_disk = target.in_place(on_disk, thought.target, doors.classic)
                return outcome
            except ApplyFailed as failed:
                self._recorder().failed(thought.state, failed.code, str(failed), failed.reconfigured)
                raise
            finally:
                self._left = Left(doors.live, doors.generations, on_disk, doors.generations.note(OWNERSHIP))

    @collector.paused()
    def think(self, wish: Wish, turn: Turn | None = None) -> Thought:
        """Everything up to acting; writes nothing. `turn` None: it will not act, so nobody is asked who may."""
        self._now = self.new_doors()
        thought = self._thinker().think(wish, turn)
        self.conf_files = tuple(file.path for file in thought.disk.conf.files)
        return thought

    def _thinker(self) -> Thinker:
        return Thinker(self.settings, self.doors, self.observer, self.writer)

    def relieved(self) -> bool:
        return self.writer.relieved()

    def leave(self) -> None:
        self.writer.leave()

    def as_left(self) -> frozenset[str]:
        """Which of `slurm_files` and `notes` are as the last pass left them: nobody wrote them since."""
        return self._left.untouched() if self._left is not None else frozenset()

    def slurm_files(self) -> dict[str, Path]:
        """The files that passes write, whether they exist or not: name → path. slurm.conf's Includes as of the last
        look."""
        return watched_files.slurm_files(self.doors.live, self.conf_files)

    def notes(self) -> dict[str, Path]:
        """What other commands write for passes to find: name → path."""
        return watched_files.notes(self.doors.generations)

    def shared_directory(self) -> Path | None:
        """The registry, as of the last look."""
        return self.doors.generations.registry

    # --- acting ---

    def _act(self, thought: Thought, wish: Wish) -> Outcome:
        doors, state = self.doors, thought.state
        if thought.passive:
            return self._recorded(thought, "observed", state.owner.reason)
        counted = replace(state.counters, agent_reverts=ownership.note_reverts(doors, thought.disk))
        state = replace(state, counters=counted)
        thought = replace(thought, state=state)
        if not state.owner.writes:
            return self._recorded(thought, "observed", state.owner.reason)
        if not thought.plan:
            doors.generations.drop_begun()
            held, _ = settle_jobs(doors) if not wish.offline else ((), ())
            return self._recorded(replace(thought, state=replace(state, held=held)), "unchanged", "")
        if (reason := self._not_now(thought, wish)) is not None:
            return self._recorded(thought, "pending", reason, "distance")
        self._refuse(thought, wish)
        lost = [concern for concern in thought.diff.jobs if concern.lost]
        if lost and wish.patient:
            names = ", ".join(concern.job.label for concern in lost)
            why = f"waits for jobs that it would make never runnable: {names}"
            return self._recorded(thought, "pending", why, "jobs")
        rehearsed = self._rehearse(thought, wish)
        made = thought.generation and replace(thought.generation, facts=facts_of(state))
        applied = execute(doors, thought.disk, thought.plan, made, rehearsed=rehearsed)
        ownership.put_back(doors)
        if wish.adopt:
            ownership.adopt(doors)
        counters = replace(
            state.counters,
            reconfigures=state.counters.reconfigures + applied.reconfigured,
            reconfigure_seconds=state.counters.reconfigure_seconds + applied.seconds,
        )
        now = replace(
            state,
            generation=applied.number if applied.number is not None else state.generation,
            in_force=state.in_force if wish.offline else state.desired,
            held=applied.held,
            counters=counters,
        )
        outcome = self._recorded(replace(thought, state=now), "applied", "")
        return replace(outcome, applied=applied, notes=(*outcome.notes, *applied.notes))

    def _not_now(self, thought: Thought, wish: Wish) -> str | None:
        """Why a plan that reconfigures is not carried out now. What slurmctld would die of waits for nothing, and needs
        no slurmctld that answers."""
        reconfigures = any(isinstance(step, planning.Reconfigure) for step in thought.plan.steps)
        if not reconfigures or self.doors.check(thought.disk):
            return None
        if not self.doors.slurm.ping():
            words = self.doors.slurm.run("scontrol", "ping", timeout=15).words
            remedy = "start it, or write the files alone with `merge --offline`: it loads them when it starts"
            raise ApplyFailed("no-answer", f"slurmctld does not answer, nothing was changed: {words} ({remedy})")
        return "waits, as the last reconfigure was only a moment ago" if wish.sparing else None

    def _refuse(self, thought: Thought, wish: Wish) -> None:
        """What slurmctld would die of, or what would leave nodes of a partition out, is never published."""
        after = target.in_place(thought.disk, thought.target, self.doors.classic)
        faults = [*self.doors.check(after), *self.judge.faults(thought.state.desired, after, self.doors, wish.offline)]
        if faults:
            raise ApplyFailed("validation", "refused before anything was changed: " + "; ".join(map(str, faults[:5])))

    def _rehearse(self, thought: Thought, wish: Wish) -> bool:
        """True if the installed slurmctld started with the new configuration in a network namespace of its own."""
        rehearsal = None if wish.offline else self.judge.rehearsal(self.doors)
        if rehearsal is None:
            return False
        self.say("rehearsing: the installed slurmctld starts with it, apart from everything")
        problem = rehearsal(thought)
        if problem:
            raise ApplyFailed("rehearsal", f"the rehearsal refused it, nothing was changed: {problem}")
        return True

    # --- recording ---

    def _recorder(self, shared: bool = True) -> Recorder:
        return Recorder(self.doors.generations, self.doors.clock, self.metrics, shared)

    def _recorded(self, thought: Thought, result: str, reason: str, waits: str = "") -> Outcome:
        state, unsaid = self._recorder(not thought.passive).ended(thought.state, result, reason)
        notes = (*thought.notes, *unsaid)
        return Outcome(
            state,
            thought.plan,
            thought.diff,
            notes=notes,
            open_answers=thought.observation.open_answers,
            waits=waits,
            answered=thought.answered,
        )

    def _record_blindness(self, turn: Turn, error: InputError | PassError) -> None:
        """A look that failed is a failed pass too: nobody may take the former state for today's."""
        former = self._thinker().former()
        # A machine that never ended a pass is no controller: what it can't read says nothing of the cluster.
        passed_here = (self.doors.generations.state_dir / STATE).is_file()
        if former is not None and turn.holder is None and passed_here:
            self._recorder().failed(former, "input", str(error))


__all__ = ["Outcome", "Reconciler", "Thought", "Wish"]
