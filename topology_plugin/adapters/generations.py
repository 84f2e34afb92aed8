"""The generations on disk, in the registry and a copy in state_dir.

    generations/<n>/{topology.yaml, partitions.json, facts.json, meta.json, finished}
    generations/current     the number of the newest finished one

A generation's directory appears at once and whole. `finished` is written after the read-back.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from topology_plugin.adapters.files import FileError, Files
from topology_plugin.adapters.notes import Notes
from topology_plugin.core import generation as form
from topology_plugin.core import topology_yaml
from topology_plugin.core.generation import Generation
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.topology import FLAT_ONLY

FINISHED, CURRENT, GENERATIONS = "finished", "current", "generations"
FLAT_TEXT = topology_yaml.render(FLAT_ONLY).encode()


class Generations(Notes):
    """And the notes beside them. `keep`: how many finished generations stay. `mounted`: says why a path is not on the
    shared file system, "" if it is; then a registry that no node made yet is made. None: it is never made here."""

    def __init__(
        self,
        files: Files,
        registry: Path | None,
        state_dir: Path,
        keep: int = 20,
        cluster_arn: str | None = None,
        mounted: Callable[[Path], str] | None = None,
    ) -> None:
        super().__init__(files, registry, state_dir)
        self.limit = keep
        self.cluster_arn = cluster_arn
        self.mounted = mounted
        self._known: list[Generation] | None = None

    def all(self) -> list[Generation]:
        """Ascending, one of each number; where registry and state_dir differ, the registry's. `facts` are empty."""
        found: dict[int, Generation] = {}
        for generation in self.everything():
            known = found.setdefault(generation.number, generation)
            if generation.finished and not known.finished and generation.same_content(known):
                found[generation.number] = generation  # one place could not be told
        return [found[number] for number in sorted(found)]

    def everything(self) -> list[Generation]:
        """Every complete generation, first those in the registry, then state_dir's; `issues`: what was left out."""
        if self._known is None:
            self.issues = []
            self._known = [generation for base in self.bases for generation in self._load(base)]
        return self._known

    def finished(self) -> list[Generation]:
        return [generation for generation in self.all() if generation.finished]

    def current(self) -> Generation | None:
        """The generation last put in force and read back: the highest finished one. `facts` are empty (see `get`): of a
        large cluster they are the largest file, and hardly ever asked for.

        A `current` that names a damaged one, or that one side did not get, does not count.
        """
        return next(reversed(self.finished()), None)

    def begun(self) -> Generation | None:
        """A generation newer than the current one that was kept but not finished: a killed or failed pass."""
        newest = next(reversed(self.all()), None)
        return newest if newest is not None and not newest.finished else None

    def get(self, number: int) -> Generation | None:
        """The generation with its facts."""
        known = next((generation for generation in self.all() if generation.number == number), None)
        if known is None:
            return None
        for base in self.bases:
            with contextlib.suppress(InputError, OSError):
                found = self._read(base / GENERATIONS / str(number), with_facts=True)
                if found.same_content(known):
                    return replace(found, finished=known.finished)
        return known

    def next_number(self) -> int:
        """Above every number that was ever used, damaged ones too."""
        return max((number for base in self.bases for number in self._numbers(base)), default=0) + 1

    def keep(self, generation: Generation) -> None:
        """Complete on disk in every place, before the first live file is touched. Raises FileError."""
        contents = form.dump(generation)
        self.files.make_directory(self.state_dir)
        self._make_registry()
        for base in self.bases:
            self.files.write_directory(base / GENERATIONS / str(generation.number), contents)
        self._known = None

    def _make_registry(self) -> None:
        """Generations are for everyone to read, also where labels say everything and no node has registered. Where it
        cannot be made, state_dir has them."""
        if self.registry is None or self.mounted is None or self.registry.is_dir() or self.mounted(self.registry):
            return
        with contextlib.suppress(FileError):
            self.files.make_directory(self.registry)

    def finish(self, number: int, time: float | None) -> None:
        """It was read back: make it the current one and let go of what is too old. `time` None: not known any more.

        Raises FileError."""
        self._known = None
        stamp = json.dumps({"time": time}).encode() + b"\n"
        failed: FileError | None = None
        for base in self.bases:
            if not (base / GENERATIONS / str(number)).is_dir():
                continue  # the registry came into being only now
            try:
                if not (base / GENERATIONS / str(number) / FINISHED).is_file():
                    self.files.write(base / GENERATIONS / str(number) / FINISHED, stamp)
                self.files.write(base / GENERATIONS / CURRENT, f"{number}\n".encode())
            except FileError as error:
                failed = error
        if failed is not None:
            raise failed
        self._prune(number)

    def drop(self, number: int) -> None:
        """A begun generation that was taken back completely."""
        self._known = None
        for base in self.bases:
            self.files.remove_directory(base / GENERATIONS / str(number))

    def drop_begun(self) -> None:
        """What a killed pass began and nobody wants any more, once the current one is in force and on disk again.

        What cannot be removed now goes another time."""
        while (begun := self.begun()) is not None:
            try:
                self.drop(begun.number)
            except FileError:
                return

    def ours_text(self, data: bytes) -> bool:
        """A live topology.yaml or topology.conf that any kept generation wrote, or what guard falls back to."""
        return data == FLAT_TEXT or any(generation.holds_text(data) for generation in self.everything())

    def ours_word(self, partition: str, word: str | None) -> bool:
        """A `Topology=` word that any kept generation put there."""
        return word is not None and any(g.words.get(partition) == word for g in self.everything())

    def ours_plugin(self, value: str | None) -> bool:
        """A value of TopologyPlugin that any kept generation put there."""
        return value is not None and any(generation.plugin == value for generation in self.everything())

    def tidy(self) -> None:
        """What killed runs left behind goes, and both places say the same of what is finished; the pass lock is held.

        What cannot be written now is tried again by the next pass."""
        for base in self.bases:
            for directory in (base, base / GENERATIONS, *(base / GENERATIONS / str(n) for n in self._numbers(base))):
                self.files.sweep(directory)
        current = self.current()
        if current is not None:
            with contextlib.suppress(FileError):
                self._copy(current)
        if current is not None and any(self._stale(base, current.number) for base in self.bases):
            with contextlib.suppress(FileError):
                self.finish(current.number, None)

    def _copy(self, current: Generation) -> None:
        """To every place that has none: a controller's disk that was imaged anew (guard has nothing but state_dir), or
        a registry that was away."""
        absent = [base for base in self.bases if not (base / GENERATIONS / str(current.number)).is_dir()]
        contents = form.dump(self.get(current.number) or current) if absent else {}
        for base in absent:
            self.files.make_directory(base)
            self.files.write_directory(base / GENERATIONS / str(current.number), contents)
            self._known = None

    def _stale(self, base: Path, number: int) -> bool:
        directory = base / GENERATIONS
        if not (directory / str(number)).is_dir():
            return False
        try:
            said = self.files.read(directory / CURRENT)
        except OSError:
            return True
        return said != f"{number}\n".encode() or not (directory / str(number) / FINISHED).is_file()

    def _load(self, base: Path) -> Iterator[Generation]:
        for number in self._numbers(base):
            directory = base / GENERATIONS / str(number)
            try:
                generation = self._read(directory, with_facts=False)
            except InputError as error:
                self.issues.extend(error.issues)
                continue
            except OSError as error:
                self.issues.append(
                    Issue(str(directory), f"cannot be read: {error.strerror or error}", "it is left out")
                )
                continue
            if self.cluster_arn and generation.cluster_arn and generation.cluster_arn != self.cluster_arn:
                self.issues.append(Issue(str(directory), "belongs to another cluster", "it is left out"))
                continue
            yield generation

    def _read(self, directory: Path, *, with_facts: bool) -> Generation:
        names = set(self.files.names(directory))
        wanted = {form.TOPOLOGY_YAML, form.TOPOLOGY_CONF, form.PARTITIONS, form.META}
        if with_facts:
            wanted.add(form.FACTS)
        contents = {name: self.files.read(directory / name) for name in sorted(names & wanted)}
        return form.load(contents, str(directory), FINISHED in names)

    def _numbers(self, base: Path) -> list[int]:
        try:
            names = self.files.names(base / GENERATIONS)
        except OSError as error:
            self.issues.append(Issue(str(base / GENERATIONS), f"cannot be read: {error.strerror or error}"))
            return []
        return sorted(int(name) for name in names if name.isascii() and name.isdigit() and name == str(int(name)))

    def _prune(self, current: int) -> None:
        """Begun ones below the current one are superseded; of the finished ones the newest stay. What cannot be removed
        now goes another time."""
        finished = [generation.number for generation in self.finished()]
        stay = set(finished[-self.limit :]) | {current}
        for base in self.bases:
            for number in self._numbers(base):
                if number < current and number not in stay:
                    with contextlib.suppress(FileError):
                        self.files.remove_directory(base / GENERATIONS / str(number))
        self._known = None
