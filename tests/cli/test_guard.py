"""guard never keeps slurmctld waiting, and never fails it: whatever happens inside."""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topology_plugin.cli.guard import within


def test_the_work_is_done_in_a_process_of_its_own_and_said(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        (tmp_path / "pid").write_text(str(os.getpid()))
        print("done", file=sys.stderr)

    assert within(10, work) == 0
    assert (tmp_path / "pid").read_text() != str(os.getpid())
    assert "done" in capfd.readouterr().err


@pytest.mark.parametrize("error", [ValueError("odd"), SystemExit(3), KeyboardInterrupt(), MemoryError()])
def test_whatever_goes_wrong_is_a_sentence_and_exit_0(error: BaseException, capfd: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        raise error

    assert within(10, work) == 0
    said = capfd.readouterr().err
    assert said.startswith("hyperpod-topology: guard gave up: ") and "Traceback" not in said


def test_a_crash_is_survived() -> None:
    def work() -> None:
        faulthandler.disable()  # pytest's; its report of this crash would look like a failure
        os.kill(os.getpid(), signal.SIGSEGV)

    assert within(10, work) == 0


def test_a_hang_ends_at_the_limit(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    os.mkfifo(tmp_path / "hung")
    begin = time.monotonic()
    assert within(0.3, lambda: print((tmp_path / "hung").read_text())) == 0
    assert time.monotonic() - begin < 3
    assert "gave up after 0.3 s" in capfd.readouterr().err


@pytest.mark.parametrize(
    "settings", ["{", '{"mode": "sometimes"}', '{"no_such_setting": 1}', "[]"], ids=["cut", "value", "name", "list"]
)
def test_settings_that_cannot_be_used_do_not_stop_slurmctld(tmp_path: Path, settings: str) -> None:
    (tmp_path / "etc").mkdir()
    (tmp_path / "etc" / "hyperpod-topology.json").write_text(settings)
    command = [sys.executable, "-m", "topology_plugin", "--root", str(tmp_path), "guard"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0
    assert "guard gave up" in done.stderr and "Traceback" not in done.stderr


def test_an_empty_machine_is_left_empty(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "topology_plugin", "--root", str(tmp_path), "guard"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 0 and "slurm.conf" in done.stderr
    assert [p.name for p in tmp_path.rglob("*") if p.is_file() and p.name != "pass.lock"] == []
