"""The system calls that write files."""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path


class Operations:
    """The system calls behind `RealFiles`, one method each, so that a test can fail or kill at any of them."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        return os.open(path, flags, mode)

    def read(self, fd: int, size: int) -> bytes:
        return os.read(fd, size)

    def write(self, fd: int, data: memoryview) -> int:
        return os.write(fd, data)

    def owner(self, fd: int, uid: int, gid: int) -> None:
        os.fchown(fd, uid, gid)

    def mode(self, fd: int, mode: int) -> None:
        os.fchmod(fd, mode)

    def attributes(self, source: Path, fd: int) -> None:
        """Access lists and labels of `source`, as far as this file system and this user can give them."""
        for name in os.listxattr(source):
            with contextlib.suppress(OSError):
                os.setxattr(fd, name, os.getxattr(source, name))

    def sync(self, fd: int) -> None:
        os.fsync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def unlink(self, path: Path) -> None:
        path.unlink()

    def mkdir(self, path: Path, mode: int) -> None:
        """With this mode whatever the umask: others have to read it. One that is there stays as it is."""
        try:
            path.mkdir(mode)
        except FileExistsError:
            if not path.is_dir():
                raise
        else:
            path.chmod(mode)

    def rmdir(self, path: Path) -> None:
        path.rmdir()

    def symlink(self, text: str, path: Path) -> None:
        path.symlink_to(text)

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)
