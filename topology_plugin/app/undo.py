"""The way back from a change that failed: our changes only, in the files as they are now, and in slurmctld."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from topology_plugin.app.doors import Doors
from topology_plugin.app.loaded import await_loaded, differences, no_verdict
from topology_plugin.app.mending import mended
from topology_plugin.core import plan as planning
from topology_plugin.core import target
from topology_plugin.core.disk import Disk
from topology_plugin.core.plan import Plan, Target


class NotBack(Exception):
    """The former configuration is on disk, but slurmctld did not take it up."""


@dataclass(frozen=True)
class Undo:
    """Of `plan`, which was made from `before`. `resumed`: `before` was what a killed pass had left."""

    doors: Doors
    before: Disk
    plan: Plan
    resumed: bool

    def files_back(self, remember: Callable[[Plan], None]) -> str:
        """Our changes only, in the files as they are now; what was put back, in words.

        `remember`: called with the way back before it is gone. Raises FileError, Interfered, InputError, OSError."""
        doors = self.doors
        now = doors.live.disk()
        if doors.check(self.before):
            wanted, what = mended(now, doors.generations, doors.check, doors.classic)
        elif self.resumed and (good := self._current(now)) is not None:
            wanted, what = good, "the last good generation"
        else:
            wanted, what = self._former(now), "the former files"
        back = planning.plan(now, wanted, reconfigure=False, classic=doors.classic)
        remember(back)
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

    def in_force_back(self) -> str:
        """One reconfigure more, unless slurmctld runs the former configuration anyway. Raises NotBack."""
        doors = self.doors
        now = doors.live.disk()
        former = Target(now.topology_yaml, now.topology_conf, {}, now.plugin, now.configuration())
        found = differences(doors, former, now.words)
        compared = doors.classic or former.configuration is not None  # without a topology.yaml the words alone were
        if found == [] and compared:
            return ""
        if found is None and doors.controller.running() is False:
            return "slurmctld is not running and will start with them"
        answer = doors.slurm.reconfigure()
        if not answer.ok and not no_verdict(answer):
            raise NotBack(f"slurmctld does not take it up: {answer.words}")
        unlike = await_loaded(doors, former, now.words, patient=no_verdict(answer))
        if unlike is not None:
            raise NotBack(unlike.what)
        return "slurmctld runs the former configuration again"
