"""Apply: the one executor of plans, for merge, rollback and uninstall. It ends with the new configuration in force and
read back, or with the former one, on disk and in force, and an error that says why in slurmctld's words."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.controller import Controller, LogMark
from topology_plugin.adapters.files import FileError
from topology_plugin.adapters.generations import JOBS, Generations
from topology_plugin.adapters.live_files import Interfered, LiveFiles
from topology_plugin.adapters.pass_lock import PassLock
from topology_plugin.adapters.slurm import Answer, Slurm
from topology_plugin.app.loaded import Loaded, await_loaded, differences
from topology_plugin.app.mending import mended
from topology_plugin.core import held_jobs, target
from topology_plugin.core import plan as planning
from topology_plugin.core.disk import Check, Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.held_jobs import HeldJobs
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.plan import FileStep, Plan, Target


@dataclass(frozen=True)
class Doors:
    """`check`: what of a Disk slurmctld would die of (none: healthy). `classic`: Slurm up to 24.11. `writing`: a turn
    as the cluster's one writer; None: this machine's lock is enough."""

    live: LiveFiles
    slurm: Slurm
    clock: Clock
    generations: Generations
    controller: Controller
    check: Check
    classic: bool = False
    say: Callable[[str], None] = field(default=lambda sentence: None)
    writing: Callable[[], AbstractContextManager[object]] | None = None

    def one_writer(self) -> AbstractContextManager[object]:
        """`with doors.one_writer(): …` for a command that writes. Raises PassError while another one does."""
        return self.writing() if self.writing is not None else PassLock(self.generations.state_dir)

    def tidy(self) -> None:
        """Temporary files of killed runs go, half-told notes are told; once each pass, while the pass lock is held."""
        for directory in self.live.directories():
            self.live.files.sweep(directory)
        self.generations.tidy()


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
            self._note_jobs()
        try:
            for step in self.plan.steps:
                self._perform(step)
        except _Failed as failed:
            raise self._undo(failed) from None
        notes = self._finish()
        held, released = settle_jobs(doors, release=self.reconfigured)
        return Applied(self.kept, self.reconfigured, self.seconds, held, released, notes)

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
        except OSError as error:
            raise _Failed("read", str(error)) from None
        except Interfered as error:
            raise _Failed("interfered", str(error)) from None
        except InputError as error:
            raise _Failed("slurm-conf", f"slurm.conf became unreadable in between: {error}") from None

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
        unlike = await_loaded(self._loaded(), wanted, self.words, patient=self.unsure)
        self.seconds += clock.monotonic() - begin
        if unlike is not None:
            raise _Failed(unlike.code, self._with_log(unlike.what))

    def _with_log(self, what: str) -> str:
        log = self.doors.controller.log_words(self.log)
        return f"{what}; slurmctld says: {log}" if log else what

    def _loaded(self) -> Loaded:
        return Loaded(self.doors.slurm, self.doors.clock, self.doors.controller, self.doors.classic)

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

    # --- jobs ---

    def _note_jobs(self) -> None:
        """Before the change, so that a killed pass still tells which jobs it got held."""
        answer = self.doors.slurm.run(*held_jobs.ASK)
        if not answer.ok:
            return
        known = HeldJobs.from_json(self.doors.generations.note(JOBS))
        pending = held_jobs.parse(answer.out)
        jobs = known.seen(pending).before_change(pending)
        if jobs != known:
            with contextlib.suppress(FileError):
                self.doors.generations.save_note(JOBS, jobs.to_json())

    # --- undo ---

    def _undo(self, failed: _Failed) -> ApplyFailed:
        notes: list[str] = []
        undone = True
        if self.touched:
            try:
                notes.append(self._files_back())
                if self.reconfigured and not self.refused:
                    notes.append(self._reconfigure_back())
            except (OSError, InputError, Interfered) as error:
                undone = False
                notes.append(f"the files could not be put back: {error}")
            except _Failed as again:
                undone = False
                notes.append(f"the former configuration is on disk but not in force: {again}")
        if undone and self.kept is not None:
            with contextlib.suppress(FileError):
                self.doors.generations.drop(self.kept)
        if self.reconfigured:
            settle_jobs(self.doors, release=True)
        more = "; ".join(note for note in notes if note)
        return ApplyFailed(failed.code, f"{failed}; {more or 'nothing was changed'}", undone, self.reconfigured)

    def _files_back(self) -> str:
        """Our changes only, in the files as they are now."""
        doors = self.doors
        now = doors.live.disk()
        if doors.check(self.before):
            wanted, what = mended(now, doors.generations, doors.check, doors.classic)
        elif self.resumed and (good := self._current(now)) is not None:
            wanted, what = good, "the last good generation"
        else:
            wanted, what = self._former(now), "the former files"
        back = planning.plan(now, wanted, reconfigure=False, classic=doors.classic)
        self._remember_passing(back)
        for step in back.file_steps:
            doors.live.perform(step)
        return f"{what}: back on disk" if back else ""

    def _current(self, now: Disk) -> Target | None:
        """A killed pass left the former files halfway to a begun generation: then the current one is the measure."""
        current = self.doors.generations.current()
        wanted = target.of_generation(current, now, self.doors.classic) if current is not None else None
        if wanted is None or self.doors.check(target.in_place(now, wanted, self.doors.classic)):
            return None
        return wanted

    def _former(self, now: Disk) -> Target:
        before, wanted = self.before, self.plan.target
        if wanted is None:
            raise AssertionError("a plan that touches files has a target")
        ours = {planning.digest(s.data) for s in self.plan.file_steps if isinstance(s, planning.WriteText)}

        def text(now_: bytes | None, then: bytes | None, new: bytes | None) -> bytes | None:
            """What we wrote or removed goes back; what someone else put there since stays."""
            written = now_ is not None and planning.digest(now_) in ours
            return then if written or (now_ is None and new is None) else now_

        words = {
            partition: before.words[partition]
            for partition, word in now.words.items()
            if partition in before.words and word != before.words[partition] and wanted.words.get(partition) == word
        }
        plugin = None
        if now.plugin != before.plugin and now.plugin in (wanted.plugin, planning.NO_PLUGIN):
            plugin = before.plugin or planning.NO_LINE
        return Target(
            text(now.topology_yaml, before.topology_yaml, wanted.topology_yaml),
            text(now.topology_conf, before.topology_conf, wanted.topology_conf),
            words,
            plugin,
            restore=before.conf,
        )

    def _reconfigure_back(self) -> str:
        """Once more, unless slurmctld runs the former configuration anyway."""
        doors = self.doors
        now = doors.live.disk()
        former = Target(now.topology_yaml, now.topology_conf, {}, now.plugin, now.configuration())
        found = differences(self._loaded(), former, now.words)
        if found == []:
            return ""
        if found is None and doors.controller.running() is False:
            return "slurmctld is not running and will start with them"
        answer = doors.slurm.reconfigure()
        if not answer.ok and not no_verdict(answer):
            raise _Failed("undo", f"slurmctld does not take it up: {answer.words}")
        unlike = await_loaded(self._loaded(), former, now.words, patient=no_verdict(answer))
        if unlike is not None:
            raise _Failed("undo", unlike.what)
        return "slurmctld runs the former configuration again"


def _passing(plan: Plan) -> tuple[str, ...]:
    texts = (step for step in plan.file_steps if isinstance(step, planning.WriteText) and step.passing)
    return tuple(planning.digest(step.data) for step in texts)


def no_verdict(answer: Answer) -> bool:
    """scontrol gave up waiting: that says nothing about the reconfigure (it waits MessageTimeout, 10 s)."""
    return answer.timed_out or (answer.code is not None and not answer.ok and "timed out" in answer.words.lower())


def settle_jobs(doors: Doors, release: bool = False) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """(ids of the jobs that Slurm holds because of us, ids just released). Once each pass, and after every change.

    `release`: the configuration in force changed, so those jobs get another chance; what can still never run is held
    by Slurm again, and stays remembered.
    """
    known = HeldJobs.from_json(doors.generations.note(JOBS))
    if not known.candidates and not known.held:
        return (), ()
    answer = doors.slurm.run(*held_jobs.ASK)
    if not answer.ok:
        return tuple(sorted(known.held)), ()
    pending = held_jobs.parse(answer.out)
    jobs = known.seen(pending)
    released: list[int] = []
    for job in pending if release else ():
        if job.id in jobs.held and doors.slurm.run("scontrol", "release", job.shown).ok:
            released.append(job.id)
    jobs = HeldJobs(jobs.candidates | frozenset(released), jobs.held - frozenset(released))
    if jobs != known:
        with contextlib.suppress(FileError):
            doors.generations.save_note(JOBS, jobs.to_json())
    return tuple(sorted(jobs.held)), tuple(released)
