"""The directory that stands for `/`: every absolute path of the product is looked up below it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


class Root:
    """`--root DIR`: prefixes absolute paths; symbolic links resolve inside it, as in a chroot. No DIR: the real `/`."""

    def __init__(self, directory: str | os.PathLike[str] | None = None) -> None:
        self.directory = Path(directory).resolve() if directory and str(directory) != "/" else None

    def path(self, absolute: str | os.PathLike[str]) -> Path:
        """The place of `absolute` below the root with every link on the way followed inside the root.

        A last component that does not exist yet is kept as it is. Raises OSError (ELOOP) after 40 links, as Linux does.
        """
        if self.directory is None:
            return Path(absolute)
        pending = [part for part in Path(absolute).parts if part != "/"][::-1]
        here: list[str] = []
        links = 0
        while pending:
            part = pending.pop()
            if part == "..":
                here = here[:-1]
                continue
            candidate = self.directory.joinpath(*here, part)
            if _answers(candidate.is_symlink):
                links += 1
                if links > 40:
                    raise OSError(40, "too many levels of symbolic links", str(absolute))
                target = Path(candidate.readlink())
                if target.is_absolute():
                    here = []
                pending.extend([p for p in target.parts if p != "/"][::-1])
            else:
                here.append(part)
        return self.directory.joinpath(*here)

    def inside(self, path: Path) -> str:
        """The path as the machine itself would say it: without the root's prefix."""
        if self.directory is not None and path.is_relative_to(self.directory):
            return "/" + str(path.relative_to(self.directory))
        return str(path)


def is_file(path: Path) -> bool:
    """False also where we may not look (root's PATH after su, a directory of 0700): Path.is_file() raises there."""
    return _answers(path.is_file)


def is_directory(path: Path) -> bool:
    """As is_file(), for a directory."""
    return _answers(path.is_dir)


def exists(path: Path) -> bool:
    """As is_file(), for whatever is there."""
    return _answers(path.exists)


def _answers(question: Callable[[], bool]) -> bool:
    try:
        return question()
    except OSError:
        return False
