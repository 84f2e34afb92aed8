"""Disks that fail, links, strange owners and curious readers, with a real slurmctld beside them."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from tests.disks import small_disk
from tests.slurm.change import (
    AFTER,
    BEFORE,
    EMPTY,
    SET_AFTER,
    SET_BEFORE,
    Stage,
    become,
    before_the_change,
    files,
    gb,
)
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import Counted, leftovers, passed, points, reconciler
from tests.slurm.room import Room, same
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.reconcile import Wish
from topology_plugin.core import plan as planning
from topology_plugin.core import target
from topology_plugin.core.topology import Configuration
from topology_plugin.jobs.simulated_cluster import in_tree

CODES = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT)


def failing(room: Room, point: int, code: int, times: int = 1) -> Counted:
    """Fails at that point of the pass (from 0 on), `times` times in a row; writes are half done by then."""
    count = [0]

    def at(operation: str, what: str) -> None:
        count[0] += 1
        if point < count[0] <= point + times:
            raise OSError(code, os.strerror(code), what)

    return Counted(at)


def test_br_25_every_operation_on_live_files_and_every_third_elsewhere_fails_once(room: NewRoom) -> None:
    """The former state stands on disk and in force, the pass says why, nothing temporary is left; then all is well.

    (tests/app/test_cut_off_changes.py fails every write and rename, with a pretended slurmctld.)
    """
    here = room()
    before_the_change(here)
    stage = Stage(here)
    found = points(here, **SET_AFTER)
    wanted = here.in_force()
    stage.restore()
    former_files, former = files(here), here.in_force()
    failures = tried = 0
    for point, (operation, what) in enumerate(found):
        if operation == "scontrol" or ("/etc/" not in what and point % 3):
            continue
        stage.restore()
        code = CODES[tried % len(CODES)]
        tried += 1
        where = f"point {point} of {len(found)}: {operation} {what}, {os.strerror(code)}"
        try:
            reconciler(here, failing(here, point, code), **SET_AFTER).run(Wish())
        except ApplyFailed as failed:
            failures += 1
            assert os.strerror(code) in str(failed) and failed.undone, where
            assert files(here) == former_files, where
            assert same(here.in_force(), former), where
            assert leftovers(here) == [], where
        else:
            # Only a note of ours failed, before the change or after it: that is no reason to do without it.
            assert "/etc/" not in what and same(here.in_force(), wanted), where
            assert passed(here, **SET_AFTER).state.last.result == "unchanged", where
            assert leftovers(here) == [], where
    assert failures >= 30, "fewer operations than a whole change has"
    stage.restore()
    assert passed(here, **SET_AFTER).state.last.result == "applied"
    assert same(here.in_force(), wanted) and not same(former, wanted)
    print(f"{tried} of {len(found)} operations failed, {len(CODES)} kinds; {failures} passes failed with them")


def test_br_25_a_busy_file_server_is_asked_again(room: NewRoom) -> None:
    here = room()
    before_the_change(here)
    places = [n for n, (operation, _) in enumerate(points(here, **SET_AFTER)) if operation in ("create", "rename")]
    become(here, BEFORE)
    passed(here, **SET_BEFORE)
    for point in places[:: max(1, len(places) // 6)]:
        for simulated, settings in ((AFTER, SET_AFTER), (BEFORE, SET_BEFORE)):
            become(here, simulated)
            operations = failing(here, point, errno.EAGAIN, times=2)
            assert reconciler(here, operations, **settings).run(Wish()).state.last.result == "applied"


def test_br_25_a_disk_that_is_really_full_after_half_the_bytes(room: NewRoom) -> None:
    here = room()
    many = EMPTY.with_machines([*in_tree("worker-p5", "ml.p5.48xlarge", 400, per_leaf=2, seed=3), *gb])
    with small_disk(here.conf.parent, "256k"):
        try:
            here.registry.mkdir(parents=True)
            here.boot(many)
            assert passed(here).state.last.result == "applied"
            become(here, EMPTY.with_machines([*in_tree("worker-p5", "ml.p5.48xlarge", 402, per_leaf=2, seed=4), *gb]))
            assert here.ctld.reconfigure()
            former_files = files(here)
            need = len(former_files["topology.yaml"])
            assert need > 16_000
            filler = here.conf.parent / "filler"
            free = os.statvfs(here.conf.parent)
            filler.write_bytes(b"x" * (free.f_bavail * free.f_frsize - need // 2))
            with pytest.raises(ApplyFailed, match="No space left on device") as failed:
                passed(here)
            assert failed.value.code == "write"
            filler.unlink()
            assert files(here) == former_files and leftovers(here) == []
            assert passed(here).state.last.result == "applied"
        finally:
            here.ctld.stop()


def describe(path: Path) -> tuple[int, int, int, str | None]:
    """Mode, owner, group, and what the link says if it is one."""
    now = path.stat()
    return stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid, str(path.readlink()) if path.is_symlink() else None


def test_0600_files_of_another_owner_keep_both(room: NewRoom) -> None:
    here = room()
    here.registry.mkdir(parents=True)
    here.boot(BEFORE)
    os.chown(here.conf, 4711, 4712)
    here.conf.chmod(0o600)
    passed(here, **SET_BEFORE)
    assert describe(here.conf) == (0o600, 4711, 4712, None)
    assert describe(here.yaml) == (0o644, 4711, 4712, None), "new: readable by all, owner as slurm.conf"
    here.yaml.chmod(0o600)
    passed(here, **SET_AFTER)
    assert describe(here.conf) == (0o600, 4711, 4712, None)
    assert describe(here.yaml) == (0o600, 4711, 4712, None)


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "relative"])
def test_several_controllers_each_file_a_link_into_a_shared_directory(room: NewRoom, absolute: bool) -> None:
    here = room()
    here.registry.mkdir(parents=True)
    here.boot(BEFORE)
    etc, shared = here.conf.parent, here.controller / "shared" / "slurm"
    shared.mkdir(parents=True)
    text = str(shared) if absolute else "../../../shared/slurm"
    # Absolute links lead out of a --root; a slurm.conf given by flag is taken where it is.
    more = {"slurm_conf": str(here.conf)} if absolute else {}
    here.conf.rename(shared / "slurm.conf")
    here.conf.symlink_to(f"{text}/slurm.conf")
    passed(here, **SET_BEFORE, **more)
    assert here.conf.readlink() == Path(text) / "slurm.conf"
    assert here.yaml.readlink() == Path(text) / "topology.yaml", "a new file goes beside the real one, and is linked"
    assert sorted(path.name for path in shared.iterdir()) == ["slurm.conf", "topology.yaml"]
    before = {path: describe(path) for path in (*etc.iterdir(), *shared.iterdir())}
    outcome = passed(here, **SET_AFTER, **more)
    assert outcome.state.last.result == "applied"
    assert {path: describe(path) for path in (*etc.iterdir(), *shared.iterdir())} == before
    assert same(here.in_force(), outcome.state.desired)
    here.ctld.restart()
    assert same(here.in_force(), outcome.state.desired)


def test_br_16_opt_slurm_is_a_link_to_the_live_one_of_two(room: NewRoom) -> None:
    here = room()
    here.registry.mkdir(parents=True)
    here.boot(BEFORE)
    opt = here.controller / "opt"
    other = opt / "slurm-24.11" / "etc"
    other.mkdir(parents=True)
    (other / "slurm.conf").write_text("# the older one, not in use\n")
    (opt / "slurm").rename(opt / "slurm-26.05")
    (opt / "slurm").symlink_to("slurm-26.05")
    outcome = passed(here, **SET_AFTER)
    assert same(here.in_force(), outcome.state.desired)
    assert (opt / "slurm").is_symlink() and not (opt / "slurm-26.05" / "etc" / "topology.yaml").is_symlink()
    assert [path.name for path in other.iterdir()] == ["slurm.conf"]
    assert (other / "slurm.conf").read_text() == "# the older one, not in use\n"


def read_on(paths: list[Path], known: list[set[bytes]], stop: Event, results: multiprocessing.Queue[str]) -> None:
    """What a slurmstepd or slurmctld does: size first, then the content. Reports anything that is not whole."""
    reads = 0
    while not stop.is_set():
        for path, contents in zip(paths, known, strict=True):
            with path.open("rb") as file:
                size = os.fstat(file.fileno()).st_size
                found = file.read()
            reads += 1
            if found not in contents or len(found) != size:
                results.put(f"{path.name}: {len(found)} of {size} bytes")
                return
    results.put(f"whole {reads}")


def test_br_21_a_reader_beside_200_publishes_sees_old_or_new_whole_always(room: NewRoom) -> None:
    here = room()
    here.registry.mkdir(parents=True)
    here.boot(BEFORE)
    two = [passed(here, **settings).state.desired for settings in (SET_AFTER, SET_BEFORE)]
    live = LiveFiles(RealFiles(), str(here.conf))
    known: list[set[bytes]] = [set(), set()]

    def publish(configuration: Configuration) -> None:
        disk = live.disk()
        for step in planning.plan(disk, target.of_configuration(configuration, disk), reconfigure=False).file_steps:
            if isinstance(step, planning.WriteText):
                known[1].add(step.data)
            live.perform(step)
        known[0].add(here.conf.read_bytes())
        known[1].add(here.yaml.read_bytes())

    for configuration in (*two, *two):
        publish(configuration)
    context = multiprocessing.get_context("fork")
    stop, results = context.Event(), context.Queue()
    reader = context.Process(target=read_on, args=([here.conf, here.yaml], known, stop, results))
    reader.start()
    for number in range(200):
        publish(two[number % 2])
    stop.set()
    said = results.get(timeout=20)
    reader.join(20)
    assert said.startswith("whole ") and int(said.split()[1]) > 200, said
    print(f"{said} reads")
