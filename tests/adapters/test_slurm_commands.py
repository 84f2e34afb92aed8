"""Slurm's commands as processes: a slurmctld that is gone keeps nobody waiting, a slow one is waited for."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from topology_plugin.adapters.slurm import SlurmCommands

SCRIPT = """#!/bin/sh
echo "$(basename "$0") $*" >> {log}
case "$1" in
ping) echo "Slurmctld(primary) at c1 is {state}"; exit {code};;
esac
[ "$#" -gt 0 ] || read -r first
exec 3>&1
{wait}
echo "answer $first"
"""


def commands(directory: Path, state: str, wait: str) -> tuple[SlurmCommands, Path]:
    log = directory / "log"
    for name in ("scontrol", "squeue"):
        text = SCRIPT.format(log=log, state=state, code=0 if state == "UP" else 1, wait=wait)
        (directory / name).write_text(text)
        (directory / name).chmod(0o755)
    return SlurmCommands(directory, None, {"PATH": "/usr/bin:/bin"}), log


@pytest.mark.parametrize(
    ("program", "arguments", "stdin"),
    [("scontrol", (), "show nodes\n"), ("scontrol", ("show", "topoconf"), None), ("squeue", ("--json",), None)],
    ids=["session", "show", "squeue"],
)
def test_a_slurmctld_that_is_gone_keeps_no_question_waiting(
    tmp_path: Path, program: str, arguments: tuple[str, ...], stdin: str | None
) -> None:
    slurm, _ = commands(tmp_path, "DOWN", "exec sleep 30")
    begin = time.monotonic()
    answer = slurm.run(program, *arguments, stdin=stdin)
    assert answer.code is None and not answer.timed_out and "does not answer" in answer.words
    assert time.monotonic() - begin < 12


def test_after_one_silence_ping_alone_is_asked(tmp_path: Path) -> None:
    slurm, log = commands(tmp_path, "DOWN", "exec sleep 30")
    assert slurm.nodes() is None
    assert slurm.jobs() is None and slurm.config() is None
    assert log.read_text().splitlines()[1:] == ["scontrol ping"] * 3


def test_a_slow_slurmctld_is_waited_for(tmp_path: Path) -> None:
    slurm, log = commands(tmp_path, "UP", "sleep 3")
    assert slurm.run("scontrol", stdin="show nodes\n").out == "answer show nodes\n"
    assert "scontrol ping" in log.read_text()


def test_a_change_is_never_cut_short_by_a_slurmctld_that_does_not_answer_pings(tmp_path: Path) -> None:
    slurm, log = commands(tmp_path, "DOWN", "sleep 3")
    assert slurm.reconfigure().ok
    assert log.read_text() == "scontrol reconfigure\n"


def test_the_time_given_holds_for_questions_too(tmp_path: Path) -> None:
    slurm, _ = commands(tmp_path, "UP", "exec sleep 30")
    begin = time.monotonic()
    assert slurm.run("scontrol", "show", "nodes", timeout=3).timed_out
    assert time.monotonic() - begin < 12


def test_the_version_is_known_although_scontrol_waits_for_an_include_that_is_not_there(tmp_path: Path) -> None:
    slurm, log = commands(tmp_path, "UP", "exec sleep 30")
    (tmp_path / "slurmctld").write_text('#!/bin/sh\n[ "$1" = -V ] && echo "slurm-wlm 24.11.5"\n')
    (tmp_path / "slurmctld").chmod(0o755)
    begin = time.monotonic()
    version = slurm.version()
    assert version is not None and version.text == "24.11.5"
    assert log.read_text() == "scontrol --version\n" and time.monotonic() - begin < 10
