"""An earlier generation in force again: validated, rehearsed, verified and undone like any change; then a hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from topology_plugin.adapters.notes import HOLD
from topology_plugin.app import ownership
from topology_plugin.app.apply import Applied, ApplyFailed, execute
from topology_plugin.app.doors import Doors
from topology_plugin.app.loaded import differences
from topology_plugin.app.observation import must_be_complete
from topology_plugin.app.reconcile import Wish
from topology_plugin.core import plan as planning
from topology_plugin.core import target
from topology_plugin.core.disk import DEFAULT_LINE, Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.holding import held
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.plan import Plan, Target
from topology_plugin.core.resource_config import WrongOrchestrator
from topology_plugin.core.topology import Configuration

if TYPE_CHECKING:
    from topology_plugin.app.wiring import Wiring

Complete = Callable[[Configuration, Disk], Configuration]
"""An old configuration for today's nodes: joiners added as unplaced, nodes that are gone left out."""
Faults = Callable[[Configuration, Disk], list[Issue]]
"""What is refused: nodes that no topology covers, and the like."""
Rehearsal = Callable[[Configuration, Target, Disk], str]
"""What the installed slurmctld has against it; "": nothing."""


@dataclass(frozen=True)
class RolledBack:
    """`of`: the generation whose content is in force again; `applied` None: only planned (`--dry-run`). `answered`:
    slurmctld did, else only of the files anything can be said."""

    of: int
    plan: Plan
    applied: Applied | None = None
    notes: tuple[str, ...] = ()
    answered: bool = True


@dataclass(frozen=True)
class Rollback:
    """A rollback's doors. `rehearsal` None: none is wanted or possible."""

    doors: Doors
    complete: Complete
    faults: Faults
    rehearsal: Rehearsal | None = None

    @classmethod
    def of(cls, wiring: Wiring, say: Callable[[str], None]) -> Rollback:
        """With today's inventory. Where that cannot be had (no resource_config.json, no memory), the generation is
        taken as it is: validation says if it no longer fits."""
        reconciler = wiring.reconciler(say)
        doors, judge = reconciler.doors, wiring.judge

        def faults(configuration: Configuration, after: Disk) -> list[Issue]:
            return judge.faults(configuration, after, doors)

        try:
            thought = reconciler.think(Wish(dry_run=True))
        except WrongOrchestrator:
            raise
        except InputError as error:
            say(f"joiners cannot be told from the files: {error}")
            return cls(doors, lambda configuration, disk: configuration, faults)
        ask = judge.rehearsal(doors)

        def rehearse(configuration: Configuration, wanted: Target, disk: Disk) -> str:
            decision = replace(thought.state.decision, configuration=configuration)
            state = replace(thought.state, decision=decision)
            return ask(replace(thought, disk=disk, target=wanted, state=state)) if ask else ""

        inventory, most = thought.observation.inventory, wiring.settings.max_unplaced_leaves
        return cls(
            doors,
            lambda configuration, disk: held(configuration, inventory, most),
            faults,
            rehearse if ask else None,
        )

    def run(self, number: int | None, *, dry_run: bool = False) -> RolledBack:
        """Put generation `number` in force again, as a new generation that says of which it is, and hold.

        Raises InputError for a number or an Include that is not there, ApplyFailed with the former state kept.
        """
        if not dry_run:
            with self.doors.one_writer():
                return self._act(number)
        disk = self.doors.live.disk()
        of, wanted, _ = self._wanted(number, disk)
        plan, answered = _plan(self.doors, disk, wanted, None)
        return RolledBack(of.number, plan, answered=answered)

    def _act(self, number: int | None) -> RolledBack:
        doors = self.doors
        disk = doors.live.disk()
        of, wanted, configuration = self._wanted(number, disk)
        after = target.in_place(disk, wanted, doors.classic)
        wrong = [*doors.check(after), *(self.faults(configuration, after) if configuration else ())]
        if wrong:
            raise ApplyFailed("validation", f"generation {of.number} no longer fits: {'; '.join(map(str, wrong[:5]))}")
        problem = self.rehearsal(configuration, wanted, disk) if self.rehearsal and configuration else ""
        if problem:
            raise ApplyFailed("rehearsal", f"the rehearsal refused generation {of.number}: {problem}")
        made = _generation(doors, of, wanted)
        plan, answered = _plan(doors, disk, wanted, made)
        # Before the change: a `watch` that is killed or restarted in between must not put the newer one back.
        earlier = doors.generations.note(HOLD)
        ownership.hold(doors, f"to generation {of.number}", by="rollback")
        try:
            applied = execute(doors, disk, plan, made, rehearsed=self.rehearsal is not None)
        except ApplyFailed:
            if earlier is None:
                doors.generations.remove_note(HOLD)
            else:
                doors.generations.save_note(HOLD, earlier)
            raise
        return RolledBack(of.number, plan, applied, applied.notes, answered)

    def _wanted(self, number: int | None, disk: Disk) -> tuple[Generation, Target, Configuration | None]:
        doors = self.doors
        must_be_complete(disk.conf)
        of = choose(doors, number)
        wanted = target.of_generation(of, disk, doors.classic)
        if wanted is None:
            what = f"generation {of.number} was made for another side of Slurm 25.05 and cannot be put in force here"
            raise InputError(Issue("rollback", what, "choose another, see `history`"))
        if wanted.configuration is None or doors.classic:
            return of, wanted, wanted.configuration
        configuration = self.complete(wanted.configuration, disk)
        if configuration != wanted.configuration:
            wanted = target.of_configuration(configuration, disk)
        return of, wanted, configuration


def choose(doors: Doors, number: int | None) -> Generation:
    """The generation asked for; None: the newest finished one that differs from the current. Raises InputError."""
    finished = doors.generations.finished()
    known = ", ".join(str(generation.number) for generation in finished) or "none"
    if number is not None:
        found = doors.generations.get(number)
        if found is None or not found.finished:
            raise InputError(
                Issue("rollback", f"there is no generation {number} that was in force", f"kept are {known}")
            )
        return found
    current = doors.generations.current()
    for generation in reversed(finished):
        if current is not None and not generation.same_content(current):
            return doors.generations.get(generation.number) or generation
    raise InputError(Issue("rollback", "there is no earlier generation", f"kept are {known}"))


def _generation(doors: Doors, of: Generation, wanted: Target) -> Generation | None:
    """None if the current one is just that already (then only files or slurmctld have drifted)."""
    made = replace(
        of,
        number=doors.generations.next_number(),
        topology_yaml=wanted.topology_yaml,
        topology_conf=wanted.topology_conf if doors.classic else None,
        words={partition: word for partition, word in wanted.words.items() if partition != DEFAULT_LINE},
        meta={**of.meta, "time": doors.clock.now(), "by": "rollback", "of": of.number},
        passing=(),
        finished=False,
    )
    current = doors.generations.current()
    return None if current is not None and current.same_content(made) else made


def _plan(doors: Doors, disk: Disk, wanted: Target, made: Generation | None) -> tuple[Plan, bool]:
    """The plan, and whether slurmctld said what it has loaded."""
    differs = differences(doors, wanted, {**disk.words, **wanted.words})
    plan = planning.plan(
        disk,
        wanted,
        number=made.number if made is not None else None,
        loaded_differs=bool(differs),
        classic=doors.classic,
    )
    return plan, differs is not None
