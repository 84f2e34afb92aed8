"""The shared file system's moods: late, busy, full, broken, with a clock of its own."""

from __future__ import annotations

import errno
import multiprocessing
import os
import time
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.registries import ARN, Faulty, directory, record
from tests.fakes import FakeClock
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory, Unavailable


def test_br_22_registering_waits_with_a_bound_until_the_file_system_is_there_and_writable(tmp_path: Path) -> None:
    clock = FakeClock()
    start = clock.monotonic()
    mount = tmp_path / "fsx"
    mount.mkdir()

    def mounted(path: Path) -> str:
        return "" if clock.monotonic() - start >= 20 else "no shared file system is mounted"

    operations = Faulty(lambda op: errno.EIO if op == "write" and clock.monotonic() - start < 30 else None)
    registry = directory(mount / "topology" / "abc", clock, operations, mounted=mounted)
    assert registry.write(record(), patience=180) is True
    assert 30 <= clock.monotonic() - start <= 36
    assert max(clock.slept) <= 5
    assert [path.name for path in registry.nodes.iterdir()] == [record().file_name]


def test_br_22_nothing_is_ever_made_on_the_bare_mount_point(tmp_path: Path) -> None:
    clock = FakeClock()
    mount = tmp_path / "fsx"
    mount.mkdir()
    registry = directory(mount / "topology" / "abc", clock, mounted=lambda path: "no shared file system is mounted")
    with pytest.raises(Unavailable, match="no shared file system is mounted"):
        registry.write(record(), patience=180)
    with pytest.raises(Unavailable, match="no shared file system is mounted"):
        registry.read_all(ARN)
    assert sum(clock.slept) == pytest.approx(180)
    assert list(mount.iterdir()) == []


def test_br_22_a_directory_that_exists_already_and_is_not_there_yet_is_tried_again(tmp_path: Path) -> None:
    answers = iter([errno.EEXIST, errno.ENOENT, errno.ESTALE])
    operations = Faulty(lambda op: next(answers, None) if op == "mkdir" else None)
    clock = FakeClock()
    registry = directory(tmp_path / "topology" / "abc", clock, operations)
    assert registry.write(record(), patience=60) is True
    assert len(clock.slept) == 3


def _register(path: str, number: int, barrier: Any) -> None:
    registry = RegistryDirectory(Path(path), RealFiles(), FakeClock())
    barrier.wait()
    registry.write(record(number), patience=30)


def test_br_22_sixteen_nodes_at_the_same_moment_all_register(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    barrier = context.Barrier(16)
    path = tmp_path / "topology" / "abc"
    processes = [context.Process(target=_register, args=(str(path), number, barrier)) for number in range(16)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 16
    reading = directory(path).read_all(ARN)
    assert sorted(reading.records) == sorted(record(number).instance_id for number in range(16))
    assert reading.issues == ()
    assert len(list((path / "nodes").iterdir())) == 16


def test_br_25_a_busy_file_server_is_asked_again_without_being_noticed(tmp_path: Path) -> None:
    answers = iter([errno.EAGAIN, errno.EAGAIN])
    operations = Faulty(lambda op: next(answers, None) if op == "write" else None)
    clock = FakeClock()
    registry = directory(tmp_path / "abc", clock, operations)
    assert registry.write(record()) is True
    assert clock.slept == []


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_br_25_a_full_disk_leaves_the_old_record_no_rubbish_and_says_so_at_once(tmp_path: Path, number: int) -> None:
    registry = directory(tmp_path / "abc")
    registry.write(record())
    before = (registry.nodes / record().file_name).read_bytes()
    full = Faulty(lambda op: number if op == "write" and full.done.count("write") == 1 else None)
    clock = FakeClock()
    with pytest.raises(Unavailable, match=os.strerror(number)):
        directory(tmp_path / "abc", clock, full).write(record(zone_id="usw2-az1"), patience=180)
    assert clock.slept == []
    assert [path.name for path in registry.nodes.iterdir()] == [record().file_name]
    assert (registry.nodes / record().file_name).read_bytes() == before
    assert registry.write(record(zone_id="usw2-az1")) is True


@pytest.mark.parametrize("seconds", [-646, 646])
def test_br_26_a_record_counts_whatever_the_file_servers_clock_says(registry: RegistryDirectory, seconds: int) -> None:
    registry.write(record())
    stamp = time.time() + seconds
    os.utime(registry.nodes / record().file_name, (stamp, stamp))
    reading = registry.read_all(ARN)
    assert reading.records == {record().instance_id: record()}
    assert reading.issues == ()


def test_a_disk_fault_says_nothing_about_the_node(tmp_path: Path) -> None:
    """A record that was read once, changed, and cannot be read now is as it was (no data is not "no nodes")."""
    failing: set[str] = set()

    def open_file(name: str, *arguments: Any, **more: Any) -> int:
        if name in failing:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return os.open(name, *arguments, **more)

    registry = directory(tmp_path / "abc", open_file=open_file)
    registry.write(record(1))
    registry.write(record(2))
    first = registry.read_all(ARN)
    failing.update(record(number).file_name for number in (1, 2, 3))
    registry.write(record(2, zone_id="usw2-az1"))
    registry.write(record(3))
    second = registry.read_all(ARN, first)
    assert second.records == {record(1).instance_id: record(1), record(2).instance_id: record(2)}
    assert [issue.where for issue in second.issues] == [f"nodes/{record(n).file_name}" for n in (2, 3)]
    failing.clear()
    third = registry.read_all(ARN, second)
    assert third.issues == ()
    assert third.records[record(2).instance_id].zone_id == "usw2-az1"
    assert len(third.records) == 3
