"""A pass up to the point where it would act: what there is, what it should be, and the steps from one to the other."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from topology_plugin import __version__
from topology_plugin.adapters.cluster_lock import Turn
from topology_plugin.app import ownership
from topology_plugin.app.doors import Doors
from topology_plugin.app.loaded import differences
from topology_plugin.app.observation import Observation, Observer, must_be_complete, must_list_something
from topology_plugin.app.writer import Writer
from topology_plugin.core import holding, job_sizes, state_json, target, topology_conf, topology_yaml
from topology_plugin.core import plan as planning
from topology_plugin.core.decision import Decision, Memory
from topology_plugin.core.diff import Diff, compare
from topology_plugin.core.disk import Disk, decoded
from topology_plugin.core.facts import memory_of
from topology_plugin.core.generation import Generation
from topology_plugin.core.issues import InputError, Issue, PassError
from topology_plugin.core.live import Live
from topology_plugin.core.merge import merge
from topology_plugin.core.plan import Plan, Target
from topology_plugin.core.settings import Settings, unknown_partitions
from topology_plugin.core.state import Counters, Owner, PassResult, State
from topology_plugin.core.topology import FLAT_ONLY, Configuration
from topology_plugin.core.versions import Support, support


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
    """A pass up to the point where it would act. `generation`: to be kept, still without its facts; `passive`: another
    controller acts; `answered`: slurmctld did, None if it was not asked."""

    disk: Disk
    observation: Observation
    state: State
    target: Target
    plan: Plan
    generation: Generation | None
    diff: Diff
    notes: tuple[str, ...] = ()
    passive: bool = False
    answered: bool | None = None


@dataclass(frozen=True)
class Thinker:
    """`doors` are of this one pass. Writes nothing."""

    settings: Settings
    doors: Doors
    observer: Observer
    writer: Writer

    def think(self, wish: Wish, turn: Turn | None = None) -> Thought:
        """Everything up to acting; writes nothing. `turn` None: it will not act, so nobody is asked who may."""
        doors = self.doors
        try:
            disk = doors.live.disk()
        except OSError as error:
            where = error.filename or "topology.yaml or topology.conf"
            raise PassError(f"{where} cannot be read: {error.strerror or error}") from None
        must_be_complete(disk.conf)
        former = self.former()
        current = doors.generations.current()
        loaded = None if wish.offline else doors.slurm.nodes()
        memory = former.decision.memory if former else self._remembered(current)
        arn = former.cluster_arn if former else None
        must_list_something(disk.conf, bool(memory.identities) or bool(loaded))
        observation = self.observer.look(disk.conf, loaded, memory, ask=wish.ask and not wish.offline, known_arn=arn)
        if observation.blind and not memory.identities:
            raise InputError(observation.documents.issues)
        slurm = self._support(disk)
        decision = merge(observation.inventory, self.settings, observation.memory, classic=doors.classic)
        hold = ownership.on_hold(doors)
        in_force = self._in_force(disk, current, wish)
        notes = [*slurm.notes, *observation.notes]
        if hold is not None:
            decision = self._held(decision, disk, in_force, observation)
            notes.append(holding.told(hold))
        owner = ownership.owner(self.settings, doors, disk, observation.documents.agent, adopt=wish.adopt)
        other = self._other_writer(turn, disk, wish)
        owner = Owner("another controller", other, writes=False) if other else owner
        wanted = target.of_configuration(
            decision.configuration,
            disk,
            doors.classic,
            conf_ours=self._ours(disk.topology_conf),
            yaml_ours=self._ours(disk.topology_yaml),
        )
        state = self._state(disk, observation, decision, former, in_force, owner, hold, slurm, current, arn)
        generation = self._generation(state, wanted, current, observation)
        plan = self._plan(disk, wanted, generation, in_force, wish)
        if loaded is None and not wish.offline:
            then = ": taken as in force is what the last generation put there" if in_force is not None else ""
            notes.append(f"slurmctld does not answer{then}")
        jobs = () if wish.offline or not plan else Live.parse((), doors.slurm.jobs()).jobs
        diff = compare(state, jobs)
        answered = None if wish.offline else loaded is not None
        return Thought(disk, observation, state, wanted, plan, generation, diff, tuple(notes), bool(other), answered)

    def _other_writer(self, turn: Turn | None, disk: Disk, wish: Wish) -> str:
        if turn is None:
            return ""
        hosts = disk.conf.parameters.get("slurmctldhost", "")
        return self.writer.other(turn, hosts, None if wish.offline else self.doors.slurm)

    def former(self) -> State | None:
        data = self.doors.generations.load_state()
        if data is None:
            return None
        with contextlib.suppress(InputError):
            return state_json.load(data)
        return None

    def _remembered(self, current: Generation | None) -> Memory:
        """What the current generation still tells when state.json is lost."""
        return memory_of(self.doors.generations.get(current.number) if current is not None else None)

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
                    return Configuration(topology_yaml.parse(shown, where="topoconf").topologies, words)
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
        most = self.settings.max_unplaced_leaves
        return replace(decision, configuration=holding.held(kept, observation.inventory, most))

    def _ours(self, text: bytes | None) -> bool:
        return text is not None and self.doors.generations.ours_text(text)

    def _state(
        self,
        disk: Disk,
        observation: Observation,
        decision: Decision,
        former: State | None,
        in_force: Configuration | None,
        owner: Owner,
        hold: str | None,
        slurm: Support,
        current: Generation | None,
        known_arn: str | None,
    ) -> State:
        config = observation.documents.config
        optional = job_sizes.topo_optional(disk.conf.parameters.get("topologyparam"))
        unknown = unknown_partitions(self.settings, observation.inventory.partitions)
        refused = {
            t.name: ranges
            for t in decision.configuration.topologies
            if (ranges := job_sizes.refused(t, tuple(t.body.nodes()), optional))
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
            hold=hold is not None,
            hold_note=hold or "",
            adopted=ownership.adopted(self.doors),
            topo_optional=optional,
            counters=former.counters if former else Counters(),
            notes=(*slurm.notes, *observation.notes, *unknown, *decision.notes),
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
                "time": self.doors.clock.now(),
                "by": "merge",
            },
        )
        if current is not None and current.same_content(made):
            return None
        begun = generations.begun()
        return replace(made, number=begun.number) if begun is not None and begun.same_content(made) else made

    def _plan(
        self, disk: Disk, wanted: Target, generation: Generation | None, in_force: Configuration | None, wish: Wish
    ) -> Plan:
        unlike = None if wish.offline else differences(self.doors, wanted, {**disk.words, **wanted.words})
        return planning.plan(
            disk,
            wanted,
            number=generation.number if generation else None,
            reconfigure=not wish.offline,
            loaded_differs=bool(unlike),
            classic=self.doors.classic,
        )
