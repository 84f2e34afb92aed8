"""Slurm's rules and the rehearsal, put to the files and thoughts of a pass."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topology_plugin.adapters.slurm import Slurm
from topology_plugin.app.doors import Doors
from topology_plugin.core import target, topology_yaml
from topology_plugin.core.disk import Disk
from topology_plugin.core.issues import Issue
from topology_plugin.core.live import Job, Live
from topology_plugin.core.rules import Finding, Numbers
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import State
from topology_plugin.core.stock import dynamic_nodes
from topology_plugin.core.topology import Configuration
from topology_plugin.core.validation import check_configuration, check_files, refusing, saved_words, unhealthy

if TYPE_CHECKING:  # most passes change nothing, and rehearse nothing
    from topology_plugin.adapters.rehearsal import Outcome, Rehearsal
    from topology_plugin.app.thought import Thought
    from topology_plugin.core.stage import Scene, Stage

Dynamic = Sequence[tuple[str, Sequence[str]]]


def issues(findings: Iterable[Finding]) -> list[Issue]:
    """For people: where, what (with the rule's name), remedy."""
    return [Issue(finding.where, f"{finding.what} [{finding.rule}]", finding.remedy) for finding in findings]


def deadly(disk: Disk, version: Numbers | None) -> list[Issue]:
    """What of these files slurmctld would die of, or take no job for."""
    return issues(unhealthy(check_files(disk.conf, disk.topology_yaml, disk.topology_conf, version)))


def faults(
    configuration: Configuration,
    after: Disk,
    version: Numbers | None,
    dynamic: Dynamic = (),
    nodes: Iterable[Mapping[str, Any]] | None = None,
) -> list[Issue]:
    """Why `configuration` is not to be published at all. `nodes`: slurmctld's, None where it does not answer."""
    saved = saved_words(nodes or ())
    return issues(refusing(check_configuration(configuration, after.conf, version, dynamic, saved)))


@dataclass(frozen=True)
class Judge:
    """The rules and the rehearsal of the installed Slurm, as the settings want them. `slurm_bin` None: not found."""

    settings: Settings
    slurm: Slurm
    slurm_bin: Path | None

    @property
    def numbers(self) -> Numbers | None:
        """(26, 5, 5) of the installed Slurm, asked anew as an upgrade may come any time; None: it can't tell."""
        version = self.slurm.version()
        return None if version is None else version.numbers

    def deadly(self, disk: Disk) -> list[Issue]:
        """What slurmctld would die of if it started from these files."""
        return deadly(disk, self.numbers)

    def faults(self, configuration: Configuration, after: Disk, doors: Doors, offline: bool = False) -> list[Issue]:
        """What is refused beyond that: nodes of a partition that no topology covers, and the like. `offline`: Slurm is
        not asked for dynamic nodes and words that its nodes keep."""
        loaded = [] if offline else doors.slurm.nodes() or []
        dynamic = [(str(n["name"]), tuple(n.get("features") or ())) for n in dynamic_nodes(after.conf, loaded)]
        return faults(configuration, after, self.numbers, dynamic, loaded)

    def rehearsal(self, doors: Doors) -> Callable[[Thought], str] | None:
        """Starts the installed slurmctld with what a pass would publish; the answer says what is wrong with it.

        None: not wanted, or (`auto`) not possible here."""
        if self.settings.rehearse == "never":
            return None
        from topology_plugin.adapters.rehearsal import NamespaceRehearsal

        rehearsal = NamespaceRehearsal(self.slurm_bin)
        if (reason := rehearsal.available()) is not None:
            return None if self.settings.rehearse == "auto" else lambda thought: f"rehearse is always, but {reason}"
        rehearser = Rehearser(rehearsal, self.numbers, doors.say)

        def problem(thought: Thought) -> str:
            after = target.in_place(thought.disk, thought.target, doors.classic)
            return rehearser.problem(thought.disk, after, thought.state, Live.parse((), doors.slurm.jobs()).jobs)

        return problem


def _known_dynamic(state: State) -> Dynamic:
    """Nodes that only slurmctld knows. Their features are not: a node set by feature does not take them in here."""
    return tuple((node.name, ()) for node in state.inventory.nodes.values() if node.dynamic)


@dataclass(frozen=True)
class Rehearser:
    """Asks the installed slurmctld about a change before it is made."""

    rehearsal: Rehearsal
    version: Numbers | None
    say: Callable[[str], None]

    def problem(self, disk: Disk, after: Disk, state: State, jobs: Iterable[Job]) -> str:
        """Why slurmctld would not start with `after`; "" if it does. Lost shapes of jobs are only said."""
        outcome = self.rehearsal.rehearse(self.stage(disk, after, state, jobs))
        if not outcome.started:
            return outcome.error
        self._tell(outcome)
        return ""

    def stage(self, disk: Disk, after: Disk, state: State, jobs: Iterable[Job]) -> Stage:
        from topology_plugin.core.stage import Stage, external, questions, scene

        dynamic = _known_dynamic(state)
        asked = questions(after.conf, state.in_force, state.desired, jobs)
        new = scene(after.conf, after.topology_yaml, after.topology_conf, self.version, dynamic=dynamic)
        return Stage(new, self._before(disk, state, dynamic), asked, external(self.version))

    def _before(self, disk: Disk, state: State, dynamic: Dynamic) -> Scene:
        """What is in force; where slurmctld could not tell, what is on disk."""
        from topology_plugin.core.stage import external, scene

        if state.in_force is None or not external(self.version):
            return scene(disk.conf, disk.topology_yaml, disk.topology_conf, self.version, dynamic=dynamic)
        text = topology_yaml.render(state.in_force).encode()
        return scene(disk.conf, text, None, self.version, words=state.in_force.words, dynamic=dynamic)

    def _tell(self, outcome: Outcome) -> None:
        asked = f"{len(outcome.answers)} questions in {outcome.seconds:.1f} s"
        self.say(
            f"the rehearsal's slurmctld starts ({asked})" if outcome.answers else "the rehearsal's slurmctld starts"
        )
        for question in outcome.lost:
            self.say(f"no longer possible afterwards: sbatch {question}")
        for note in outcome.notes:
            self.say(note)
