"""guard: make what is on disk startable, or leave it alone. Runs before slurmctld starts, needs no slurmctld, and
relies on this machine's own disk only."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from topology_plugin.adapters.files import FileError
from topology_plugin.adapters.generations import Generations
from topology_plugin.adapters.live_files import Interfered, LiveFiles
from topology_plugin.app.mending import mended
from topology_plugin.core import plan as planning
from topology_plugin.core.disk import Check, Disk, encoded
from topology_plugin.core.issues import InputError, Issue

BROKEN = "broken"
BROKEN_KEPT = 5
NO_FILE = "is no file, but a directory, a pipe or a device, for which slurmctld dies or waits for ever"


@dataclass(frozen=True)
class Guarded:
    """`outcome`: off (mode), unreadable (no slurm.conf to judge), startable (nothing done), mended, failed (mending did
    not work: `issues` still hold). `steps`: what was done, a sentence each; `kept`: where the broken files lie."""

    outcome: Literal["off", "unreadable", "startable", "mended", "failed"]
    issues: tuple[Issue, ...] = ()
    steps: tuple[str, ...] = ()
    kept: Path | None = None
    what: str = ""


def guard(live: LiveFiles, generations: Generations, check: Check, classic: bool, mode: str = "auto") -> Guarded:
    """`generations`: of state_dir alone, as the shared file system may hang. Never raises for what it finds on disk."""
    if mode == "off":
        return Guarded("off", what="mode is off")
    try:
        odd = live.no_files()
        disk = live.disk(without=odd)
        issues = tuple(check(disk))
        if "topology.yaml" in odd and not classic:  # one that is not read, or a topology.conf, harms as a missing one
            issues = (Issue(str(live.directory / "topology.yaml"), NO_FILE, "move it away"), *issues)
        if not issues:
            return Guarded("startable")
        return _mend(live, generations, check, classic, disk, issues, odd)
    except InputError as error:
        return Guarded("unreadable", error.issues)
    except OSError as error:
        return Guarded("failed", (Issue(str(error.filename or ""), str(error.strerror or error)),))


def _mend(
    live: LiveFiles,
    generations: Generations,
    check: Check,
    classic: bool,
    disk: Disk,
    issues: tuple[Issue, ...],
    odd: list[str],
) -> Guarded:
    steps: list[str] = []
    for name in odd:
        with contextlib.suppress(Interfered):  # a file by now
            steps.append(f"{name}, which is no file, becomes {live.put_aside(name)}")
    for directory in live.directories():
        live.files.sweep(directory)
    kept = _keep_aside(live, generations, disk, issues)
    if steps and not check(disk := live.disk()):
        return Guarded("mended", issues, tuple(steps), kept, "nothing in its place")
    what = ""
    for _ in range(3):  # the agent may write at this very moment: then once more, from what stands there now
        wanted, what = mended(disk, generations, check, classic)
        change = planning.plan(disk, wanted, reconfigure=False, classic=classic)
        with contextlib.suppress(Interfered):
            for step in change.file_steps:
                if live.perform(step):
                    steps.append(planning.sentence(step))
        disk = live.disk()
        if not check(disk):
            return Guarded("mended", issues, tuple(steps), kept, what)
    return Guarded("failed", tuple(check(disk)), tuple(steps), kept, what)


def _keep_aside(live: LiveFiles, generations: Generations, disk: Disk, issues: tuple[Issue, ...]) -> Path | None:
    """The broken files for inspection. That this fails (a full disk) must not keep slurmctld from starting."""
    directory = generations.state_dir / BROKEN
    contents = dict(_files(disk))
    contents["why.txt"] = "".join(f"{issue}\n" for issue in issues).encode()
    with contextlib.suppress(FileError, OSError):
        live.files.make_directory(generations.state_dir)
        numbers = sorted(int(name) for name in live.files.names(directory) if name.isdigit())
        kept = directory / str(max(numbers, default=0) + 1)
        live.files.write_directory(kept, contents, private=True)
        for number in numbers[: 1 - BROKEN_KEPT]:
            live.files.remove_directory(directory / str(number))
        return kept
    return None


def _files(disk: Disk) -> Iterator[tuple[str, bytes]]:
    for number, file in enumerate(disk.conf.files):
        name = Path(file.path).name
        yield (name if number == 0 else f"{number}-{name}"), encoded(file.text)
    if disk.topology_yaml is not None:
        yield "topology.yaml", disk.topology_yaml
    if disk.topology_conf is not None:
        yield "topology.conf", disk.topology_conf
