"""Tries things out for `doctor`: can files be made here and whose are they, do locks keep another process out, what
does systemd say. Leaves nothing behind."""

from __future__ import annotations

import contextlib
import fcntl
import os
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

# Another process, because a process's own locks never keep itself out.
_TRY = """
import fcntl, sys
with open(sys.argv[1], "r+b") as file:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        sys.exit(3)
    except PermissionError:
        sys.exit(3)
"""


@dataclass(frozen=True)
class Tried:
    """What happened in a directory. `write_error`: why no file could be made, "" if one could; `made_by`: the user it
    belonged to; `locks` None: could not be tried (`lock_error` says why)."""

    write_error: str
    made_by: int | None = None
    locks: bool | None = None
    lock_error: str = ""


class Probe(Protocol):
    def directory(self, path: Path) -> Tried: ...
    def service(self, name: str) -> str | None:
        """systemd's word (active, inactive, failed, …); None: there is no systemd."""
        ...


class SystemProbe:
    def directory(self, path: Path) -> Tried:
        try:
            handle, name = tempfile.mkstemp(prefix=".doctor-", dir=path)
        except OSError as error:
            return Tried(error.strerror or str(error))
        try:
            with os.fdopen(handle, "r+b") as file:
                file.write(b"doctor\n")
                file.flush()
                os.fsync(file.fileno())
                made_by = os.fstat(file.fileno()).st_uid
                locks, error_text = _locks(file.fileno(), name)
                return Tried("", made_by, locks, error_text)
        except OSError as error:
            return Tried(error.strerror or str(error))
        finally:
            with contextlib.suppress(OSError):
                Path(name).unlink()

    def service(self, name: str) -> str | None:
        try:
            done = subprocess.run(
                ["systemctl", "is-active", name], capture_output=True, text=True, timeout=10, check=False
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        word = done.stdout.strip()
        return word if word and "not been booted" not in done.stderr else None


def _locks(file: int, name: str) -> tuple[bool | None, str]:
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return None, error.strerror or str(error)
    try:
        command = [sys.executable, "-c", _TRY, name]
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"another process could not be asked: {error}"
    if done.returncode not in (0, 3):
        return None, done.stderr.strip().splitlines()[-1] if done.stderr.strip() else "the other process failed"
    return done.returncode == 3, ""
