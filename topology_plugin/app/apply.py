"""Apply: the one executor of plans, for merge, rollback and uninstall. It ends with the new configuration in force and
read back, or with the former one, on disk and in force, and an error that says why in slurmctld's words."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from topology_plugin.adapters.controller import LogMark
from topology_plugin.adapters.files import FileError
from topology_plugin.adapters.live_files import Interfered
from topology_plugin.app.doors import Doors
from topology_plugin.app.held import note_jobs, settle_jobs
from topology_plugin.app.loaded import await_loaded, no_verdict
from topology_plugin.app.undo import NotBack, Undo
from topology_plugin.core import plan as planning
from topology_plugin.core.disk import Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.held_jobs import concerned
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.plan import FileStep, Plan
from topology_plugin.core.rules_conf import keeps_words


@dataclass(frozen=True)
class Applied:
    """`number`: the generation now current (None: none was made); `seconds`: what the reconfigure took; `held`: jobs
    that Slurm holds because of changes of ours, `released`: those released just now."""

    number: int | None = None
    reconfigured: bool = False
    seconds: float = 0.0
    held: tuple[int, ...] = ()
    released: tuple[int, ...] = ()
    notes: tuple[str, ...] = ()


class ApplyFailed(PassError):
    """`code`: a short stable word for what failed (metrics label); `undone`: the former state is on disk and in force;
    `reconfigured`: slurmctld was reconfigured on the way."""

    def __init__(self, code: str, message: str, undone: bool = True, reconfigured: bool = False) -> None:
        super().__init__(message)
        self.code, self.undone, self.reconfigured = code, undone, reconfigured


class _Failed(Exception):
    def __init__(self, code: str, what: str) -> None:
        super().__init__(what)
        self.code = code


def execute(
    doors: Doors, disk: Disk, plan: Plan, generation: Generation | None = None, *, rehearsed: bool = False
) -> Applied:
    """Perform `plan`, which was made from `disk`, keeping `generation` if the plan has such a step.

    The caller holds the pass lock, and has validated (and, where it can, rehearsed) the plan. Raises ApplyFailed.
    """
    return _Run(doors, disk, plan, generation, rehearsed).run()


@dataclass
class _Run:
    doors: Doors
    before: Disk
    plan: Plan
    generation: Generation | None
    rehearsed: bool
    touched: bool = False
    kept: int | None = None
    resumed: bool = False
    reconfigured: bool = False
    unsure: bool = False
    refused: bool = False
    seconds: float = 0.0
    words: Mapping[str, str | None] = field(default_factory=dict)
    log: LogMark = field(default_factory=lambda: LogMark(None))

    def run(self) -> Applied:
        doors = self.doors
        self._refuse_foreground()
        doors.tidy()
        self.resumed = doors.generations.begun() is not None
        if self._reconfigures:
            self.log = doors.controller.log_mark(self.before.conf.parameters.get("slurmctldlogfile"))
            note_jobs(doors, self._concerned())
        try:
            for step in self.plan.steps:
                self._perform(step)
        except _Failed as failed:
            raise self._undo(failed) from None
        except (OSError, InputError) as error:
            raise self._undo(_Failed("read", f"slurm.conf became unreadable in between: {error}")) from None
        notes = self._finish()
        held, released = settle_jobs(doors, release=self.reconfigured)
        return Applied(self.kept, self.reconfigured, self.seconds, held, released, notes)

    def _concerned(self) -> frozenset[str]:
        """The partitions whose jobs get another topology."""
        after = self.plan.target.configuration if self.plan.target else None
        if self.doors.classic or self.plan.target is None or after is None:
            return frozenset(self.before.words)
        before = self.before.configuration()
        words = {**self.before.words, **self.plan.target.words}
        return concerned(before, replace(after, words=words), self.before.words)

    @property
    def _reconfigures(self) -> bool:
        return any(isinstance(step, planning.Reconfigure) for step in self.plan.steps)

    def _refuse_foreground(self) -> None:
        if self._reconfigures and not self.rehearsed and self.doors.controller.foreground():
            what = "slurmctld runs under plain -D, where a failed reconfigure ends it, and the change was not rehearsed"
            raise ApplyFailed("foreground", f"{what} (set rehearse to auto or always, or start slurmctld --systemd)")

    def _perform(self, step: planning.Step) -> None:
        match step:
            case planning.KeepGeneration(number):
                self._keep(number)
            case planning.Reconfigure():
                self._reconfigure()
            case planning.ReadBack():
                self._read_back()
            case planning.MoveCurrent():
                pass  # after the last step that can fail: a note that cannot be written undoes nothing (_finish)
            case _:
                self._change(step)

    def _keep(self, number: int) -> None:
        if self.generation is None or self.generation.number != number:
            raise AssertionError(f"the plan keeps generation {number}, which was not given")
        known = self.doors.generations.begun()
        passing = known.passing if known is not None and known.number == number else ()
        self.generation = replace(self.generation, passing=(*passing, *_passing(self.plan)), meta=self._meta())
        self.kept = number
        try:
            self.doors.generations.keep(self.generation)
        except FileError as error:
            raise _Failed("keep", f"generation {number} cannot be kept: {error.strerror}") from None

    def _meta(self) -> dict[str, Any]:
        """With the value that TopologyPlugin had before us (None: no line), for the day we are uninstalled."""
        meta = dict(self.generation.meta) if self.generation else {}
        current = self.doors.generations.current()
        known = current.meta if current is not None else {}
        if self.doors.classic or "plugin_before" in known:
            meta["plugin_before"] = known.get("plugin_before", self.before.plugin)
        return meta

    def _remember_passing(self, back: Plan) -> None:
        """A kill on the way back must not leave a text that nobody knows as ours."""
        if self.generation is not None and self.kept is not None and (passing := _passing(back)):
            with contextlib.suppress(FileError):
                self.doors.generations.keep(replace(self.generation, passing=(*self.generation.passing, *passing)))

    def _change(self, step: FileStep) -> None:
        self.doors.say(planning.sentence(step))
        try:
            self.touched = True
            self.doors.live.perform(step)
        except FileError as error:
            raise _Failed("write", str(error.strerror)) from None
        except Interfered as error:
            raise _Failed("interfered", str(error)) from None

    def _reconfigure(self) -> None:
        doors = self.doors
        doors.say("scontrol reconfigure")
        self.words = doors.live.disk().words
        begin = doors.clock.monotonic()
        answer = doors.slurm.reconfigure()
        self.seconds = doors.clock.monotonic() - begin
        self.unsure = no_verdict(answer)
        self.reconfigured = answer.code is not None or self.unsure
        if answer.ok or self.unsure:
            return
        self.refused = True  # slurmctld goes on with what it had loaded
        if answer.code is None:
            raise _Failed("scontrol", answer.words)
        raise _Failed("reconfigure", self._with_log(f"slurmctld did not take up the new configuration: {answer.words}"))

    def _read_back(self) -> None:
        wanted = self.plan.target
        if wanted is None:
            return
        clock = self.doors.clock
        begin = clock.monotonic()
        unlike = await_loaded(self.doors, wanted, self.words, patient=self.unsure)
        self.seconds += clock.monotonic() - begin
        if unlike is not None:
            keeps = unlike.code == "read-back" and keeps_words(self.before.conf)
            why = " (ReconfigFlags=KeepPartInfo: partitions keep the word they had; take it out)" if keeps else ""
            raise _Failed(unlike.code, self._with_log(unlike.what + why))

    def _with_log(self, what: str) -> str:
        log = self.doors.controller.log_words(self.log)
        return f"{what}; slurmctld says: {log}" if log else what

    def _finish(self) -> tuple[str, ...]:
        if self.kept is None:
            self.doors.generations.drop_begun()
            return ()
        try:
            self.doors.generations.finish(self.kept, self.doors.clock.now())
        except FileError as error:
            # In force and read back: taking it back would help nobody. The next pass finds it begun and finishes it.
            return (f"generation {self.kept} is in force but could not be noted as current: {error.strerror}",)
        return ()

    def _undo(self, failed: _Failed) -> ApplyFailed:
        notes: list[str] = []
        undone = True
        undo = Undo(self.doors, self.before, self.plan, self.resumed)
        if self.touched:
            try:
                notes.append(undo.files_back(self._remember_passing))
                if self.reconfigured and not self.refused:
                    notes.append(undo.in_force_back())
            except (OSError, InputError, Interfered) as error:
                undone = False
                notes.append(f"the files could not be put back: {error}")
            except NotBack as error:
                undone = False
                notes.append(f"the former configuration is on disk but not in force: {error}")
        if undone and self.kept is not None:
            with contextlib.suppress(FileError):
                self.doors.generations.drop(self.kept)
        if self.reconfigured:
            settle_jobs(self.doors, release=True)
        more = "; ".join(note for note in notes if note)
        return ApplyFailed(failed.code, f"{failed}; {more or 'nothing was changed'}", undone, self.reconfigured)


def _passing(plan: Plan) -> tuple[str, ...]:
    texts = (step for step in plan.file_steps if isinstance(step, planning.WriteText) and step.passing)
    return tuple(planning.digest(step.data) for step in texts)
