"""The files around a pass that others write too: which they are, and which still are as the pass left them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topology_plugin.adapters.generations import Generations
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.notes import HOLD, OWNERSHIP
from topology_plugin.core.disk import Disk, encoded

TOPOLOGY_FILES = ("topology.yaml", "topology.conf")


def slurm_files(live: LiveFiles, conf_files: Iterable[str]) -> dict[str, Path]:
    """What passes write of Slurm's, whether it exists or not: name → path. `conf_files`: slurm.conf and its Includes,
    as far as they are known."""
    paths = {name: live.path(name) for name in TOPOLOGY_FILES}
    return {**paths, **{path: live.where(path) for path in tuple(conf_files) or (live.conf,)}}


def notes(generations: Generations) -> dict[str, Path]:
    """What `hold`, `resume` and `rollback` write for passes to find: name → path."""
    places = [place for place in (generations.registry, generations.state_dir) if place is not None]
    return {f"{place}/{name}": place / name for place in places for name in (HOLD, OWNERSHIP)}


@dataclass(frozen=True)
class Left:
    """`disk`: Slurm's files as the pass saw or put them; `note`: the note on ownership as it was when the pass ended.
    Made while the pass holds its lock."""

    live: LiveFiles
    generations: Generations
    disk: Disk
    note: dict[str, Any] | None

    def untouched(self) -> frozenset[str]:
        """Names, as of the two functions above, of files that hold just that now."""
        texts: dict[str, bytes | None] = {file.path: encoded(file.text) for file in self.disk.conf.files}
        texts |= {"topology.yaml": self.disk.topology_yaml, "topology.conf": self.disk.topology_conf}
        paths = slurm_files(self.live, [file.path for file in self.disk.conf.files])
        same = {name for name, text in texts.items() if self._bytes(paths[name]) == (text, True)}
        for name, path in notes(self.generations).items():
            if path.name == OWNERSHIP and self._json(path) == self.note:
                same.add(name)
        return frozenset(same)

    def _bytes(self, path: Path) -> tuple[bytes | None, bool]:
        """(content, None for no file; whether that could be told)."""
        try:
            return self.live.files.read(path), True
        except FileNotFoundError:
            return None, True
        except OSError:
            return None, False

    def _json(self, path: Path) -> Any:
        try:
            return json.loads(self._bytes(path)[0] or b"null")
        except (ValueError, RecursionError):
            return None
