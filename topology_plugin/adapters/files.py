"""Files that others read while we write: whole or not at all, with the mode, owner and links they had."""

from __future__ import annotations

import contextlib
import errno
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from topology_plugin.adapters.file_door import NEW_MODE, Changed, FileError, Files, Identity
from topology_plugin.adapters.operations import Operations

LEFTOVER = re.compile(r"^\..+\.hpt-(?P<host>[A-Za-z0-9_.-]*)-(?P<pid>\d+)-(?P<serial>\d+)$")
AGAIN = (errno.EAGAIN, errno.EINTR)
ATTEMPTS = 5  # an NFS server that answers EAGAIN five times in a row is not busy but broken
FOREIGN_LEFTOVER_SECONDS = 3600.0
DIRECTORY_MODE = 0o755

T = TypeVar("T")


class RealFiles:
    """The local file system (or a shared one that is mounted)."""

    def __init__(self, operations: Operations | None = None) -> None:
        self.operations = operations or Operations()
        self._serial = 0

    def read(self, path: Path) -> bytes:
        try:
            return self._again(lambda: self._read(path))
        except OSError as error:
            error.filename = error.filename or str(path)  # a directory can be opened, and reading it names nothing
            raise

    def identity(self, path: Path) -> Identity | None:
        try:
            return self._again(lambda: self._identity(path))
        except FileNotFoundError:
            return None

    def write(
        self,
        path: Path,
        data: bytes,
        *,
        expect: Identity | None = None,
        new_mode: int = NEW_MODE,
        owner_like: Path | None = None,
    ) -> None:
        real = path.resolve()
        temporary: Path | None = None
        doing = "look at"
        try:
            mode, uid, gid = self._future_owner(real, new_mode, owner_like)
            doing = "create a temporary file beside"
            temporary = self._temporary(real)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
            fd = self._again(partial(self.operations.open, temporary, flags, 0o600))
            try:
                doing = "write"
                self._write_all(fd, data)
                doing = "keep owner and mode of"
                if (uid, gid) != (os.geteuid(), os.fstat(fd).st_gid):
                    self.operations.owner(fd, uid, gid)
                self.operations.mode(fd, mode)  # after the owner: chown clears set-id bits
                with contextlib.suppress(OSError):  # none there yet, or a file system without them
                    self.operations.attributes(real, fd)
                doing = "flush"
                self._again(lambda: self.operations.sync(fd))
            finally:
                self.operations.close(fd)
            if expect is not None and self.identity(real) != expect:
                raise Changed(f"{path} was changed by someone else in between")
            doing = "rename the new file over"
            self._again(partial(self.operations.rename, temporary, real))
            temporary = None
            doing = "flush the directory of"
            self._sync_directory(real.parent)
        except OSError as error:
            kept = "the old file stands" if temporary is not None or doing == "look at" else "the new file stands"
            raise FileError(error.errno, f"cannot {doing} {path}: {_why(error)}; {kept}") from error
        finally:
            if temporary is not None:
                with contextlib.suppress(OSError):
                    self.operations.unlink(temporary)

    def remove(self, path: Path) -> None:
        try:
            self._again(lambda: self.operations.unlink(path))
            self._sync_directory(path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileError(error.errno, f"cannot remove {path}: {_why(error)}") from error

    def write_directory(self, path: Path, contents: Mapping[str, bytes], *, private: bool = False) -> None:
        temporary = self._temporary(path)
        try:
            self._again(partial(self.operations.mkdir, path.parent, DIRECTORY_MODE))
            self._again(partial(self.operations.mkdir, temporary, 0o700 if private else DIRECTORY_MODE))
            for name, data in contents.items():
                self.write(temporary / name, data, new_mode=0o600 if private else NEW_MODE)
            if path.is_dir():
                self.remove_directory(path)
            self._again(partial(self.operations.rename, temporary, path))
            self._sync_directory(path.parent)
        except OSError as error:
            with contextlib.suppress(OSError):
                self._clear(temporary)
            raise FileError(error.errno, f"cannot write {path}: {_why(error)}") from error

    def make_directory(self, path: Path) -> None:
        try:
            for directory in (*reversed(path.parents), path):
                if not directory.is_dir():
                    self._again(partial(self.operations.mkdir, directory, DIRECTORY_MODE))
        except OSError as error:
            raise FileError(error.errno, f"cannot make the directory {path}: {_why(error)}") from error

    def remove_directory(self, path: Path) -> None:
        temporary = self._temporary(path)
        try:
            self._again(partial(self.operations.rename, path, temporary))
            self._clear(temporary)
            self._sync_directory(path.parent)
        except FileNotFoundError:
            return
        except OSError as error:
            raise FileError(error.errno, f"cannot remove {path}: {_why(error)}") from error

    def link(self, text: str, path: Path) -> None:
        try:
            self.operations.symlink(text, path)
            self._sync_directory(path.parent)
        except OSError as error:
            raise FileError(error.errno, f"cannot link {path} to {text}: {_why(error)}") from error

    def move(self, path: Path, target: Path) -> None:
        try:
            self._again(partial(self.operations.rename, path, target))
            self._sync_directory(path.parent)
        except OSError as error:
            raise FileError(error.errno, f"cannot move {path} to {target.name}: {_why(error)}") from error

    def names(self, directory: Path) -> list[str]:
        try:
            return sorted(entry.name for entry in directory.iterdir())
        except (FileNotFoundError, NotADirectoryError):
            return []

    def sweep(self, directory: Path) -> list[str]:
        swept: list[str] = []
        for name in self.names(directory):
            found = LEFTOVER.match(name)
            if found and self._abandoned(directory / name, found["host"], int(found["pid"])):
                with contextlib.suppress(OSError):
                    self._clear(directory / name)
                    swept.append(name)
        return swept

    def _clear(self, path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            for name in self.names(path):
                self._clear(path / name)
            self.operations.rmdir(path)
        elif path.is_symlink() or path.exists():
            self.operations.unlink(path)

    def _abandoned(self, path: Path, host: str, pid: int) -> bool:
        """Another controller's file (multi-head: a shared directory) is only taken when it is old by the file server's
        own clock against a file server's stamp; both stamps come from the same machine."""
        if host != _host():
            with contextlib.suppress(OSError):
                newest = max(entry.stat().st_mtime for entry in path.parent.iterdir())
                return newest - path.stat().st_mtime > FOREIGN_LEFTOVER_SECONDS
            return False
        return pid == os.getpid() or not Path(f"/proc/{pid}").exists()

    def _temporary(self, real: Path) -> Path:
        self._serial += 1
        return real.parent / f".{real.name}.hpt-{_host()}-{os.getpid()}-{self._serial}"

    def _future_owner(self, real: Path, new_mode: int, owner_like: Path | None) -> tuple[int, int, int]:
        try:
            now = real.stat()
            return stat.S_IMODE(now.st_mode), now.st_uid, now.st_gid
        except FileNotFoundError:
            if owner_like is not None:
                with contextlib.suppress(FileNotFoundError):
                    like = owner_like.stat()
                    return new_mode, like.st_uid, like.st_gid
            return new_mode, os.geteuid(), os.getegid()

    def _read(self, path: Path) -> bytes:
        fd = self.operations.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            return b"".join(self._chunks(fd))
        finally:
            self.operations.close(fd)

    def _identity(self, path: Path) -> Identity:
        import hashlib  # OpenSSL's start-up is not worth it to a hook that hashes nothing

        fd = self.operations.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            now = os.fstat(fd)
            digest = hashlib.sha256()
            for chunk in self._chunks(fd):
                digest.update(chunk)
            return Identity(now.st_ino, now.st_mtime_ns, now.st_size, digest.hexdigest())
        finally:
            self.operations.close(fd)

    def _chunks(self, fd: int) -> Iterator[bytes]:
        while chunk := self._again(lambda: self.operations.read(fd, 1 << 20)):
            yield chunk

    def _write_all(self, fd: int, data: bytes) -> None:
        left = memoryview(data)
        while left:
            written = self._again(partial(self.operations.write, fd, left))
            left = left[written:]

    def _sync_directory(self, directory: Path) -> None:
        fd = self.operations.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._again(lambda: self.operations.sync(fd))
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # some network file systems cannot flush a directory
                raise
        finally:
            self.operations.close(fd)

    def _again(self, call: Callable[[], T]) -> T:
        """Some file servers answer "try again" now and then; a bounded number of times we do."""
        for attempt in range(ATTEMPTS):
            try:
                return call()
            except OSError as error:
                if error.errno not in AGAIN or attempt == ATTEMPTS - 1:
                    raise
                self.operations.pause(0.05 * 2**attempt)
        raise AssertionError("unreachable")


__all__ = ["Changed", "FileError", "Files", "Identity", "Operations", "RealFiles"]


def _why(error: OSError) -> str:
    return str(error.strerror or error)


def _host() -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", os.uname().nodename)
