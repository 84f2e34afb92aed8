"""Where the executables come from, and what is said when there can be none. Needs no Slurm and builds nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("slurm_root.py")
COMMANDS = ("scontrol", "sinfo", "sbatch", "squeue", "srun", "scancel")


def call(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if key not in ("SLURM_PREFIX", "DEBIAN_MIRROR")}
    return subprocess.run([sys.executable, SCRIPT, *arguments], env={**clean, **environment}, capture_output=True,
                          text=True)  # fmt: skip


def install(directory: Path, *names: str) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text("#!/bin/sh\necho $0\n")
        (directory / name).chmod(0o755)


def test_an_installed_slurm_with_all_in_one_directory_is_used_as_it_is(tmp_path: Path) -> None:
    install(tmp_path / "slurm/bin", *COMMANDS, "slurmctld", "slurmd")
    done = call(SLURM_PREFIX=str(tmp_path / "slurm"), XDG_CACHE_HOME=str(tmp_path / "cache"))
    assert done.stdout.strip() == str(tmp_path / "slurm/bin")
    assert not (tmp_path / "cache").exists()


def test_daemons_in_sbin_and_commands_in_bin_come_together(tmp_path: Path) -> None:
    install(tmp_path / "slurm/bin", *COMMANDS)
    install(tmp_path / "slurm/sbin", "slurmctld", "slurmd")
    for _ in range(2):
        done = call(SLURM_PREFIX=str(tmp_path / "slurm"), XDG_CACHE_HOME=str(tmp_path / "cache"))
        found = Path(done.stdout.strip())
        assert (found / "slurmctld").resolve() == tmp_path / "slurm/sbin/slurmctld"
        assert (found / "sbatch").resolve() == tmp_path / "slurm/bin/sbatch"
        assert sorted(path.name for path in found.iterdir()) == sorted([*COMMANDS, "slurmctld", "slurmd"])


@pytest.mark.parametrize(
    ("arguments", "environment", "words"),
    [
        pytest.param(
            (), {"SLURM_PREFIX": "/nowhere"}, "SLURM_PREFIX=/nowhere has no sbatch", id="prefix without Slurm"
        ),
        pytest.param(("sarge",), {}, "usage:", id="unknown release"),
        pytest.param(("forky", "trixie"), {}, "usage:", id="two releases"),
        pytest.param((), {"XDG_CACHE_HOME": "/dev/null/x"}, "Not a directory", id="no place for the cache"),
    ],
)
def test_one_sentence_says_why_not(arguments: tuple[str, ...], environment: dict[str, str], words: str) -> None:
    done = call(*arguments, **environment)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root to become somebody else")
def test_an_ordinary_user_is_told_to_become_root() -> None:
    become = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    clean = {key: value for key, value in os.environ.items() if key != "SLURM_PREFIX"}
    command = [*become, "/usr/bin/env", "python3", "-"]  # from stdin: that user may not be able to read the checkout
    done = subprocess.run(command, env={**clean, "PATH": "/usr/bin:/bin"}, input=SCRIPT.read_text(),
                          capture_output=True, text=True)  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert "become root or set SLURM_PREFIX" in done.stderr


def test_a_build_that_fails_says_so_and_leaves_nothing_but_its_log(tmp_path: Path) -> None:
    """A mirror that is not there, with a debootstrap that is."""
    if os.geteuid() != 0 or not Path("/usr/share/debootstrap/scripts/sid").exists():
        pytest.skip("needs root and debootstrap")
    done = call(XDG_CACHE_HOME=str(tmp_path), DEBIAN_MIRROR="http://127.0.0.1:9/debian")
    assert (done.returncode, done.stdout) == (2, "")
    assert "debootstrap of forky failed" in done.stderr.splitlines()[-1]
    assert {path.suffix for path in (tmp_path / "hyperpod-topology").iterdir()} == {".lock", ".log"}
