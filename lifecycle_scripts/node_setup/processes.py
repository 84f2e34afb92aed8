"""Programs with a time limit that holds whatever they hang on, and systemd where it runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO


class Background:
    """A program of its own session, left behind after its time: what waits for a dead mount cannot be killed."""

    def __init__(self, command: Sequence[str], output: IO[str] | None) -> None:
        # Neither our pipes nor our session: whoever started us must not wait for it, nor end it with us.
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=output if output is not None else subprocess.DEVNULL,
            stderr=subprocess.STDOUT if output is not None else subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self, seconds: float) -> int | None:
        """Its exit code (128 + the signal that ended it); None: still running, and left so."""
        try:
            code = self._process.wait(max(0.0, seconds))
        except subprocess.TimeoutExpired:
            return None
        return code if code >= 0 else 128 - code


def our_command(directory: Path, *arguments: str) -> list[str]:
    """`hyperpod-topology …` of the version in `directory`, by the Python that runs this."""
    return [sys.executable, "-IS", str(directory / "bin" / "hyperpod-topology"), *arguments]


class Systemd:
    """systemctl. Where systemd does not run (containers, test roots) nothing is called, and that is said."""

    def __init__(self, root: Path, log: Callable[[str], None]) -> None:
        self.running = (root / "run/systemd/system").is_dir()
        self._log = log

    def call(self, *arguments: str, timeout: float = 60) -> bool:
        """True if systemctl did it; False, and said why, if not."""
        if not self.running:
            self._log(f"systemd does not run here: left out: systemctl {' '.join(arguments)}")
            return False
        try:
            ended = subprocess.run(
                ["systemctl", *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._log(f"systemctl {' '.join(arguments)}: {error}")
            return False
        if ended.returncode:
            self._log(f"systemctl {' '.join(arguments)}: {(ended.stderr or ended.stdout).strip()}")
        return ended.returncode == 0
