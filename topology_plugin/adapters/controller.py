"""The slurmctld process on this machine: does it live, how was it started, what does it say in its log."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

LOG_TAIL_BYTES = 256 * 1024


@dataclass(frozen=True)
class LogMark:
    """A place in slurmctld's log. `path` None: it is not known where the log is."""

    path: str | None
    size: int = 0


class Controller(Protocol):
    def running(self) -> bool | None:
        """Whether a slurmctld with our slurm.conf runs on this machine; None: that cannot be told."""
        ...

    def foreground(self) -> bool:
        """It runs under plain `-D`: then a failed reconfigure is its death, and scontrol says 0 (run)."""
        ...

    def log_mark(self, path: str | None) -> LogMark:
        """Where the log ends now."""
        ...

    def log_words(self, mark: LogMark) -> str:
        """The fatal and error lines since then, without time stamps; "" if there are none or none can be read."""
        ...


class SlurmctldProcess:
    """`conf`: slurm.conf's real path. `standard`: it is where a slurmctld that names no file looks."""

    def __init__(self, conf: Path, standard: bool = False, proc: Path = Path("/proc")) -> None:
        self.conf, self.standard, self.proc = conf, standard, proc

    def running(self) -> bool | None:
        if not self.proc.is_dir():
            return None
        return any(True for _ in self._commands())

    def foreground(self) -> bool:
        return any(
            any(_short_option(word, "D") for word in words[1:]) and "--systemd" not in words
            for words in self._commands()
        )

    def log_mark(self, path: str | None) -> LogMark:
        if path is None:
            return LogMark(None)
        try:
            return LogMark(path, Path(path).stat().st_size)
        except OSError:
            return LogMark(path)

    def log_words(self, mark: LogMark) -> str:
        if mark.path is None:
            return ""
        try:
            with Path(mark.path).open("rb") as log:
                size = log.seek(0, os.SEEK_END)
                start = mark.size if mark.size <= size else 0  # rotated meanwhile
                log.seek(max(start, size - LOG_TAIL_BYTES))
                lines = log.read(LOG_TAIL_BYTES).decode(errors="replace").splitlines()
        except OSError:
            return ""
        said = [line.split("] ", 1)[-1].strip() for line in lines]
        # A fatal line often says only that something failed, the errors right before it say what (run).
        loud = list(dict.fromkeys(line for line in said if line.startswith(("fatal:", "error:"))))
        last = max((number for number, line in enumerate(loud) if line.startswith("fatal:")), default=len(loud) - 1)
        return " / ".join(loud[max(0, last - 2) : last + 1])

    def _commands(self) -> Iterator[list[str]]:
        """Command lines of the slurmctlds that read our slurm.conf."""
        for entry in os.listdir(self.proc):  # noqa: PTH208  plain names, thousands of them
            if not entry.isdigit():
                continue
            with contextlib.suppress(OSError):
                if (self.proc / entry / "comm").read_text().strip() != "slurmctld":
                    continue
                words = [os.fsdecode(w) for w in (self.proc / entry / "cmdline").read_bytes().split(b"\0") if w]
                if words and self._reads_ours(words, self.proc / entry):
                    yield words

    def _reads_ours(self, words: list[str], process: Path) -> bool:
        named = _file_option(words)
        if named is None:
            for pair in (process / "environ").read_bytes().split(b"\0"):
                if pair.startswith(b"SLURM_CONF="):
                    named = os.fsdecode(pair.partition(b"=")[2])
        if named is None:
            # Of one that ended since its command line was read the environment is empty: it may have named any file.
            return self.standard and bool((process / "cmdline").read_bytes())
        return Path(named).resolve() == self.conf


def _file_option(words: list[str]) -> str | None:
    for position, word in enumerate(words):
        if word == "-f" and position + 1 < len(words):
            return words[position + 1]
        if word.startswith("-f") and len(word) > 2:
            return word[2:]
    return None


def _short_option(word: str, letter: str) -> bool:
    """`-D`, also among others in one word (`-Dvv`), but not within the value of an option that takes one."""
    if not word.startswith("-") or word.startswith("--"):
        return False
    for found in word[1:]:
        if found == letter:
            return True
        if found in "fLn":
            return False
    return False
