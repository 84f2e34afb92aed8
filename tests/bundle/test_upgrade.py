"""From one version to another, to the former one, and whatever cuts it off: the version in use stays whole."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.bundle import ROOT
from tests.bundle.installs import leftovers, put, version_of, versions
from tests.disks import small_disk


def test_an_upgrade_is_one_switch_and_the_former_version_stays_for_what_still_runs(
    payload: Path, newer: Path, root: Path
) -> None:
    old = put(payload, root)
    running = subprocess.Popen(
        [sys.executable, "-IS", "-c", RUNNING, str(old / "lib")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    new = put(newer, root)
    assert version_of(root).startswith("9.")
    home = root / "opt/hyperpod-topology"
    assert [str((home / link).readlink()) for link in ("current", "previous")] == [new.name, old.name]
    assert running.communicate(b"\n")[0] == b"imported late\n"


RUNNING = """
import sys
sys.path.insert(0, sys.argv[1])
import click
print("ready", flush=True)
sys.stdin.readline()
import requests, rich.table
print("imported late")
"""


def test_going_back_is_installing_the_former_bundle(old: Path, new: Path, root: Path) -> None:
    first = put(old, root)
    second = put(new, root)
    assert put(old, root) == first
    assert version_of(root) == "1.0+aaaaaaaa"
    assert versions(root) == [first.name, second.name]


def test_old_versions_go_but_never_the_current_and_the_previous_one(old: Path, new: Path, root: Path) -> None:
    home = root / "opt/hyperpod-topology"
    for number in range(4):
        (home / f"0.0.{number}+00000000" / "lib").mkdir(parents=True)
        os.utime(home / f"0.0.{number}+00000000", (number, number))
    assert versions(root) != []
    put(old, root)
    put(new, root)
    assert versions(root) == ["1.0+aaaaaaaa", "2.0+bbbbbbbb"]


def test_a_version_that_lost_a_file_is_made_whole_again(old: Path, root: Path) -> None:
    target = put(old, root)
    (target / "lib/topology_plugin/late.py").unlink()
    (target / "lib/topology_plugin/cli/hook.py").write_text("raise SystemExit('torn')")
    put(old, root)
    assert version_of(root) == "1.0+aaaaaaaa"
    assert leftovers(root) == []


def test_several_at_once_leave_one_whole_version(old: Path, root: Path) -> None:
    runs = [installer(old, root) for _ in range(8)]
    assert [run.wait() for run in runs] == [0] * 8
    assert version_of(root) == "1.0+aaaaaaaa"
    assert leftovers(root) == []


def test_leftovers_of_a_killed_installer_are_removed(old: Path, root: Path) -> None:
    (root / "opt/hyperpod-topology/.new-123/lib").mkdir(parents=True)
    put(old, root)
    assert leftovers(root) == []


@pytest.mark.parametrize("part", range(4))
def test_a_kill_at_any_point_of_an_upgrade_leaves_a_whole_version(
    old: Path, new: Path, tmp_path: Path, part: int
) -> None:
    """Every single change of the disk is a point; the next run ends what was begun."""
    dry = tmp_path / "dry"
    put(old, dry)
    events = subprocess.run(
        [sys.executable, "-I", "-c", KILLED, str(ROOT / "lifecycle_scripts"), str(new), str(dry), "-1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert len(events) >= 30
    assert any(line.startswith("os.rename") and "/current" in line for line in events)
    for point in range(part, len(events), 4):
        root = tmp_path / f"node-{point}"
        put(old, root)
        killed = subprocess.run(
            [sys.executable, "-I", "-c", KILLED, str(ROOT / "lifecycle_scripts"), str(new), str(root), str(point)],
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -9, events[point]
        assert version_of(root) in ("1.0+aaaaaaaa", "2.0+bbbbbbbb"), events[point]
        put(new, root)
        assert version_of(root) == "2.0+bbbbbbbb", events[point]
        assert leftovers(root) == [], events[point]
        shutil.rmtree(root)


# Counts what changes the disk and kills itself right before event number argv[4].
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from node_setup import install
count, last = 0, int(sys.argv[4])
def hook(event, arguments):
    global count
    flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
    writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writing or event in ("os.rename", "os.symlink", "os.remove", "os.mkdir", "os.chmod", "os.rmdir"):
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        if last < 0:
            print(event, arguments[0:2], flush=True)
sys.addaudithook(hook)
install.install(Path(sys.argv[2]), Path(sys.argv[3]), sys.executable, lambda text: None)
"""


def installer(payload: Path, root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", KILLED, str(ROOT / "lifecycle_scripts"), str(payload), str(root), "1000000"]
    )


def test_a_full_disk_stops_an_upgrade_and_the_version_in_use_stays(payload: Path, newer: Path, tmp_path: Path) -> None:
    with small_disk(tmp_path / "small", "14m"):
        put(payload, tmp_path / "small")
        former = version_of(tmp_path / "small")
        with pytest.raises(OSError, match="No space left"):
            put(newer, tmp_path / "small")
        assert version_of(tmp_path / "small") == former
        assert leftovers(tmp_path / "small") == []
