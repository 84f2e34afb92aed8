"""The registry: a directory on the shared file system, a file per instance that registered."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.collector import paused
from topology_plugin.adapters.files import LEFTOVER, Files
from topology_plugin.core import plain_records, record_file, records
from topology_plugin.core.issues import Issue
from topology_plugin.core.records import Record

NODES = "nodes"

# Waiting does not mend these; a disk that is full now is full in a minute (BR-25: say so, leave the old file).
_HOPELESS = (errno.ENOSPC, errno.EDQUOT, errno.ENOTDIR, errno.ENAMETOOLONG, errno.ELOOP, errno.EINVAL)
_DENIED = (errno.EACCES, errno.EPERM)


class Unavailable(Exception):
    """The registry as a whole cannot be read or written, says why. Never to be taken for an empty one."""


class Seen(NamedTuple):
    """What a file of the registry was when it was read: the same three numbers again mean the same content."""

    inode: int
    mtime_ns: int
    size: int
    found: Record | Issue


@dataclass(frozen=True)
class Reading:
    """`records` by instance id; `issues`: one for each file or fault that stands in the way, the same in every reading
    while it lasts; `new_issues`: those that the former reading did not have; `changed`: other records than in the
    former reading. `seen`: for the next reading, which reads only what is not as it was."""

    records: Mapping[str, Record] = field(default_factory=dict)
    issues: tuple[Issue, ...] = ()
    new_issues: tuple[Issue, ...] = ()
    seen: Mapping[str, Seen] = field(default_factory=dict)
    cluster_arn: str | None = None
    changed: bool = True


class Registry(Protocol):
    def read_all(self, cluster_arn: str | None, former: Reading | None = None) -> Reading:
        """Every usable record of this cluster. Raises Unavailable."""
        ...

    def write(self, record: Record, patience: float = 0) -> bool:
        """Makes the record stand there; False: it did already. Tries for `patience` seconds, then raises
        Unavailable."""
        ...

    def remove(self, reading: Reading, instance_id: str) -> bool:
        """Removes a record if it still is what `reading` saw; False: it is not. Raises Unavailable."""
        ...

    def sweep(self) -> list[str]:
        """Removes what killed registrations left unfinished; returns the names."""
        ...


class RegistryDirectory:
    """`directory`/nodes/<instance id>.json. `mounted`: says why the shared file system is not there yet, or "" if it is
    (or need not be: a registry chosen explicitly may lie anywhere). `open_file`: os.open, unless a test has its
    disk fail."""

    def __init__(
        self,
        directory: Path,
        files: Files,
        clock: Clock,
        mounted: Callable[[Path], str] | None = None,
        open_file: Callable[..., int] = os.open,
    ) -> None:
        self.directory = directory
        self.nodes = directory / NODES
        self._files = files
        self._clock = clock
        self._mounted = mounted
        self._open_file = open_file

    def read_all(self, cluster_arn: str | None, former: Reading | None = None) -> Reading:
        self._demand_mount()
        known = former.seen if former and former.cluster_arn == cluster_arn else {}
        issues: list[Issue] = []
        seen: dict[str, Seen] = {}
        try:
            directory = os.open(self.nodes, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except FileNotFoundError:
            raise Unavailable(f"{self.nodes} does not exist: no node has registered yet") from None
        except OSError as error:
            raise Unavailable(f"{self.nodes} cannot be read: {error.strerror}") from None
        try:
            owner = os.fstat(directory)
            if owner.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
                what = "others than its owner may write here, so they could remove records"
                issues.append(Issue(str(self.nodes), what, f"chmod 755 {self.nodes}"))
            with os.scandir(directory) as entries, paused():
                for entry in entries:
                    name = entry.name
                    before = known.get(name)
                    try:
                        if before is not None and _unchanged(entry, before):
                            seen[name] = before
                        else:
                            now = self._read(directory, name, owner.st_uid, cluster_arn)
                            if now is not None:
                                seen[name] = now
                    except FileNotFoundError:
                        continue  # removed, or replaced while we looked: the next reading sees
                    except OSError as error:
                        issues.append(Issue(f"{NODES}/{name}", f"cannot be read: {error.strerror or error}"))
                        if before is not None:
                            seen[name] = before  # a fault of the disk says nothing about the node
        except OSError as error:
            raise Unavailable(f"{self.nodes} cannot be read: {error.strerror}") from None
        finally:
            os.close(directory)
        return _reading(seen, issues, former, cluster_arn)

    def write(self, record: Record, patience: float = 0) -> bool:
        data = records.dump(record)
        path = self.nodes / record.file_name
        until = self._clock.monotonic() + patience
        pause = 0.25
        while True:
            try:
                self._demand_mount()
                # What another node made a moment ago may exist and not be seen: an error then, and once more (BR-22).
                self._files.make_directory(self.nodes)
                if self._stands(path) and self._files.read(path) == data:
                    return False
                self._files.write(path, data)
                return True
            except Unavailable as error:
                problem = error
            except OSError as error:
                problem = Unavailable(f"{error.strerror or error}")
                if error.errno in _HOPELESS or (error.errno in _DENIED and os.geteuid() != 0):
                    raise problem from None
            left = until - self._clock.monotonic()
            if left <= 0:
                raise problem
            self._clock.sleep(min(pause, left))
            pause = min(2 * pause, 5.0)

    def remove(self, reading: Reading, instance_id: str) -> bool:
        name = instance_id + records.SUFFIX
        known = reading.seen.get(name)
        path = self.nodes / name
        try:
            now = path.stat(follow_symlinks=False)
            if known is None or (now.st_ino, now.st_mtime_ns, now.st_size) != (known.inode, known.mtime_ns, known.size):
                return False
            self._files.remove(path)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise Unavailable(f"{path} cannot be removed: {error.strerror or error}") from None
        return True

    def sweep(self) -> list[str]:
        return self._files.sweep(self.nodes)

    def _read(self, directory: int, name: str, owner: int, cluster_arn: str | None) -> Seen | None:
        """What a file holds; None: a temporary file of somebody who is writing. Raises OSError."""
        if not records.is_record_name(name):
            if LEFTOVER.match(name):
                return None
            now = os.stat(name, dir_fd=directory, follow_symlinks=False)
            return Seen(now.st_ino, now.st_mtime_ns, now.st_size, record_file.not_a_record(name))
        try:
            # NONBLOCK: a pipe by that name must not make us wait for a writer.
            fd = self._open_file(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=directory)
        except OSError as error:
            if error.errno not in (errno.ELOOP, errno.ENXIO):
                raise
            now = os.stat(name, dir_fd=directory, follow_symlinks=False)
            return Seen(now.st_ino, now.st_mtime_ns, now.st_size, _unusable(name, "is not a regular file"))
        try:
            now = os.fstat(fd)
            found: Record | Issue
            if not stat.S_ISREG(now.st_mode):
                found = _unusable(name, "is not a regular file")
            elif now.st_uid != owner:
                found = _unusable(name, f"belongs to user {now.st_uid}, the directory to user {owner}")
            else:
                # A length that grows while we read is cut at the limit, which the parser then refuses.
                found = plain_records.parse(os.read(fd, record_file.MAX_BYTES + 1), name, cluster_arn)
            return Seen(now.st_ino, now.st_mtime_ns, now.st_size, found)
        finally:
            os.close(fd)

    def _demand_mount(self) -> None:
        why = self._mounted(self.directory) if self._mounted else ""
        if why:
            raise Unavailable(why)

    def _stands(self, path: Path) -> bool:
        """A regular file of the directory's owner is there. Anything else would be written through, or keep its owner
        and then not be taken as a record: it goes."""
        try:
            now = path.stat(follow_symlinks=False)
        except FileNotFoundError:
            return False
        if stat.S_ISREG(now.st_mode) and now.st_uid == self.nodes.stat().st_uid:
            return True
        self._files.remove(path)
        return False


def _unchanged(entry: os.DirEntry[str], before: Seen) -> bool:
    now = entry.stat(follow_symlinks=False)
    return (now.st_ino, now.st_mtime_ns, now.st_size) == (before.inode, before.mtime_ns, before.size)


def _unusable(name: str, what: str) -> Issue:
    return Issue(f"{NODES}/{name}", f"{what}, so it is no record", "remove it; the node registers again")


def _reading(seen: dict[str, Seen], issues: list[Issue], former: Reading | None, cluster_arn: str | None) -> Reading:
    found: dict[str, Record] = {}
    for name in sorted(seen):
        content = seen[name].found
        if isinstance(content, Issue):
            issues.append(content)
        else:
            found[content.instance_id] = content
    issues.sort()
    former_issues = set(former.issues) if former else set()
    return Reading(
        found,
        tuple(issues),
        tuple(issue for issue in issues if issue not in former_issues),
        seen,
        cluster_arn,
        former is None or former.records != found,
    )
