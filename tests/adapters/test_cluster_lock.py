"""One writer for a cluster: real processes, real locks, and file systems that have none."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from topology_plugin.adapters.cluster_lock import NAME, ClusterLock, Turn
from topology_plugin.adapters.mounts import Mount, SystemMounts
from topology_plugin.adapters.mounts import holding as holding_of

HOLD = """
import sys
from pathlib import Path
from topology_plugin.adapters.cluster_lock import ClusterLock
from topology_plugin.adapters.mounts import SystemMounts
lock = ClusterLock(lambda: Path(sys.argv[1]), Path(sys.argv[2]), SystemMounts())
print(lock.take(stays=True).mine, flush=True)
sys.stdin.read()
lock.let_go()
print("gone", flush=True)
sys.stdin.read()
"""


class OnMount:
    def __init__(self, options: str) -> None:
        self.options = options

    def holding(self, path: Path) -> Mount | None:
        return Mount("/fsx", "lustre", self.options)


@pytest.fixture
def registry(tmp_path: Path) -> Path:
    made = tmp_path / "registry"
    made.mkdir()
    return made


def machine(tmp_path: Path, name: str) -> Path:
    """The file of a machine's PassLock."""
    path = tmp_path / name / "pass.lock"
    path.parent.mkdir(exist_ok=True)
    path.touch()
    return path


def lock_of(registry: Path, own: Path) -> ClusterLock:
    return ClusterLock(lambda: registry, own, SystemMounts())


@pytest.fixture
def holding(registry: Path, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A process of machine a that holds the lock until its standard input ends."""
    command = [sys.executable, "-c", HOLD, str(registry), str(machine(tmp_path, "a"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "True\n"
        yield process
        process.kill()


def test_another_machine_is_told_who_holds_it(holding: subprocess.Popen[str], registry: Path, tmp_path: Path) -> None:
    turn = lock_of(registry, machine(tmp_path, "b")).take()
    assert not turn.mine
    assert turn.holder is not None
    assert (turn.holder.pid, turn.holder.stays) == (holding.pid, True)
    assert str(turn.holder) == f"process {holding.pid} on {os.uname().nodename}"


def test_a_process_of_the_same_machine_shares_it(
    holding: subprocess.Popen[str], registry: Path, tmp_path: Path
) -> None:
    turn = lock_of(registry, machine(tmp_path, "a")).take()
    assert turn.mine
    assert turn.holder is not None


def test_the_kernel_lets_go_when_its_holder_is_killed(
    holding: subprocess.Popen[str], registry: Path, tmp_path: Path
) -> None:
    other = lock_of(registry, machine(tmp_path, "b"))
    assert not other.take().mine
    holding.kill()
    holding.wait()
    assert other.take() == Turn(mine=True)
    # What the dead process wrote is replaced at once: nobody is told of it any more.
    third = lock_of(registry, machine(tmp_path, "c")).take()
    assert third.holder is not None
    assert third.holder.pid == os.getpid()


def test_a_lock_that_was_let_go_is_free(registry: Path, tmp_path: Path) -> None:
    first, second = lock_of(registry, machine(tmp_path, "a")), lock_of(registry, machine(tmp_path, "b"))
    assert first.take().mine
    assert not second.take().mine
    first.let_go()
    first.let_go()
    assert second.take().mine
    assert second.take().mine, "still"
    second.let_go()


def test_processes_started_while_it_is_held_do_not_keep_it(registry: Path, tmp_path: Path) -> None:
    first, second = lock_of(registry, machine(tmp_path, "a")), lock_of(registry, machine(tmp_path, "b"))
    assert first.take().mine
    with subprocess.Popen(["sleep", "60"], close_fds=False) as child:
        first.let_go()
        assert second.take().mine
        child.kill()


def test_a_dead_process_of_this_machine_shares_nothing(registry: Path, tmp_path: Path) -> None:
    """Another machine has just taken over and not yet said so: what stands in the file is of the dead one."""
    ours = lock_of(registry, machine(tmp_path, "a"))
    assert ours.take(stays=True).mine
    said = json.loads((registry / NAME).read_text())
    ours.let_go()
    other = lock_of(registry, machine(tmp_path, "b"))
    assert other.take(stays=True).mine
    (registry / NAME).write_text(json.dumps({**said, "pid": 2**22 - 1}))
    assert not ours.take().mine
    (registry / NAME).write_text(json.dumps(said))
    assert ours.take().mine, "the same with a live process: only the pid decided"
    other.let_go()


def test_the_mount_options_are_those_of_the_file_system() -> None:
    line = "40 1 0:40 / /fsx rw,noatime shared:9 - lustre 10.0.0.1@tcp:/abcd1234 rw,localflock,lazystatfs"
    found = holding_of(line, Path("/fsx/hyperpod-topology"))
    assert found is not None
    assert found.options == "rw,localflock,lazystatfs"


@pytest.mark.parametrize(
    "content", ["", "{", "[]", '{"host": 1}', '{"host": "a", "pid": "x", "machine": "m"}', "\0" * 99]
)
def test_a_holder_that_has_not_said_who_it_is_is_still_one(registry: Path, tmp_path: Path, content: str) -> None:
    holder = lock_of(registry, machine(tmp_path, "a"))
    assert holder.take().mine
    (registry / NAME).write_text(content)
    turn = lock_of(registry, machine(tmp_path, "b")).take()
    assert not turn.mine
    assert str(turn.holder) == "a process that did not say who it is"
    holder.let_go()


def test_a_lock_whose_file_is_gone_or_someone_elses_is_not_held_any_more(registry: Path, tmp_path: Path) -> None:
    """A file server that did not hear of us for a while gave it to another; nothing tells us but the file."""
    lock = lock_of(registry, machine(tmp_path, "a"))
    assert lock.take().mine
    (registry / NAME).unlink()
    other = lock_of(registry, machine(tmp_path, "b"))
    assert other.take().mine
    assert not lock.take().mine
    other.let_go()
    assert lock.take().mine
    (registry / NAME).write_text('{"host": "other", "pid": 1, "machine": "m", "stays": true}')
    assert lock.take().mine, "nobody holds it really, so it is taken again"
    assert json.loads((registry / NAME).read_text())["pid"] == os.getpid()
    lock.let_go()


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS, errno.EIO, errno.EINVAL])
def test_a_file_system_without_locks_is_said(registry: Path, tmp_path: Path, code: int) -> None:
    def refuses(fd: int, operation: int) -> None:
        raise OSError(code, os.strerror(code))

    turn = ClusterLock(lambda: registry, machine(tmp_path, "a"), SystemMounts(), refuses).take()
    assert (turn.mine, turn.holder) == (False, None)
    assert turn.lacking == f"the file system of {registry} has no locks: {os.strerror(code)}"


@pytest.mark.parametrize(
    ("options", "shared"),
    [
        ("rw,flock,lazystatfs", True),
        ("rw,vers=4.1,local_lock=none,addr=10.0.0.1", True),
        ("rw,local_lock=posix", True),
        ("rw,localflock,lazystatfs", False),
        ("rw,vers=3,nolock,local_lock=all", False),
        ("rw,local_lock=flock", False),
        ("", True),
    ],
)
def test_locks_that_end_at_this_machine_are_none(registry: Path, tmp_path: Path, options: str, shared: bool) -> None:
    turn = ClusterLock(lambda: registry, machine(tmp_path, "a"), OnMount(options)).take()
    assert turn.mine is shared
    assert ("its locks end at this machine" in turn.lacking) is not shared


def test_without_a_registry_there_is_no_lock(tmp_path: Path) -> None:
    own = machine(tmp_path, "a")
    assert ClusterLock(lambda: None, own, SystemMounts()).take() == Turn(lacking="there is no registry")
    assert "is not there" in lock_of(tmp_path / "nowhere", own).take().lacking


@pytest.mark.parametrize("kind", ["symlink", "directory"])
def test_what_is_no_lock_file_is_not_opened(registry: Path, tmp_path: Path, kind: str) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    (registry / NAME).symlink_to(victim) if kind == "symlink" else (registry / NAME).mkdir()
    assert "cannot be opened" in lock_of(registry, machine(tmp_path, "a")).take().lacking
    assert victim.read_text() == "precious"
