"""One pass: observe, merge, compare, plan, validate, rehearse, apply, read back, record."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from topology_plugin import __version__
from topology_plugin.adapters import collector
from topology_plugin.adapters.cluster_lock import Turn
from topology_plugin.adapters.generations import HOLD, OWNERSHIP
from topology_plugin.app import ownership, watched_files
from topology_plugin.app.apply import Applied, ApplyFailed, Doors, execute, settle_jobs
from topology_plugin.app.loaded import Loaded, differences
from topology_plugin.app.observation import Observation, Observer, must_be_whole
from topology_plugin.app.recording import Recorder, back_off
from topology_plugin.app.watched_files import Left
from topology_plugin.app.writer import Writer
from topology_plugin.core import job_sizes, target, topology_conf, topology_yaml
from topology_plugin.core import plan as planning
from topology_plugin.core.decision import Decision, Memory
from topology_plugin.core.diff import Diff, compare
from topology_plugin.core.disk import Disk, decoded
from topology_plugin.core.facts import facts_of, memory_of
from topology_plugin.core.generation import Generation
from topology_plugin.core.holding import held as held_configuration
from topology_plugin.core.issues import InputError, Issue, PassError
from topology_plugin.core.live import Live
from topology_plugin.core.merge import merge
from topology_plugin.core.plan import Plan, Target
from topology_plugin.core.state import Counters, Owner, PassResult, State
from topology_plugin.core.topology import FLAT_ONLY, Configuration
from topology_plugin.core.versions import Support, support

if TYPE_CHECKING:
    from topology_plugin.app.wiring import Wiring


@dataclass(frozen=True)
class Wish:
    """What the caller asks of a pass. `patient`: wait for pending jobs that the change would make never runnable;
    `ask`: AWS may be asked (a reading command does with what is remembered); `sparing`: no reconfigure yet, unless
    slurmctld would die of what stands there."""

    dry_run: bool = False
    offline: bool = False
    adopt: bool = False
    patient: bool = False
    ask: bool = True
    sparing: bool = False


@dataclass(frozen=True)
class Thought:
    """A pass up to the point where it would act. `passive`: another controller acts."""

    disk: Disk
    observation: Observation
    state: State
    target: Target
    plan: Plan
    generation: Generation | None
    diff: Diff
    notes: tuple[str, ...] = ()
    passive: bool = False


@dataclass(frozen=True)
class Outcome:
    """`state` as recorded; `plan`: what was done, or would be; `open_answers`: an API still owes some; `waits`: what a
    pending change waits for, "jobs" or "distance" (from the last reconfigure)."""

    state: State
    plan: Plan
    diff: Diff
    applied: Applied | None = None
    notes: tuple[str, ...] = ()
    open_answers: bool = False
    waits: str = ""


@dataclass
class Reconciler:
    """Passes over one cluster. Keeps what it read, so that the next look reads only what changed."""

    wiring: Wiring
    new_doors: Callable[[], Doors]
    observer: Observer
    writer: Writer
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
            return Outcome(thought.state, thought.plan, thought.diff, notes=thought.notes)
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
        doors = self._now = self.new_doors()
        try:
            disk = doors.live.disk()
        except OSError as error:
            where = error.filename or "topology.yaml or topology.conf"
            raise PassError(f"{where} cannot be read: {error.strerror or error}") from None
        self.conf_files = tuple(file.path for file in disk.conf.files)
        former = self._former()
        current = doors.generations.current()
        loaded = None if wish.offline else doors.slurm.nodes()
        memory = former.decision.memory if former else memory_of(current)
        arn = former.cluster_arn if former else None
        must_be_whole(disk.conf, bool(memory.identities) or bool(loaded))
        observation = self.observer.look(disk.conf, loaded, memory, ask=wish.ask and not wish.offline, known_arn=arn)
        if observation.blind and not memory.identities:
            raise InputError(observation.documents.issues)
        slurm = self._support(disk)
        decision = merge(observation.inventory, self.wiring.settings, observation.memory, classic=doors.classic)
        held_by = doors.generations.note(HOLD)
        hold = held_by is not None
        in_force = self._in_force(disk, current, wish)
        notes = [*slurm.notes, *observation.notes]
        if hold:
            decision = self._held(decision, disk, in_force, observation)
            reason = f" ({held_by['reason']})" if held_by and held_by.get("reason") else ""
            notes.append(f"on hold{reason}: joiners are added as unplaced, nothing else changes (end it with resume)")
        owner = ownership.owner(self.wiring, doors, disk, observation.documents.agent, adopt=wish.adopt)
        other = self._other_writer(turn, disk, wish)
        owner = Owner("another controller", other, writes=False) if other else owner
        wanted = target.of_configuration(
            decision.configuration,
            disk,
            doors.classic,
            conf_ours=self._ours(disk.topology_conf),
            yaml_ours=self._ours(disk.topology_yaml),
        )
        state = self._state(observation, decision, former, in_force, owner, hold, slurm, current, arn)
        generation = self._generation(state, wanted, current, observation)
        plan = self._plan(disk, wanted, generation, in_force, wish)
        if not owner.writes:
            notes.append(owner.reason)
        if loaded is None and not wish.offline:
            notes.append("slurmctld gives no answer: taken as in force is what the last generation put there")
        jobs = () if wish.offline or not plan else Live.parse((), doors.slurm.jobs()).jobs
        diff = compare(state, jobs)
        return Thought(disk, observation, state, wanted, plan, generation, diff, tuple(notes), bool(other))

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

    # --- thinking ---

    def _other_writer(self, turn: Turn | None, disk: Disk, wish: Wish) -> str:
        if turn is None:
            return ""
        hosts = disk.conf.parameters.get("slurmctldhost", "")
        return self.writer.other(turn, hosts, None if wish.offline else self.doors.slurm)

    def _former(self) -> State | None:
        data = self.doors.generations.load_state()
        if data is None:
            return None
        with contextlib.suppress(InputError):
            return State.from_json(data)
        return None

    def _support(self, disk: Disk) -> Support:
        found = support(self.doors.slurm.version(), disk.conf.parameters)
        if found.refused:
            raise InputError(Issue("Slurm", found.refused, found.remedy))
        return found

    def _in_force(self, disk: Disk, current: Generation | None, wish: Wish) -> Configuration | None:
        """What slurmctld says it has loaded; else what the current generation put in force."""
        slurm = self.doors.slurm
        if self.doors.classic:
            return self._classic_in_force(disk, current, wish)
        if not wish.offline:
            words, shown = slurm.partitions(), slurm.topoconf()
            if words is not None and shown is not None:
                with contextlib.suppress(InputError):
                    return Configuration(topology_yaml.parse(shown).topologies, words)
        kept = target.of_generation(current, disk) if current else None
        return kept.configuration if kept else None

    def _classic_in_force(self, disk: Disk, current: Generation | None, wish: Wish) -> Configuration | None:
        """By the TopologyPlugin that slurmctld runs with, and topology.conf; else by the current generation."""
        config = None if wish.offline else self.doors.slurm.config()
        if config is not None:
            plugin, text = config.get("TopologyPlugin"), disk.topology_conf
        elif current is not None:
            plugin, text = current.plugin, current.topology_conf
        else:
            return None
        words = dict.fromkeys(disk.conf.partitions)
        if not planning.needs_conf(plugin):
            return replace(FLAT_ONLY, words=words)
        with contextlib.suppress(InputError):
            return None if text is None else Configuration((topology_conf.of_cluster(decoded(text)),), words)
        return None

    def _held(
        self, decision: Decision, disk: Disk, in_force: Configuration | None, observation: Observation
    ) -> Decision:
        """What was put in force last stays, also where the agent took our words or file away meanwhile."""
        current = self.doors.generations.current()
        last = target.of_generation(current, disk, self.doors.classic) if current is not None else None
        kept = (last.configuration if last else None) or disk.configuration() or in_force
        if kept is None:
            return decision
        most = self.wiring.settings.max_unplaced_leaves
        return replace(decision, configuration=held_configuration(kept, observation.inventory, most))

    def _ours(self, text: bytes | None) -> bool:
        return text is not None and self.doors.generations.ours_text(text)

    def _state(
        self,
        observation: Observation,
        decision: Decision,
        former: State | None,
        in_force: Configuration | None,
        owner: Owner,
        hold: bool,
        slurm: Support,
        current: Generation | None,
        known_arn: str | None,
    ) -> State:
        config = observation.documents.config
        refused = {
            t.name: ranges
            for t in decision.configuration.topologies
            if (ranges := job_sizes.refused(t, tuple(t.body.nodes())))
        }
        return State(
            cluster_arn=(config.cluster_arn if config else None) or known_arn,
            version=__version__,
            slurm_version=slurm.text,
            generation=current.number if current else None,
            last=former.last if former else PassResult(),
            owner=owner,
            inventory=observation.inventory,
            decision=decision,
            in_force=in_force,
            refused=refused,
            held=former.held if former else (),
            hold=hold,
            adopted=ownership.adopted(self.doors),
            counters=former.counters if former else Counters(),
            notes=(*slurm.notes, *observation.notes, *decision.notes),
        )

    def _generation(
        self, state: State, wanted: Target, current: Generation | None, observation: Observation
    ) -> Generation | None:
        """A new generation if what Slurm gets is new, the begun one of a killed pass if it is the same, else None."""
        generations = self.doors.generations
        made = Generation(
            generations.next_number(),
            wanted.topology_yaml,
            wanted.topology_conf if self.doors.classic else None,
            {name: word for name, word in wanted.words.items() if name in observation.inventory.partitions},
            wanted.plugin,
            meta={
                "version": __version__,
                "slurm_version": state.slurm_version,
                "cluster_arn": state.cluster_arn,
                "time": self.wiring.clock.now(),
                "by": "merge",
            },
        )
        if current is not None and current.same_content(made):
            return None
        made = replace(made, facts=facts_of(state))
        begun = generations.begun()
        return replace(made, number=begun.number) if begun is not None and begun.same_content(made) else made

    def _plan(
        self, disk: Disk, wanted: Target, generation: Generation | None, in_force: Configuration | None, wish: Wish
    ) -> Plan:
        loaded_differs = False
        if not wish.offline:
            loaded = Loaded(self.doors.slurm, self.doors.clock, self.doors.controller, self.doors.classic)
            loaded_differs = bool(differences(loaded, wanted, {**disk.words, **wanted.words}))
        return planning.plan(
            disk,
            wanted,
            number=generation.number if generation else None,
            reconfigure=not wish.offline,
            loaded_differs=loaded_differs,
            classic=self.doors.classic,
        )

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
        applied = execute(doors, thought.disk, thought.plan, thought.generation, rehearsed=rehearsed)
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
            raise ApplyFailed("no-answer", f"slurmctld does not answer, nothing was changed: {words}")
        return "waits, as the last reconfigure was only a moment ago" if wish.sparing else None

    def _refuse(self, thought: Thought, wish: Wish) -> None:
        """What slurmctld would die of, or what would leave nodes of a partition out, is never published."""
        after = target.in_place(thought.disk, thought.target, self.doors.classic)
        faults = [*self.doors.check(after), *self.wiring.faults(thought.state.desired, after, self.doors, wish.offline)]
        if faults:
            raise ApplyFailed("validation", "refused before anything was changed: " + "; ".join(map(str, faults[:5])))

    def _rehearse(self, thought: Thought, wish: Wish) -> bool:
        """True if the installed slurmctld started with the new configuration in a network namespace of its own."""
        rehearsal = None if wish.offline else self.wiring.rehearsal(self.doors)
        if rehearsal is None:
            return False
        self.say("rehearsing: the installed slurmctld starts with it, apart from everything")
        problem = rehearsal(thought)
        if problem:
            raise ApplyFailed("rehearsal", f"the rehearsal refused it, nothing was changed: {problem}")
        return True

    # --- recording ---

    def _recorder(self, shared: bool = True) -> Recorder:
        return Recorder(self.doors.generations, self.wiring.clock, self.wiring.write_metrics, shared)

    def _recorded(self, thought: Thought, result: str, reason: str, waits: str = "") -> Outcome:
        state, unsaid = self._recorder(not thought.passive).ended(thought.state, result, reason)
        notes = (*thought.notes, *unsaid)
        asked = thought.observation.open_answers
        return Outcome(state, thought.plan, thought.diff, notes=notes, open_answers=asked, waits=waits)

    def _record_blindness(self, turn: Turn, error: InputError | PassError) -> None:
        """A look that failed is a failed pass too: nobody may take the former state for today's."""
        former = self._former()
        if former is not None and turn.holder is None:
            self._recorder().failed(former, "input", str(error))


def observe(wiring: Wiring) -> State:
    """A pass in memory: what is in force, what is desired and why. Writes nothing. Raises InputError."""
    return wiring.reconciler().think(Wish(dry_run=True, ask=False)).state


__all__ = ["Decision", "Memory", "Outcome", "Reconciler", "Thought", "Wish", "back_off", "observe"]
