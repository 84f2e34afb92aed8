"""A change cut off by a disk that fails or by a kill: the former state stands, or the next pass brings it about."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.app.machine import ONE, RENAMED, Killed, Machine, in_force, refuse
from tests.fakes import Quick
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import ApplyFailed


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
def test_br_25_a_failing_disk_changes_nothing_wherever_it_fails(tmp_path: Path, code: int) -> None:
    """Every write and rename of a whole change fails once: each time the former state stands, and then all is well."""

    class Failing(Quick):
        left = 1 << 30

        def _count(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise OSError(code, os.strerror(code))

        def write(self, fd: int, data: memoryview) -> int:
            self._count()
            return super().write(fd, data)

        def rename(self, source: Path, target: Path) -> None:
            self._count()
            super().rename(source, target)

    failing = Failing()
    machine = Machine(tmp_path, failing)
    machine.apply(ONE)
    files = machine.snapshot()
    failures = 0
    for point in range(1, 200):
        failing.left = point
        try:
            applied = machine.apply(RENAMED)
        except ApplyFailed as failed:
            failures += 1
            assert os.strerror(code) in str(failed) and failed.undone
            assert machine.snapshot() == files and in_force(machine) == ONE
            current = machine.generations.current()
            assert current is not None and current.words == ONE.words
        else:
            failing.left = 1 << 30
            if not applied.notes:
                break
            # It was in force before the note failed, and stays; the next pass writes the note.
            assert in_force(machine) == RENAMED
            assert machine.apply(RENAMED).reconfigured is False
            current = machine.generations.current()
            assert current is not None and current.words == RENAMED.words
            machine.apply(ONE)
            files = machine.snapshot()
    assert failures >= 12
    assert in_force(machine) == RENAMED
    assert list(tmp_path.rglob(".*")) == []


class Killing(Quick):
    """Dies right before the n-th rename over a live file."""

    def __init__(self) -> None:
        self.left = 0

    def rename(self, source: Path, target: Path) -> None:
        if target.parent.name == "etc":
            self.left -= 1
            if self.left == 0:
                raise Killed
        super().rename(source, target)


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_what_a_killed_pass_began_and_the_next_cannot_finish_is_taken_back_whole(tmp_path: Path, renames: int) -> None:
    """The files are halfway then, which is not where to go back to."""
    killing = Killing()
    machine = Machine(tmp_path, killing)
    machine.apply(ONE)
    files = machine.snapshot()
    killing.left = renames
    with pytest.raises(Killed):
        machine.apply(RENAMED)
    assert machine.generations.begun() is not None
    machine.slurm.load()
    refuse(machine)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert {name: data for name, data in machine.snapshot().items() if ".hpt-" not in name} == files
    assert machine.generations.begun() is None


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_killed_on_the_way_back_everything_on_disk_is_still_known_as_ours(tmp_path: Path, renames: int) -> None:
    killing = Killing()
    machine = Machine(tmp_path, killing)
    machine.apply(ONE)

    def refuses() -> Answer:
        killing.left = renames
        return Answer(1, "", "refused")

    machine.slurm.answers.append(refuses)
    with pytest.raises(Killed):
        machine.apply(RENAMED)
    disk = machine.live.disk()
    assert disk.topology_yaml is not None and machine.generations.ours_text(disk.topology_yaml)
    assert all(machine.generations.ours_word(p, w) for p, w in disk.words.items() if w)
    assert machine.slurm.load() is None, "and slurmctld starts from it"
    assert machine.apply(RENAMED).number == 2
