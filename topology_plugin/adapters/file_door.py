"""Files as a change needs them: what stands there, and a whole new content or none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

NEW_MODE = 0o644


@dataclass(frozen=True)
class Identity:
    """What tells one state of a file from another, also within one second and one size."""

    inode: int
    mtime_ns: int
    size: int
    sha256: str


class Changed(Exception):
    """Someone else wrote the file between our reading it and our renaming the new one over it. Nothing was changed."""


class FileError(OSError):
    """A file operation that failed; the message names the file, the operation, and what became of the file."""

    def __str__(self) -> str:
        """The message as it is: OSError would begin it with the number, for no reader's good."""
        return str(self.strerror)


class Files(Protocol):
    """Files by path. Every writing call ends with the old content or the new one on disk, never with a part."""

    def read(self, path: Path) -> bytes:
        """The whole content. Raises OSError (FileNotFoundError if there is none)."""
        ...

    def identity(self, path: Path) -> Identity | None:
        """What stands there now; None: no file."""
        ...

    def write(
        self,
        path: Path,
        data: bytes,
        *,
        expect: Identity | None = None,
        new_mode: int = NEW_MODE,
        owner_like: Path | None = None,
    ) -> None:
        """Replace `path` (through its links) by `data`.

        An existing file keeps mode and owner; a new one gets `new_mode` and the owner of `owner_like`. With `expect`
        the file must still be that right before the rename, else Changed. Raises FileError; the old file stands then.
        """
        ...

    def remove(self, path: Path) -> None:
        """Unlink; a file that is not there is as good as removed. Raises FileError."""
        ...

    def write_directory(self, path: Path, contents: Mapping[str, bytes], *, private: bool = False) -> None:
        """A new directory with these files, there at once and whole; what stood at `path` is replaced.

        Makes the parent, but not the parent's parent: that may be a mount point. `private`: for root's eyes only.
        Raises FileError."""
        ...

    def make_directory(self, path: Path) -> None:
        """The directory with all above it, if it is not there. Raises FileError."""
        ...

    def remove_directory(self, path: Path) -> None:
        """The directory with the files in it; first renamed away, so that nobody sees half of it. Raises FileError."""
        ...

    def link(self, text: str, path: Path) -> None:
        """A symbolic link that says `text`. Raises FileError."""
        ...

    def move(self, path: Path, target: Path) -> None:
        """Rename what stands at `path`, whatever it is, within one directory. Raises FileError."""
        ...

    def names(self, directory: Path) -> list[str]:
        """Names in a directory, sorted; [] if there is none. Raises OSError for a directory that cannot be read."""
        ...

    def sweep(self, directory: Path) -> list[str]:
        """Remove temporary files that killed runs left in a directory; returns their names."""
        ...
