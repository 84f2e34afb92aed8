"""guard: what would kill slurmctld becomes the last good generation or flat alone; what starts stays byte for byte."""

from __future__ import annotations

import errno
import os
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.guarding import BROKEN, break_, classic, run
from tests.app.machine import CONF, MORE, ONE, RENAMED, TWO, Machine
from tests.fakes import Quick
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.generations import FLAT_TEXT
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.app.guard import Guarded
from topology_plugin.core import topology_yaml


@pytest.mark.parametrize("how", BROKEN)
def test_without_a_good_generation_the_words_go_and_flat_alone_stays(machine: Machine, how: str) -> None:
    break_(machine, how)
    broken = machine.snapshot()
    done = run(machine)
    assert (done.outcome, done.what) == ("mended", "topology.yaml with flat alone")
    assert done.issues and done.steps
    assert (machine.etc / "topology.yaml").read_bytes() == FLAT_TEXT
    assert (machine.etc / "slurm.conf").read_text() == CONF
    assert (machine.etc / "more.conf").read_bytes() == MORE.encode()
    assert machine.slurm.load() is None
    # The broken ones are kept, for root's eyes.
    assert done.kept is not None and (done.kept.stat().st_mode & 0o777) == 0o700
    kept = {path.name: path.read_bytes() for path in done.kept.iterdir()}
    assert kept.pop("why.txt")
    assert kept == {name if name != "more.conf" else "1-more.conf": data for name, data in broken.items()}
    again = machine.snapshot()
    assert run(machine).outcome == "startable" and machine.snapshot() == again


@pytest.mark.parametrize("how", BROKEN)
def test_the_last_good_generation_comes_back(machine: Machine, how: str) -> None:
    machine.apply(RENAMED)
    machine.apply(ONE)
    machine.apply(TWO)
    break_(machine, how)
    done = run(machine)
    assert (done.outcome, done.what) == ("mended", "generation 3")
    assert machine.slurm.load() is None
    assert machine.slurm.loaded is not None
    assert replace(machine.slurm.loaded, words=machine.slurm.words) == TWO


def test_a_generation_that_no_longer_fits_slurm_conf_is_passed_over(machine: Machine) -> None:
    """A NodeName line names a topology that only the first generation had: the newest would not start."""
    machine.apply(RENAMED)
    machine.apply(ONE)
    path = machine.etc / "slurm.conf"
    path.write_text(path.read_text().replace("CPUs=4 ", "CPUs=4 Topology=fabric:s1 "))
    (machine.etc / "topology.yaml").write_text("[]")
    done = run(machine)
    assert (done.outcome, done.what) == ("mended", "generation 1")


def test_a_generation_that_was_only_begun_is_never_chosen(machine: Machine) -> None:
    machine.apply(ONE)
    begun = machine.generations.get(1)
    assert begun is not None
    text = topology_yaml.render(TWO).encode()
    machine.generations.keep(replace(begun, number=2, topology_yaml=text, words=TWO.words, finished=False))
    break_(machine, "truncated")
    assert run(machine).what == "generation 1"


@pytest.mark.parametrize("configuration", [None, ONE, TWO], ids=["none", "one", "two"])
@pytest.mark.parametrize("mode", ["auto", "manage", "observe"])
def test_what_starts_is_not_touched(machine: Machine, configuration: object, mode: str) -> None:
    if configuration is ONE or configuration is TWO:
        machine.apply(configuration)
    else:
        (machine.etc / "topology.yaml").write_bytes(b"- topology: theirs\r\n  flat: true\r\n# nobody's business\r\n")
    stamps = {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in machine.etc.iterdir()}
    assert run(machine, mode=mode) == Guarded("startable")
    assert {p: (p.stat().st_ino, p.stat().st_mtime_ns) for p in machine.etc.iterdir()} == stamps
    assert not (machine.state_dir / "broken").exists()


def test_mode_off_touches_nothing(machine: Machine) -> None:
    break_(machine, "truncated")
    before = machine.snapshot()
    assert run(machine, mode="off").outcome == "off"
    assert machine.snapshot() == before


def test_mode_observe_mends_too(machine: Machine) -> None:
    break_(machine, "truncated")
    assert run(machine, mode="observe").outcome == "mended"


def test_a_missing_slurm_conf_is_not_made_up(machine: Machine) -> None:
    (machine.etc / "slurm.conf").unlink()
    done = run(machine)
    assert done.outcome == "unreadable" and done.issues
    assert not (machine.etc / "slurm.conf").exists() and not (machine.etc / "topology.yaml").exists()


@pytest.mark.parametrize("place", ["state_dir", "etc"])
def test_a_full_disk_leaves_what_stands_there(tmp_path: Path, place: str) -> None:
    class Full(Quick):
        def write(self, fd: int, data: memoryview) -> int:
            where = Path(f"/proc/self/fd/{fd}").readlink()
            if ("state" if place == "state_dir" else "etc") in where.parts:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            return super().write(fd, data)

    machine = Machine(tmp_path, Full())
    break_(machine, "a word that names nothing")
    before = machine.snapshot()
    done = run(machine)
    if place == "state_dir":  # nothing can be kept aside, and that must not matter
        assert (done.outcome, done.kept) == ("mended", None)
    else:
        assert done.outcome == "failed" and "No space left" in str(done.issues[0])
        assert machine.snapshot() == before


def test_only_the_newest_broken_files_are_kept(machine: Machine) -> None:
    for number in range(8):
        (machine.etc / "topology.yaml").write_text(f"[] # {number}\n")
        assert run(machine).outcome == "mended"
    kept = sorted((machine.state_dir / "broken").iterdir(), key=lambda path: int(path.name))
    assert [path.name for path in kept] == ["4", "5", "6", "7", "8"]
    assert (kept[-1] / "topology.yaml").read_text() == "[] # 7\n"


def test_words_inherited_from_a_default_line_go_too(machine: Machine) -> None:
    path = machine.etc / "slurm.conf"
    path.write_text("PartitionName=DEFAULT Topology=gone State=UP\n" + CONF)
    assert run(machine).outcome == "mended"
    assert path.read_text() == "PartitionName=DEFAULT State=UP\n" + CONF


# --- Slurm 24.11 ---


GOOD_CONF = "SwitchName=s1 Nodes=n[1-8]\n"


@pytest.mark.parametrize(
    ("plugin", "conf", "word", "default"),
    [
        pytest.param("topology/tree", None, False, False, id="br-15b: no topology.conf"),
        pytest.param("topology/tree", "", False, False, id="empty topology.conf"),
        pytest.param("topology/block", "", False, False, id="empty topology.conf under block"),
        pytest.param("topology/block", GOOD_CONF, False, False, id="of another kind"),
        pytest.param("topology/tree", GOOD_CONF, True, False, id="a Topology= word"),
        pytest.param(None, None, True, False, id="a Topology= word alone"),
    ],
)
def test_br_15_on_24_11_the_words_go_and_the_plugin_becomes_the_default(
    machine: Machine, plugin: str | None, conf: str | None, word: bool, default: bool
) -> None:
    text = classic(machine, plugin, conf, word, default)
    done = run(machine, classic=True)
    assert (done.outcome, done.what) == ("mended", "flat")
    wanted = text.replace(" Topology=tree", "").replace(f"TopologyPlugin={plugin}", "TopologyPlugin=topology/default")
    found = (machine.etc / "slurm.conf").read_text()
    assert found == wanted if plugin else found.replace("TopologyPlugin=topology/default\n", "") == wanted
    if conf is not None:
        assert (machine.etc / "topology.conf").read_text() == conf, "not read any more, so it stays for inspection"
    assert not (machine.etc / "topology.yaml").exists(), "br-16: nothing that would take over after an upgrade"
    assert run(machine, classic=True).outcome == "startable"


def test_on_24_11_a_healthy_cluster_is_left_alone(machine: Machine) -> None:
    classic(machine, "topology/tree", GOOD_CONF)
    before = machine.snapshot()
    assert run(machine, classic=True) == Guarded("startable")
    assert machine.snapshot() == before


def test_the_agent_writing_at_this_very_moment_does_not_stop_guard(tmp_path: Path) -> None:
    class Agent(Quick):
        armed = True

        def rename(self, source: Path, target: Path) -> None:
            super().rename(source, target)
            if self.armed and target.name == "topology.yaml" and target.parent.name == "etc":
                self.armed = False
                (target.parent / "topology.yaml").write_text("[]\n")

    machine = Machine(tmp_path, Agent())
    break_(machine, "br-15a: [] and a word")
    assert run(machine).outcome == "mended"
    assert LiveFiles(RealFiles(), str(machine.etc / "slurm.conf")).disk().topology_yaml == FLAT_TEXT
