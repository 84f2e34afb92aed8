"""The registry: records as nodes wrote them, and whatever else lies there named and passed over."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.registries import ARN, issues, record
from topology_plugin.adapters.registry import RegistryDirectory, Unavailable
from topology_plugin.core import records

ROOT = os.geteuid() == 0


def test_what_is_written_is_read(registry: RegistryDirectory) -> None:
    for number in (3, 1, 2):
        assert registry.write(record(number)) is True
    reading = registry.read_all(ARN)
    assert list(reading.records.values()) == [record(1), record(2), record(3)]
    assert reading.issues == ()


def test_the_same_facts_are_not_written_again(registry: RegistryDirectory) -> None:
    registry.write(record())
    path = registry.nodes / record().file_name
    before = path.stat()
    assert registry.write(record()) is False
    assert path.stat() == before
    assert registry.write(record(zone_id="usw2-az2")) is True
    assert path.stat().st_ino != before.st_ino


def test_directories_and_records_are_readable_by_all_whatever_the_umask(registry: RegistryDirectory) -> None:
    former = os.umask(0o077)
    try:
        registry.write(record())
    finally:
        os.umask(former)
    for path, mode in (
        (registry.directory, 0o755),
        (registry.nodes, 0o755),
        (registry.nodes / record().file_name, 0o644),
    ):
        assert path.stat().st_mode & 0o777 == mode


def test_a_missing_registry_is_not_an_empty_one(registry: RegistryDirectory) -> None:
    with pytest.raises(Unavailable, match="no node has registered yet"):
        registry.read_all(ARN)
    registry.nodes.mkdir(parents=True)
    assert registry.read_all(ARN).records == {}


def test_a_file_in_the_directorys_place_is_not_an_empty_registry(registry: RegistryDirectory) -> None:
    registry.directory.mkdir(parents=True)
    registry.nodes.write_text("")
    with pytest.raises(Unavailable, match="cannot be read"):
        registry.read_all(ARN)
    with pytest.raises(Unavailable):
        registry.write(record(), patience=3600)


def test_only_what_changed_is_read_again(registry: RegistryDirectory) -> None:
    for number in range(1, 4):
        registry.write(record(number))
    first = registry.read_all(ARN)
    second = registry.read_all(ARN, first)
    assert second.changed is False
    assert all(second.seen[name] is first.seen[name] for name in first.seen)
    registry.write(record(2, zone_id="usw2-az1"))
    (registry.nodes / record(3).file_name).unlink()
    third = registry.read_all(ARN, second)
    assert third.changed is True
    assert list(third.records) == [record(1).instance_id, record(2).instance_id]
    assert third.records[record(2).instance_id].zone_id == "usw2-az1"
    assert third.seen[record(1).file_name] is first.seen[record(1).file_name]
    assert third.seen[record(2).file_name] is not first.seen[record(2).file_name]


def test_another_clusters_arn_reads_everything_anew(registry: RegistryDirectory) -> None:
    registry.write(record())
    first = registry.read_all(ARN)
    other = registry.read_all(ARN.replace("abc", "xyz"), first)
    assert other.records == {}
    assert "belongs to another cluster" in issues(other)[0]


def make_odd(nodes: Path) -> None:
    """Everything in a registry that is no record: each must be one issue, and hang or break nothing."""
    text = records.dump(record())
    (nodes / "README").write_text("hello")
    (nodes / "i-0link.json").symlink_to(nodes / record().file_name)
    (nodes / "i-0dangling.json").symlink_to("/nowhere/at/all")
    (nodes / "i-0directory.json").mkdir()
    os.mkfifo(nodes / "i-0pipe.json")
    (nodes / "i-0large.json").write_bytes(b" " * (64 * 1024) + text)
    (nodes / "i-0cut.json").write_bytes(text[:50])
    (nodes / "i-0empty.json").write_bytes(b"")
    (nodes / "i-0copy.json").write_bytes(text)
    os.close(os.open(os.fsencode(nodes) + b"/i-\xff\n.json", os.O_CREAT | os.O_WRONLY))
    (nodes / f".{record().file_name}.hpt-ip-10-1-1-1-77-1").write_bytes(text[:20])


def test_every_thing_that_is_no_record_is_named_once_and_costs_no_other(registry: RegistryDirectory) -> None:
    registry.write(record())
    make_odd(registry.nodes)
    start = time.monotonic()
    reading = registry.read_all(ARN)
    assert time.monotonic() - start < 5  # the pipe has no writer
    assert reading.records == {record().instance_id: record()}
    expected = {
        "README": "not named by an instance id",
        "i-0link.json": "not a regular file",
        "i-0dangling.json": "not a regular file",
        "i-0directory.json": "not a regular file",
        "i-0pipe.json": "not a regular file",
        "i-0large.json": "larger than 65536 bytes",
        "i-0cut.json": "not valid JSON",
        "i-0empty.json": "is empty",
        "i-0copy.json": "named by its own instance id",
        "'i-\\udcff\\n.json'": "not named by an instance id",
    }
    assert {
        i.where.removeprefix("nodes/"): words for i in reading.issues for words in expected.values() if words in i.what
    } == expected
    assert len(reading.issues) == len(expected)
    assert all(text.isprintable() for text in issues(reading))
    again = registry.read_all(ARN, reading)
    assert again.issues == reading.issues
    assert again.new_issues == ()
    assert reading.new_issues == reading.issues


@pytest.mark.skipif(not ROOT, reason="only root can give a file away")
def test_a_record_of_another_user_is_not_taken(registry: RegistryDirectory) -> None:
    registry.write(record())
    path = registry.nodes / record().file_name
    os.chown(path, 12345, 12345)
    reading = registry.read_all(ARN)
    assert reading.records == {}
    assert "belongs to user 12345, the directory to user 0" in issues(reading)[0]
    # The node that registers takes the name back, and not by writing into the other user's file.
    assert registry.write(record()) is True
    assert path.stat().st_uid == 0
    assert registry.read_all(ARN, reading).records == {record().instance_id: record()}


def test_a_link_in_the_records_place_is_replaced_not_followed(registry: RegistryDirectory, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_bytes(records.dump(record()))
    registry.nodes.mkdir(parents=True)
    path = registry.nodes / record().file_name
    path.symlink_to(victim)
    assert registry.write(record(zone_id="usw2-az1")) is True
    assert not path.is_symlink()
    assert victim.read_bytes() == records.dump(record())


def test_a_registry_that_others_may_write_is_said(registry: RegistryDirectory) -> None:
    registry.write(record())
    registry.nodes.chmod(0o777)
    reading = registry.read_all(ARN)
    assert reading.records == {record().instance_id: record()}
    assert "others than its owner may write here" in issues(reading)[0]


def test_a_record_is_removed_only_as_it_was_seen(registry: RegistryDirectory) -> None:
    registry.write(record(1))
    registry.write(record(2))
    reading = registry.read_all(ARN)
    registry.write(record(2, zone_id="usw2-az1"))  # it registered again meanwhile
    assert registry.remove(reading, record(1).instance_id) is True
    assert registry.remove(reading, record(1).instance_id) is False
    assert registry.remove(reading, record(2).instance_id) is False
    assert registry.remove(reading, record(3).instance_id) is False
    assert list(registry.read_all(ARN).records) == [record(2).instance_id]


def test_a_large_registry_costs_little_more_than_opening_and_decoding_its_files(registry: RegistryDirectory) -> None:
    registry.nodes.mkdir(parents=True)
    for number in range(2048):
        (registry.nodes / record(number).file_name).write_bytes(records.dump(record(number)))

    def plain() -> None:
        for path in registry.nodes.iterdir():
            with path.open("rb") as file:
                json.loads(file.read())

    def seconds(call: Callable[[], Any]) -> float:
        start = time.process_time()
        call()
        return time.process_time() - start

    reading = registry.read_all(ARN)
    calls: tuple[Callable[[], Any], ...] = (
        plain,
        lambda: registry.read_all(ARN),
        lambda: registry.read_all(ARN, reading),
    )
    # In turn, the least of many: what else the machine does falls on all three.
    floor, cold, warm = (
        min(times) for times in zip(*([seconds(call) for call in calls] for _ in range(12)), strict=True)
    )
    assert len(reading.records) == 2048
    assert cold < 2.5 * floor  # about as long as the plain loop, measured; relative, as the machine may be busy
    assert warm < cold / 2
