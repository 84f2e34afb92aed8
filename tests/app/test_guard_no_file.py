"""guard moves aside what stands where a topology file should and is none; a file it never moves."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from tests.app.guarding import break_, classic, run, stand
from tests.app.machine import ONE, TWO, Machine
from tests.fakes import Quick
from topology_plugin.adapters.generations import FLAT_TEXT
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.app.guard import Guarded

ODD = ["directory", "pipe", "device", "link to a directory", "link to itself"]


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("word", [True, False], ids=["a word", "no words"])
def test_what_is_no_file_is_moved_aside_and_counts_as_missing(machine: Machine, what: str, word: bool) -> None:
    break_(machine, "no topology.yaml" if word else "no words at all")
    path = machine.etc / "topology.yaml"
    stand(path, what)
    inode = path.lstat().st_ino
    done = run(machine)
    assert (done.outcome, done.what) == ("mended", "topology.yaml with flat alone" if word else "nothing in its place")
    assert str(done.issues[0]).startswith(f"{path}: is no file, but a directory, a pipe or a device")
    assert "topology.yaml, which is no file, becomes topology.yaml.not-a-file-1" in done.steps
    assert (machine.etc / "topology.yaml.not-a-file-1").lstat().st_ino == inode, "nothing lost"
    assert path.exists() is word
    again = [p.name for p in machine.etc.iterdir()]
    assert run(machine) == Guarded("startable") and [p.name for p in machine.etc.iterdir()] == again


def test_the_last_good_generation_comes_to_where_a_directory_stood(machine: Machine) -> None:
    machine.apply(ONE)
    machine.apply(TWO)
    for number in (1, 2):
        stand(machine.etc / "topology.yaml", "directory")
        assert run(machine).what == "generation 2"
        assert (machine.etc / f"topology.yaml.not-a-file-{number}" / "inside").read_text() == "theirs"
    assert machine.slurm.load() is None


@pytest.mark.parametrize("how", ["file", "link to a file", "dangling link"])
def test_a_file_or_a_link_to_one_is_never_moved_aside(machine: Machine, how: str) -> None:
    path = machine.etc / "topology.yaml"
    if how == "file":
        path.write_bytes(FLAT_TEXT)
    else:
        path.symlink_to("real.yaml")
        if how == "link to a file":
            (machine.etc / "real.yaml").write_bytes(b"[]\n")  # a broken one is mended where it is
    run(machine)
    assert [p.name for p in machine.etc.iterdir() if "not-a-file" in p.name] == []
    assert path.is_symlink() is (how != "file")


def test_a_file_that_comes_in_between_is_not_moved_aside(machine: Machine) -> None:
    class Late(LiveFiles):
        def no_files(self) -> list[str]:
            found = super().no_files()
            (machine.etc / "topology.yaml").rmdir()
            (machine.etc / "topology.yaml").write_bytes(FLAT_TEXT)
            return found

    (machine.etc / "topology.yaml").mkdir()
    machine.live = Late(machine.files, str(machine.etc / "slurm.conf"))
    run(machine)
    assert (machine.etc / "topology.yaml").read_bytes() == FLAT_TEXT
    assert [p.name for p in machine.etc.iterdir() if "not-a-file" in p.name] == []


def test_what_cannot_be_moved_stays_and_is_said(tmp_path: Path) -> None:
    class Mounted(Quick):
        def rename(self, source: Path, target: Path) -> None:
            if source.name == "topology.yaml":
                raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
            super().rename(source, target)

    machine = Machine(tmp_path, Mounted())
    stand(machine.etc / "topology.yaml", "directory")
    done = run(machine)
    assert (done.outcome, done.steps) == ("failed", ())
    assert f"cannot move {machine.etc}/topology.yaml to topology.yaml.not-a-file-1: Device or resource busy" in str(
        done.issues[0]
    )
    assert (machine.etc / "topology.yaml" / "inside").read_text() == "theirs"


@pytest.mark.parametrize("what", ODD)
def test_on_24_11_a_topology_conf_that_is_no_file_counts_as_missing(machine: Machine, what: str) -> None:
    classic(machine, "topology/tree", None)
    stand(machine.etc / "topology.conf", what)
    done = run(machine, classic=True)
    assert (done.outcome, done.what) == ("mended", "flat")
    assert os.path.lexists(machine.etc / "topology.conf.not-a-file-1")
    assert run(machine, classic=True).outcome == "startable"


@pytest.mark.parametrize("name", ["topology.yaml", "topology.conf"])
def test_on_24_11_what_nobody_reads_may_be_what_it_likes(machine: Machine, name: str) -> None:
    classic(machine, "topology/default", None)
    stand(machine.etc / name, "pipe")
    assert run(machine, classic=True) == Guarded("startable")
    assert (machine.etc / name).is_fifo()
