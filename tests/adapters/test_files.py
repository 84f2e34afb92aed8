"""Files that others read while we write: the old content or the new, whole, with mode, owner and links as before."""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from topology_plugin.adapters.files import Changed, FileError, Operations, RealFiles

OLD, NEW = b"old content\n", b"new content, somewhat longer\n" * 100
WRITING = ("open", "write", "owner", "mode", "sync", "rename")


class Failing(Operations):
    """Fails in the named operation with `code`: always, or only the first `times`; of a write, half is done before."""

    def __init__(self, operation: str, code: int, times: int = 1 << 30) -> None:
        self.operation, self.code, self.times = operation, code, times
        self.pauses = 0
        self._half = False

    def _fail(self, operation: str) -> None:
        if operation == self.operation and self.times > 0:
            self.times -= 1
            raise OSError(self.code, os.strerror(self.code))

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        if flags & os.O_CREAT:
            self._fail("open")
        return super().open(path, flags, mode)

    def write(self, fd: int, data: memoryview) -> int:
        if self.operation == "write" and self.code not in (errno.EAGAIN, errno.EINTR) and not self._half:
            self._half = True
            return super().write(fd, data[: len(data) // 2])
        self._fail("write")
        return super().write(fd, data)

    def owner(self, fd: int, uid: int, gid: int) -> None:
        self._fail("owner")
        super().owner(fd, uid, gid)

    def mode(self, fd: int, mode: int) -> None:
        self._fail("mode")
        super().mode(fd, mode)

    def sync(self, fd: int) -> None:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            self._fail("sync")
        super().sync(fd)

    def rename(self, source: Path, target: Path) -> None:
        self._fail("rename")
        super().rename(source, target)

    def unlink(self, path: Path) -> None:
        self._fail("unlink")
        super().unlink(path)

    def pause(self, seconds: float) -> None:
        self.pauses += 1


@pytest.fixture
def target(tmp_path: Path) -> Path:
    path = tmp_path / "slurm.conf"
    path.write_bytes(OLD)
    return path


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")


def owned_by_another(path: Path) -> None:
    os.chown(path, 4711, 4712)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS, errno.EDQUOT])
@pytest.mark.parametrize("operation", WRITING)
@needs_root
def test_a_write_that_fails_anywhere_leaves_the_old_file_and_no_temporary_one(
    target: Path, operation: str, code: int
) -> None:
    owned_by_another(target)
    before = target.stat()
    with pytest.raises(FileError) as caught:
        RealFiles(Failing(operation, code)).write(target, NEW)
    assert caught.value.errno == code
    assert str(caught.value).startswith("cannot ")
    assert str(target) in str(caught.value) and os.strerror(code) in str(caught.value)
    assert "the old file stands" in str(caught.value)
    after = target.stat()
    assert target.read_bytes() == OLD
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)
    assert [p.name for p in target.parent.iterdir()] == ["slurm.conf"]


def test_br_25_again_is_tried_again_and_no_space_keeps_the_old_file_and_then_all_is_well(target: Path) -> None:
    busy = Failing("write", errno.EAGAIN, times=2)
    RealFiles(busy).write(target, NEW)
    assert target.read_bytes() == NEW and busy.pauses == 2

    with pytest.raises(FileError, match="No space left on device"):
        RealFiles(Failing("write", errno.ENOSPC)).write(target, OLD)
    assert target.read_bytes() == NEW
    assert [p.name for p in target.parent.iterdir()] == ["slurm.conf"]

    RealFiles().write(target, OLD)
    assert target.read_bytes() == OLD


@pytest.mark.parametrize("operation", ["open", "write", "sync", "rename"])
def test_a_file_server_that_is_busy_for_ever_is_given_up(target: Path, operation: str) -> None:
    busy = Failing(operation, errno.EAGAIN)
    with pytest.raises(FileError):
        RealFiles(busy).write(target, NEW)
    assert busy.pauses == 4
    assert target.read_bytes() == OLD


def test_what_can_be_opened_and_not_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError) as failed:
        RealFiles().read(tmp_path)
    assert failed.value.filename == str(tmp_path)


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o644, 0o664])
@needs_root
def test_an_existing_file_keeps_mode_and_owner(target: Path, mode: int) -> None:
    owned_by_another(target)
    target.chmod(mode)
    RealFiles().write(target, NEW)
    now = target.stat()
    assert (stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid) == (mode, 4711, 4712)
    assert target.read_bytes() == NEW


def test_an_existing_file_keeps_its_attributes(target: Path) -> None:
    """Access lists are attributes too: whoever could read slurm.conf by one still can."""
    try:
        os.setxattr(target, "user.origin", b"by hand")
    except OSError:
        pytest.skip("no attributes on this file system")
    RealFiles().write(target, NEW)
    assert os.getxattr(target, "user.origin") == b"by hand"


@needs_root
def test_a_new_file_gets_0644_and_the_owner_of_its_model_whatever_the_umask(target: Path) -> None:
    owned_by_another(target)
    target.chmod(0o600)
    old = os.umask(0o077)
    try:
        RealFiles().write(target.parent / "topology.yaml", NEW, owner_like=target)
    finally:
        os.umask(old)
    now = (target.parent / "topology.yaml").stat()
    assert (stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid) == (0o644, 4711, 4712)


@needs_root
def test_the_new_content_is_never_readable_by_more_than_the_old_was(target: Path) -> None:
    """The temporary file is 0600 until it is complete: slurm.conf may be 0600 and hold secrets."""
    target.chmod(0o600)
    seen: list[int] = []

    class Watching(Operations):
        def write(self, fd: int, data: memoryview) -> int:
            seen.append(stat.S_IMODE(os.fstat(fd).st_mode))
            return super().write(fd, data)

    RealFiles(Watching()).write(target, NEW)
    assert seen == [0o600]


@pytest.mark.parametrize("absolute", [True, False], ids=["absolute", "relative"])
def test_a_linked_file_is_written_where_it_really_lies_and_the_link_stays(tmp_path: Path, absolute: bool) -> None:
    shared, etc = tmp_path / "shared", tmp_path / "etc"
    shared.mkdir()
    etc.mkdir()
    (shared / "slurm.conf").write_bytes(OLD)
    link = etc / "slurm.conf"
    link.symlink_to(shared / "slurm.conf" if absolute else Path("../shared/slurm.conf"))
    text = link.readlink()
    RealFiles().write(link, NEW)
    assert link.is_symlink() and link.readlink() == text
    assert (shared / "slurm.conf").read_bytes() == NEW
    assert sorted(p.name for p in tmp_path.rglob("*")) == ["etc", "shared", "slurm.conf", "slurm.conf"]


def test_a_file_that_someone_changed_meanwhile_is_not_overwritten(target: Path) -> None:
    files = RealFiles()
    seen = files.identity(target)

    class Racing(Operations):
        def sync(self, fd: int) -> None:
            target.write_bytes(b"the agent was here\n")
            super().sync(fd)

    with pytest.raises(Changed, match="changed by someone else"):
        RealFiles(Racing()).write(target, NEW, expect=seen)
    assert target.read_bytes() == b"the agent was here\n"
    assert [p.name for p in target.parent.iterdir()] == ["slurm.conf"]


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _replace(path: Path) -> None:
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(path.stat().st_atime_ns, path.stat().st_mtime_ns))
    other.replace(path)


def _same_size(path: Path) -> None:
    now = path.stat()
    path.write_bytes(OLD[::-1])
    os.utime(path, ns=(now.st_atime_ns, now.st_mtime_ns))


@pytest.mark.parametrize("change", [_touch, _replace, _same_size, Path.unlink], ids=["mtime", "inode", "bytes", "gone"])
def test_each_part_of_the_identity_counts(target: Path, change: Callable[[Path], None]) -> None:
    seen = RealFiles().identity(target)
    change(target)
    with pytest.raises(Changed):
        RealFiles().write(target, NEW, expect=seen)
    assert not target.exists() or target.read_bytes() != NEW


@pytest.mark.parametrize(
    ("name", "swept"),
    [
        (".slurm.conf.hpt-{host}-{dead}-3", True),
        (".7.hpt-{host}-{dead}-3", True),
        (".slurm.conf.hpt-{host}-{alive}-3", False),
        (".slurm.conf.hpt-another-{dead}-3", False),
        (".slurm.conf.swp", False),
        ("slurm.conf.hpt-{host}-{dead}-3", False),
    ],
)
def test_only_our_own_leftovers_of_dead_runs_are_swept(target: Path, name: str, swept: bool) -> None:
    import socket
    import subprocess

    ended = subprocess.Popen(["true"])
    ended.wait()
    leftover = target.parent / name.format(host=socket.gethostname(), dead=ended.pid, alive=os.getppid())
    if "7" in name.split(".hpt")[0]:
        leftover.mkdir()
        (leftover / "meta.json").write_text("{")
    else:
        leftover.write_bytes(b"half")
    assert RealFiles().sweep(target.parent) == ([leftover.name] if swept else [])
    assert leftover.exists() is not swept
    assert target.read_bytes() == OLD


def test_another_controllers_leftover_goes_when_it_is_an_hour_older_than_its_neighbours(target: Path) -> None:
    leftover = target.parent / ".slurm.conf.hpt-another-1-1"
    leftover.write_bytes(b"half")
    now = target.stat().st_mtime
    os.utime(leftover, (now - 3700, now - 3700))
    assert RealFiles().sweep(target.parent) == [leftover.name]


def test_a_directory_appears_whole_and_replaces_what_stood_there(tmp_path: Path) -> None:
    files = RealFiles()
    files.write_directory(tmp_path / "generations" / "7", {"a": b"1", "b": b"2"})
    files.write_directory(tmp_path / "generations" / "7", {"a": b"3"})
    assert {p.name: p.read_bytes() for p in (tmp_path / "generations" / "7").iterdir()} == {"a": b"3"}
    assert [p.name for p in (tmp_path / "generations").iterdir()] == ["7"]


def test_br_22_a_directory_is_not_made_below_a_mount_point_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(FileError):
        RealFiles().write_directory(tmp_path / "fsx" / "generations" / "7", {"a": b"1"})
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("operation", ["open", "write", "sync", "rename"])
def test_a_directory_that_cannot_be_completed_is_not_there(tmp_path: Path, operation: str) -> None:
    with pytest.raises(FileError):
        RealFiles(Failing(operation, errno.ENOSPC)).write_directory(tmp_path / "generations" / "7", {"a": NEW})
    assert list((tmp_path / "generations").iterdir()) == []


def test_br_21_a_reader_beside_200_publishes_sees_old_or_new_whole_always(target: Path) -> None:
    contents = (b"A" * 4095 + b"\n", b"B" * 70_000 + b"\n")
    files = RealFiles()
    files.write(target, contents[0])
    stop = threading.Event()
    bad: list[str] = []
    reads = 0

    def read() -> None:
        nonlocal reads
        while not stop.is_set():
            size = target.stat().st_size
            with target.open("rb") as handle:
                held = os.fstat(handle.fileno()).st_size
                found = handle.read()
            reads += 1
            if found not in contents or len(found) != held or size not in map(len, contents):
                bad.append(f"{size} {held} {len(found)}")

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(200):
            files.write(target, contents[number % 2])
    finally:
        stop.set()
        reader.join()
    assert bad == []
    assert reads > 20
