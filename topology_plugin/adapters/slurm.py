"""Slurm's commands: read the state, reconfigure, read back."""

from __future__ import annotations

import json
import os
import re
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from topology_plugin.core import scontrol_text


@dataclass(frozen=True)
class Answer:
    """What a command said. `code` None: it did not end within its time or could not be started (`error` says which)."""

    code: int | None
    out: str
    error: str

    @property
    def ok(self) -> bool:
        return self.code == 0

    @property
    def timed_out(self) -> bool:
        return self.code is None and self.error.startswith("timed out")

    @property
    def words(self) -> str:
        """Slurm's own words, for messages."""
        lines = (line for line in (self.error or self.out).splitlines() if not line.startswith("**"))  # ping's banner
        return " ".join(" ".join(lines).split())


@dataclass(frozen=True)
class Version:
    """(26, 5, 5) of "slurm 26.05.5"; unknown parts are 0."""

    numbers: tuple[int, int, int]
    text: str

    @classmethod
    def parse(cls, text: str) -> Version | None:
        match = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", text)
        if not match:
            return None
        return cls((int(match[1]), int(match[2]), int(match[3] or 0)), match[0])


class Slurm(Protocol):
    """The scheduler, as a pass needs it. Reading never raises for a Slurm that does not answer: it returns None."""

    def run(self, program: str, *arguments: str, timeout: float = 30, stdin: str | None = None) -> Answer: ...
    def version(self) -> Version | None: ...
    def ping(self) -> bool: ...
    def reconfigure(self, timeout: float = 60) -> Answer: ...
    def topoconf(self) -> str | None: ...
    def nodes(self) -> list[dict[str, Any]] | None: ...
    def partitions(self) -> dict[str, str | None] | None: ...
    def jobs(self, *which: str) -> list[dict[str, Any]] | None: ...
    def config(self) -> Mapping[str, str] | None: ...


# Where slurmctld is not there, Slurm's commands try for MessageTimeout (10 s), a session of scontrol with each of its
# lines; ping says so at once (run). So after a moment without an answer ping decides whether to wait on.
_MOMENT = 2.0
_SILENCE = 5.0
_TO_SAY_ITS_VERSION = 3.0  # of four programs one after the other: together less than `guard` has


class SlurmCommands:
    """Slurm by its commands. `bin_dir` None: from PATH, else `/opt/slurm/bin`. `conf` is passed as SLURM_CONF."""

    def __init__(self, bin_dir: Path | None, conf: Path | None, environment: Mapping[str, str] | None = None) -> None:
        self.bin_dir = bin_dir
        self.environment = dict(os.environ if environment is None else environment)
        if conf is not None:
            self.environment["SLURM_CONF"] = str(conf)
        self._silent_until = 0.0

    def program(self, name: str) -> str:
        return str(self.bin_dir / name) if self.bin_dir else name

    def run(self, program: str, *arguments: str, timeout: float = 30, stdin: str | None = None) -> Answer:
        asks = program in ("squeue", "sinfo") or (program == "scontrol" and arguments[:1] in ((), ("show",)))
        if asks and time.monotonic() < self._silent_until and not self.ping():
            return self._silence(program)
        try:
            process = subprocess.Popen(
                [self.program(program), *arguments],
                stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                errors="replace",
                env=self.environment,
                start_new_session=True,  # Ctrl-C is for us, who finish or undo; it must not break off a reconfigure
            )
        except OSError as error:
            return Answer(None, "", f"{program} cannot be started: {error.strerror or error}")
        with process:
            try:
                begin = time.monotonic()
                try:
                    out, error_text = process.communicate(stdin, timeout=min(_MOMENT, timeout) if asks else timeout)
                except subprocess.TimeoutExpired:
                    if not asks or timeout <= _MOMENT:
                        raise
                    if not self.ping():
                        process.kill()
                        return self._silence(program)
                    # Input given before is still being sent.
                    out, error_text = process.communicate(timeout=max(0.0, timeout - (time.monotonic() - begin)))
            except subprocess.TimeoutExpired:
                process.kill()
                return Answer(None, "", f"timed out: {program} {' '.join(arguments)} gave no answer in {timeout:g} s")
            except BaseException:
                process.kill()
                raise
        return Answer(process.returncode, out, error_text)

    def _silence(self, program: str) -> Answer:
        self._silent_until = time.monotonic() + _SILENCE
        return Answer(None, "", f"{program} was not waited for: slurmctld does not answer")

    def version(self) -> Version | None:
        """The version of the commands; needs no slurmctld, and no slurm.conf that could be read.

        `scontrol --version` dies of a slurm.conf that its Slurm does not understand (a `Topology=` word on 24.11: run)
        and waits for an Include that is not there (run), just when one must know what slurmctld would understand;
        `slurmctld -V` does not look at it.
        """
        beside = (self.bin_dir.parent / "sbin" / "slurmctld",) if self.bin_dir else ()
        for program, option in (
            ("scontrol", "--version"),
            *((str(path), "-V") for path in ("slurmctld", *beside, "/usr/sbin/slurmctld")),
        ):
            answer = self.run(program, option, timeout=_TO_SAY_ITS_VERSION)
            if answer.ok and (found := Version.parse(answer.out)) is not None:
                return found
        return None

    def ping(self) -> bool:
        answer = self.run("scontrol", "ping", timeout=15)
        return answer.ok and " is UP" in answer.out

    def reconfigure(self, timeout: float = 60) -> Answer:
        """rc 0 is not proof and a timeout is not failure (run): always read back."""
        return self.run("scontrol", "reconfigure", timeout=timeout)

    def topoconf(self) -> str | None:
        """What slurmctld has loaded, as YAML with empty maps to drop (25.05+)."""
        answer = self.run("scontrol", "show", "topoconf")
        return answer.out if answer.ok else None

    def nodes(self) -> list[dict[str, Any]] | None:
        """Nodes in the shape of `scontrol show nodes --json`, with the keys that scontrol_text.nodes() names."""
        answer = self.run("scontrol", "show", "nodes", "--oneliner", timeout=60)
        return scontrol_text.nodes(answer.out) if answer.ok else None

    def partitions(self) -> dict[str, str | None] | None:
        """Partition → its `Topology=` word in force (None: none)."""
        partitions = self._json("partitions", "scontrol", "show", "partitions", "--json")
        if partitions is None:
            return None
        return {str(p["name"]): p.get("topology") or None for p in partitions}

    def jobs(self, *which: str) -> list[dict[str, Any]] | None:
        """`which`: squeue's options for others than those that wait or run."""
        return self._json("jobs", "squeue", "--json", *which)

    def config(self) -> Mapping[str, str] | None:
        """`scontrol show config` as a map."""
        answer = self.run("scontrol", "show", "config")
        if not answer.ok:
            return None
        pairs = (line.split("=", 1) for line in answer.out.splitlines() if "=" in line)
        return {key.strip(): value.strip() for key, value in pairs}

    def _json(self, key: str, program: str, *arguments: str) -> list[dict[str, Any]] | None:
        answer = self.run(program, *arguments, timeout=60)
        if not answer.ok:
            return None
        try:
            found = json.loads(answer.out)[key]
        except (ValueError, KeyError, TypeError):
            return None
        return found if isinstance(found, list) else None
