"""The files slurmctld reads: found where it looks, one step at a time, nobody else's work lost."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fakes import Quick
from topology_plugin.adapters.files import Operations, RealFiles
from topology_plugin.adapters.live_files import Interfered, LiveFiles
from topology_plugin.core.issues import InputError
from topology_plugin.core.plan import RemoveText, SetPlugin, SetWords, WriteText, digest

CONF = "ClusterName=c\nNodeName=n[1-4]\nPartitionName=a Nodes=ALL # one\nInclude more.conf\n"
MORE = "PartitionName=b Nodes=n1\n"


def yaml(*names: str) -> bytes:
    return "".join(f"- topology: {name}\n  flat: true\n" for name in names).encode()


@pytest.fixture
def etc(tmp_path: Path) -> Path:
    directory = tmp_path / "etc"
    directory.mkdir()
    (directory / "slurm.conf").write_text(CONF)
    (directory / "more.conf").write_text(MORE)
    return directory


def live(etc: Path, operations: Operations | None = None) -> LiveFiles:
    return LiveFiles(RealFiles(operations or Quick()), str(etc / "slurm.conf"))


def words(etc: Path, name: str = "slurm.conf", **wanted: str | None) -> SetWords:
    return SetWords(str(etc / name), {}, wanted)


def test_everything_slurmctld_reads_is_read_with_its_includes(etc: Path) -> None:
    (etc / "topology.yaml").write_bytes(yaml("t"))
    disk = live(etc).disk()
    assert disk.words == {"a": None, "b": None} and disk.topology_yaml == yaml("t") and disk.topology_conf is None


def test_a_second_look_at_unchanged_files_parses_nothing_again(etc: Path) -> None:
    files = live(etc)
    first = files.disk()
    assert files.disk().conf is first.conf
    (etc / "more.conf").write_text(MORE + "PartitionName=c Nodes=n2\n")
    assert set(files.disk().words) == {"a", "b", "c"}


@pytest.mark.parametrize("name", ["slurm.conf", "topology.yaml"])
def test_a_directory_where_a_file_should_be_is_an_error_not_an_absence(etc: Path, name: str) -> None:
    (etc / name).unlink(missing_ok=True)
    (etc / name).mkdir()
    with pytest.raises((OSError, InputError)):
        live(etc).disk()


def test_bytes_that_are_no_text_survive(etc: Path) -> None:
    raw = CONF.encode().replace(b"one", b"\xff\xfe\xc3")
    (etc / "slurm.conf").write_bytes(raw)
    (etc / "topology.yaml").write_bytes(yaml("t"))
    assert live(etc).perform(words(etc, a="t"))
    assert (etc / "slurm.conf").read_bytes() == raw.replace(b"Nodes=ALL", b"Nodes=ALL Topology=t")


def test_a_step_whose_end_stands_there_already_does_nothing(etc: Path) -> None:
    files = live(etc)
    assert files.perform(WriteText("topology.yaml", yaml("t"), None))
    assert not files.perform(WriteText("topology.yaml", yaml("t"), None))
    assert files.perform(words(etc, a="t")) and not files.perform(words(etc, a="t"))
    assert files.perform(SetPlugin(str(etc / "slurm.conf"), None, "topology/tree"))
    assert not files.perform(SetPlugin(str(etc / "slurm.conf"), None, "topology/tree"))
    assert files.perform(words(etc, a=None))
    assert files.perform(RemoveText("topology.yaml", digest(yaml("t"))))
    assert not files.perform(RemoveText("topology.yaml", digest(yaml("t"))))


def test_a_topology_file_that_is_not_what_the_plan_saw_is_not_overwritten(etc: Path) -> None:
    files = live(etc)
    (etc / "topology.yaml").write_bytes(yaml("theirs"))
    for step in (WriteText("topology.yaml", yaml("t"), None), WriteText("topology.yaml", yaml("t"), digest(b"older"))):
        with pytest.raises(Interfered, match="changed by someone else"):
            files.perform(step)
    with pytest.raises(Interfered):
        files.perform(RemoveText("topology.yaml", digest(b"older")))
    assert (etc / "topology.yaml").read_bytes() == yaml("theirs")


def test_a_word_written_meanwhile_keeps_its_topology(etc: Path) -> None:
    """Someone named `old` after the plan was made: the file that loses it is not written, nor the file removed."""
    files = live(etc)
    (etc / "topology.yaml").write_bytes(yaml("old"))
    (etc / "more.conf").write_text("PartitionName=b Nodes=n1 Topology=old\n")
    with pytest.raises(Interfered, match="a partition names old"):
        files.perform(WriteText("topology.yaml", yaml("new"), digest(yaml("old"))))
    with pytest.raises(Interfered, match="a partition names old"):
        files.perform(RemoveText("topology.yaml", digest(yaml("old"))))
    assert files.perform(WriteText("topology.yaml", yaml("new", "old"), digest(yaml("old"))))


def test_a_topology_that_vanished_meanwhile_is_not_named(etc: Path) -> None:
    files = live(etc)
    (etc / "topology.yaml").write_bytes(yaml("other"))
    with pytest.raises(Interfered, match=r"topology\.yaml lost new"):
        files.perform(words(etc, a="new"))
    assert (etc / "slurm.conf").read_text() == CONF


class Rival(Quick):
    """Writes the file itself right before our rename, the first `times` times."""

    def __init__(self, path: Path, times: int) -> None:
        self.path, self.times, self.done = path, times, 0

    def mode(self, fd: int, mode: int) -> None:
        super().mode(fd, mode)
        if self.done < self.times:
            self.done += 1
            self.path.write_text(self.path.read_text() + f"# rival {self.done}\n")


@pytest.mark.parametrize("times", [1, 4])
def test_a_slurm_conf_that_changed_is_edited_again_from_what_it_is_now(etc: Path, times: int) -> None:
    (etc / "topology.yaml").write_bytes(yaml("t"))
    assert live(etc, Rival(etc / "slurm.conf", times)).perform(words(etc, a="t"))
    text = (etc / "slurm.conf").read_text()
    assert "PartitionName=a Nodes=ALL Topology=t # one" in text and text.count("# rival") == times


def test_somebody_who_writes_all_the_time_is_given_up_and_loses_nothing(etc: Path) -> None:
    (etc / "topology.yaml").write_bytes(yaml("t"))
    with pytest.raises(Interfered, match="all the time"):
        live(etc, Rival(etc / "slurm.conf", 99)).perform(words(etc, a="t"))
    assert (etc / "slurm.conf").read_text().count("# rival") == 5
    assert [path.name for path in etc.iterdir() if ".hpt-" in path.name] == []


def test_an_include_elsewhere_is_written_where_it_lies(etc: Path, tmp_path: Path) -> None:
    other = tmp_path / "elsewhere.conf"
    other.write_text(MORE)
    (etc / "slurm.conf").write_text(CONF.replace("more.conf", str(other)))
    (etc / "topology.yaml").write_bytes(yaml("t"))
    files = live(etc)
    assert files.perform(SetWords(str(other), {}, {"b": "t"}))
    assert other.read_text() == "PartitionName=b Nodes=n1 Topology=t\n"
    assert set(files.directories()) == {etc, tmp_path}


@pytest.mark.parametrize("hops", [1, 2])
def test_where_slurm_conf_is_a_link_a_new_file_goes_beside_the_real_one_and_is_linked(etc: Path, hops: int) -> None:
    shared = etc.parent / "shared"
    shared.mkdir()
    for name in ("slurm.conf", "more.conf"):
        (etc / name).rename(shared / name)
        (etc / name).symlink_to(f"../shared/{name}")
    if hops == 2:
        middle = etc.parent / "middle"
        middle.mkdir()
        (etc / "slurm.conf").unlink()
        (middle / "slurm.conf").symlink_to("../shared/slurm.conf")
        (etc / "slurm.conf").symlink_to("../middle/slurm.conf")
    files = live(etc)
    assert files.perform(WriteText("topology.yaml", yaml("t"), None))
    assert (etc / "topology.yaml").is_symlink() and (shared / "topology.yaml").read_bytes() == yaml("t")
    assert (etc / "topology.yaml").resolve() == shared / "topology.yaml"
    assert files.perform(WriteText("topology.yaml", yaml("u"), digest(yaml("t"))))
    assert (etc / "topology.yaml").is_symlink() and files.disk().topology_yaml == yaml("u")
    assert files.perform(RemoveText("topology.yaml", digest(yaml("u"))))
    assert not (etc / "topology.yaml").is_symlink() and not (shared / "topology.yaml").exists()


def test_a_link_that_another_controllers_setup_left_dangling_is_filled(etc: Path) -> None:
    shared = etc.parent / "shared"
    shared.mkdir()
    (etc / "topology.yaml").symlink_to("../shared/topology.yaml")
    assert live(etc).perform(WriteText("topology.yaml", yaml("t"), None))
    assert (etc / "topology.yaml").is_symlink() and (shared / "topology.yaml").read_bytes() == yaml("t")


@pytest.mark.parametrize("name", ["topology.yaml", "topology.conf"])
@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir], ids=["pipe", "directory"])
def test_what_is_no_file_is_named_and_not_waited_for(etc: Path, name: str, make: Callable[[Path], None]) -> None:
    make(etc / name)
    with pytest.raises(OSError, match="no file, but a directory, a pipe or a device") as failed:
        live(etc).disk()
    assert failed.value.filename == str(etc / name)
