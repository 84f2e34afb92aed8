"""The few documents that outlive a pass, in the registry and a copy in state_dir: state.json and small notes.

state_dir is local, so guard can rely on it while the shared file system hangs.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from topology_plugin.adapters.files import FileError, Files
from topology_plugin.core.issues import Issue

STATE, HOLD, OWNERSHIP, JOBS = "state.json", "hold.json", "ownership.json", "jobs.json"


class Notes:
    """`registry` None: state_dir only. `issues`: what could not be read."""

    def __init__(self, files: Files, registry: Path | None, state_dir: Path) -> None:
        self.files = files
        self.registry, self.state_dir = registry, state_dir
        self.issues: list[Issue] = []

    @property
    def bases(self) -> tuple[Path, ...]:
        """The registry first, once it is there: nothing is ever written below a bare mount point."""
        shared = self.registry is not None and self.registry.is_dir()
        return (self.registry, self.state_dir) if shared and self.registry else (self.state_dir,)

    def load_state(self) -> dict[str, Any] | None:
        """state.json as JSON: of registry and state_dir the one after more passes, so a copy that could not be written
        for a while does not win."""
        best: dict[str, Any] | None = None
        seen: bytes | None = None  # the copies are nearly always equal, and large
        for base in self.bases:
            data = self._bytes(base, STATE)
            if data is None or data == seen:
                continue
            state = self._parsed(base, STATE, data)
            if state is not None and (best is None or _passes(state) > _passes(best)):
                best = state
            seen = data
        return best

    def save_state(self, state: Mapping[str, Any]) -> None:
        """In every place; raises the first FileError after trying all. A line for each key and no more: indented, it
        takes eight times as long to write and three times the room."""
        lines = (f"{json.dumps(key)}: {json.dumps(value, ensure_ascii=False)}" for key, value in state.items())
        self._save(STATE, ("{\n" + ",\n".join(lines) + "\n}\n").encode())

    def note(self, name: str) -> dict[str, Any] | None:
        """A note from the registry, else its copy in state_dir; None: nobody wrote one, or it cannot be read."""
        return next((found for base in self.bases if (found := self._note(base, name)) is not None), None)

    def save_note(self, name: str, value: Mapping[str, Any]) -> None:
        self._save(name, (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode())

    def _save(self, name: str, data: bytes) -> None:
        failed: FileError | None = None
        for base in self.bases:
            try:
                if base == self.state_dir:
                    self.files.make_directory(base)
                with contextlib.suppress(OSError):
                    if self.files.read(base / name) == data:
                        continue
                self.files.write(base / name, data)
            except FileError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    def remove_note(self, name: str) -> None:
        for base in self.bases:
            self.files.remove(base / name)

    def _note(self, base: Path, name: str) -> dict[str, Any] | None:
        data = self._bytes(base, name)
        return None if data is None else self._parsed(base, name, data)

    def _bytes(self, base: Path, name: str) -> bytes | None:
        try:
            return self.files.read(base / name)
        except FileNotFoundError:
            return None
        except OSError as error:
            self.issues.append(Issue(str(base / name), f"cannot be read: {error}", "it is written anew"))
            return None

    def _parsed(self, base: Path, name: str, data: bytes) -> dict[str, Any] | None:
        try:
            found = json.loads(data)
        except (ValueError, RecursionError) as error:
            self.issues.append(Issue(str(base / name), f"cannot be read: {error}", "it is written anew"))
            return None
        return found if isinstance(found, dict) else None


def _passes(state: Mapping[str, Any]) -> int:
    counters = state.get("counters")
    passes = counters.get("passes") if isinstance(counters, dict) else None
    return passes if isinstance(passes, int) else -1
