"""The files slurmctld reads, as they are now, and one planned step on them at a time."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import itertools
import os
import stat
from collections.abc import Callable, Collection
from pathlib import Path, PurePosixPath

from topology_plugin.adapters.files import Changed, FileError, Files, Identity
from topology_plugin.core import plan as steps
from topology_plugin.core import slurm_conf
from topology_plugin.core.disk import Disk, decoded, encoded
from topology_plugin.core.plan import FileStep, TextFile

TOPOLOGY_FILES = ("topology.yaml", "topology.conf")
ATTEMPTS = 5  # of editing a file that someone else keeps writing


class Interfered(Exception):
    """Someone else wrote meanwhile what this step builds on. Nothing was changed by the step."""


class LiveFiles:
    """`conf`: slurm.conf as this machine names it (links and all: relative Includes and topology.yaml are beside the
    link). `where`: from such a path to the file, below `--root` if there is one."""

    def __init__(self, files: Files, conf: str, where: Callable[[str], Path] = Path) -> None:
        self.files, self.conf, self.where = files, conf, where
        self._identities: dict[str, Identity] = {}
        self._parsed: slurm_conf.SlurmConf | None = None

    @property
    def directory(self) -> Path:
        return self.where(str(PurePosixPath(self.conf).parent))

    def path(self, name: str) -> Path:
        """Where slurmctld looks for a file beside slurm.conf."""
        return self.where(str(PurePosixPath(self.conf).parent / name))

    def disk(self, without: Collection[str] = ()) -> Disk:
        """What stands there now. Raises InputError if slurm.conf cannot be read, OSError for the topology files, of
        which those in `without` count as missing."""
        seen: dict[str, Identity] = {}
        texts: dict[str, str | None] = {}

        def read(path: str) -> str | None:
            if path not in texts:
                texts[path] = self._text(path, seen)
            return texts[path]

        known = self._parsed
        if known is None or any(read(file.path) != file.text for file in known.files) or not known.complete:
            known = slurm_conf.parse(self.conf, read)
        self._identities, self._parsed = seen, known
        return Disk(known, *(None if name in without else self._bytes(name) for name in TOPOLOGY_FILES))

    def no_files(self) -> list[str]:
        """The topology files at whose place stands what is none: a directory, a pipe, a device, a link to one of them
        or to itself. (A link to nowhere is a missing file to slurmctld: run.)"""
        return [name for name in TOPOLOGY_FILES if self._no_file(name)]

    def put_aside(self, name: str) -> str:
        """Rename what is no file, beside itself; the new name. Raises FileError; it stands where it was then."""
        entry = self.directory / name
        names = (entry.with_name(f"{name}.not-a-file-{number}") for number in itertools.count(1))
        aside = next(path for path in names if not os.path.lexists(path))
        if not self._no_file(name):
            raise Interfered(f"{name} was changed by someone else in between")
        self.files.move(entry, aside)
        return aside.name

    def directories(self) -> list[Path]:
        """Every directory in which a step may leave a temporary file."""
        found = {
            self.directory,
            self.path("topology.yaml").resolve().parent,
            self.path("topology.conf").resolve().parent,
        }
        with contextlib.suppress(Exception):
            for file in self.disk().conf.files:
                found.add(self.where(file.path).resolve().parent)
        return sorted(found)

    def perform(self, step: FileStep) -> bool:
        """One step; False if what it wants stands there already. Raises FileError, Interfered, InputError."""
        if isinstance(step, steps.WriteText):
            return self._write(step)
        if isinstance(step, steps.RemoveText):
            return self._remove(step)
        for _ in range(ATTEMPTS):
            disk = self.disk()
            if isinstance(step, steps.SetWords):
                edits = disk.word_edits(step.words, step.restore)
                self._must_be_defined(disk, edits)
                edits = {step.path: edits[step.path]} if step.path in edits else {}
            else:
                edits = disk.plugin_edits(step.value)
            try:
                for path, text in edits.items():
                    self.files.write(self.where(path), encoded(text), expect=self._identities[path])
                return bool(edits)
            except Changed:
                continue  # once more, from what stands there now
        raise Interfered(f"{step.path} is being changed by someone else all the time")

    # --- steps ---

    def _write(self, step: steps.WriteText) -> bool:
        path = self.path(step.file)
        now = self.files.identity(path)
        if now is not None and now.sha256 == steps.digest(step.data):
            return False
        if (now.sha256 if now is not None else None) != step.former:
            raise Interfered(f"{step.file} was changed by someone else in between")
        if step.file == "topology.yaml":
            self._must_keep(step.data)
        model = self.where(self.conf)
        try:
            if now is not None:
                self.files.write(path, step.data, expect=now, owner_like=model)
            else:
                self._write_new(step.file, path, step.data, model)
        except Changed as changed:
            raise Interfered(str(changed)) from None
        return True

    def _write_new(self, name: str, path: Path, data: bytes, model: Path) -> None:
        """Where slurm.conf itself is a link (several controllers), a new file goes beside the real one, and a link to
        it beside the link."""
        beside = self.directory / PurePosixPath(self.conf).name
        entry = self.directory / name
        real = self.where(self.conf).resolve().parent / name
        if not beside.is_symlink() or entry.is_symlink() or real.parent == self.directory.resolve():
            self.files.write(path, data, owner_like=model)
            return
        hop = beside.readlink().parent
        places = (self.directory / hop, self.where(str(PurePosixPath(self.conf).parent / hop)))
        straight = any(place.resolve() == real.parent for place in places)
        self.files.write(real, data, owner_like=model)
        text = str(beside.readlink().with_name(name)) if straight else os.path.relpath(real, self.directory)
        self.files.link(text, entry)

    def _remove(self, step: steps.RemoveText) -> bool:
        entry = self.directory / step.file
        now = self.files.identity(self.path(step.file))
        if now is None:
            return False
        if now.sha256 != step.former:
            raise Interfered(f"{step.file} was changed by someone else in between")
        if step.file == "topology.yaml":
            self._must_keep(b"")
        real = self.path(step.file).resolve() if entry.is_symlink() else None
        self.files.remove(entry)
        if real is not None:
            self.files.remove(real)
        return True

    def _must_keep(self, data: bytes) -> None:
        """Words written in between may name a topology that is there now and would be gone."""
        disk = self.disk()
        lost = (disk.named - steps.defined_names(data)) & steps.defined_names(disk.topology_yaml)
        if lost:
            raise Interfered(f"a partition names {', '.join(sorted(lost))} since someone else changed slurm.conf")

    def _must_be_defined(self, disk: Disk, edits: dict[str, str]) -> None:
        defined = steps.defined_names(disk.topology_yaml)
        fresh = disk.with_texts(edits).named - disk.named
        if defined and fresh - defined:
            raise Interfered(f"topology.yaml lost {', '.join(sorted(fresh - defined))} since someone else changed it")

    # --- reading ---

    def _text(self, path: str, seen: dict[str, Identity]) -> str | None:
        place = self.where(path)
        for _ in range(ATTEMPTS):
            try:
                identity = self.files.identity(place)
                data = self.files.read(place)
            except OSError:
                return None
            if identity is not None and identity.sha256 == hashlib.sha256(data).hexdigest():
                seen[path] = identity
                return decoded(data)
        return None

    def _no_file(self, name: str) -> bool:
        try:
            return not stat.S_ISREG(self.path(name).stat().st_mode)
        except OSError as error:
            return error.errno == errno.ELOOP

    def _bytes(self, name: str) -> bytes | None:
        if self._no_file(name):  # a pipe would be waited for
            raise OSError(errno.EINVAL, "no file, but a directory, a pipe or a device", str(self.path(name)))
        try:
            return self.files.read(self.path(name))
        except FileNotFoundError:
            return None


__all__ = ["FileError", "Interfered", "LiveFiles", "TextFile"]
