"""The shell in the bundle: clean, thin, and with line ends that a node can run."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundle import ROOT

SCRIPTS = sorted((ROOT / "lifecycle_scripts").rglob("*.sh"))


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
class TestEachScript:
    def test_shellcheck_finds_nothing(self, script: Path) -> None:
        checker = shutil.which("shellcheck") or str(Path(sys.executable).parent / "shellcheck")
        ended = subprocess.run([checker, "--shell=bash", str(script)], capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout

    def test_line_ends_are_those_of_unix(self, script: Path) -> None:
        data = script.read_bytes()
        assert data.startswith(b"#!/bin/bash\n")
        assert b"\r" not in data

    def test_it_is_thin(self, script: Path) -> None:
        """Whatever could go wrong in an interesting way is in Python."""
        code = [line for line in script.read_text().splitlines() if line.strip() and not line.strip().startswith("#")]
        assert len(code) <= 12


def test_there_are_scripts() -> None:
    assert [script.name for script in SCRIPTS] == ["entry.sh", "on_create.sh", "on_init_complete.sh"]
