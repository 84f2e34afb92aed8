"""First stage on a node: check the bundle, unpack it beside the version in use, switch, go on with what is installed.

    python3 -I install.py on-create | stock | on-init-complete

Runs from wherever HyperPod unpacked the bundle, with the node's bare Python (3.10 or later), as root. Nothing of that
place is needed afterwards. Every absolute path is below HYPERPOD_TOPOLOGY_ROOT if that is set.
"""

from __future__ import annotations

import compileall
import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timezone
from pathlib import Path
from typing import IO, Any

WAYS = ("on-create", "stock", "on-init-complete")
HOME = "opt/hyperpod-topology"
LOG = "var/log/provision/provisioning.log"
COMMANDS = {
    "hyperpod-topology": "from topology_plugin.cli.hook import main",
    "hyperpod-topology-setup": "from node_setup.main import main",
}
# Compiled before the switch: the hook starts fast from the first time on, and users cannot write bytecode themselves.
COMPILED = ("topology_plugin", "node_setup", "click", "yaml", "rich")
LOCK_SECONDS = 60.0

# -I -S: neither PYTHON* variables nor anything installed on the node can change what runs.
COMMAND = """\
#!{python} -IS
import gc, os, sys
gc.set_threshold(100_000)  # imports make thousands of objects and no garbage
sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(__file__))), "lib"))
{main}
sys.exit(main())
"""


class InstallError(Exception):
    """The bundle cannot be installed; the message says why. The version in use stays in use."""


class Log:
    """Says things on stdout and, unless the caller's own log has stdout already, in the provisioning log."""

    def __init__(self, root: Path, also_file: bool, stdout: IO[str] | None = None) -> None:
        self._file = root / LOG if also_file else None
        self._stdout = stdout or sys.stdout

    def __call__(self, text: str) -> None:
        lines = "".join(f"[hyperpod-topology] {line}\n" for line in text.splitlines())
        with contextlib.suppress(OSError, ValueError):  # a closed pipe must not stop the set-up
            self._stdout.write(lines)
            self._stdout.flush()
        if self._file is not None:
            stamp = datetime.now(timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ ")
            with contextlib.suppress(OSError):
                self._file.parent.mkdir(parents=True, exist_ok=True)
                with self._file.open("a", encoding="utf-8") as file:
                    file.write("".join(stamp + line + "\n" for line in lines.splitlines()))


def node_root(environment: Mapping[str, str]) -> Path:
    return Path(environment.get("HYPERPOD_TOPOLOGY_ROOT") or "/")


def main(arguments: list[str] | None = None) -> int:
    """Installs, then becomes the second stage. Exit 0 also if the bundle is unfit, unless `strict` or all of OnCreate
    hangs on it and no former version is there to go on with."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) < 1 or given[0] not in WAYS:
        print(f"usage: install.py {' | '.join(WAYS)}", file=sys.stderr)
        return 2
    os.umask(0o022)  # users read what is installed, whatever the caller's umask is
    root = node_root(os.environ)
    log = Log(root, also_file=given[0] != "stock")
    source = Path(__file__).resolve().parent
    failed = False
    try:
        install(source, root, sys.executable, log)
    except (InstallError, OSError, ValueError) as error:
        log(f"ERROR: not installed: {error}")
        failed = True
    command = root / HOME / "current" / "bin" / "hyperpod-topology-setup"
    if not command.exists():
        log("no version is installed; this node goes on without a topology")
        return 1 if given[0] == "on-create" or strict(source, root, os.environ) else 0
    if failed:
        log(f"going on with the version that is installed, {(root / HOME / 'current').readlink()}")
    failure = ["--install-failed"] if failed else []
    sys.stdout.flush()
    os.execv(  # noqa: S606
        sys.executable, [sys.executable, "-IS", str(command), *given, "--bundle", str(source), *failure]
    )


def install(source: Path, root: Path, python: str, log: Callable[[str], None]) -> Path:
    """Brings the bundle in `source` into force below `root`; returns its directory. Repeats cheaply.

    Raises InstallError, OSError, ValueError; then `current` still names what it named before.
    """
    manifest = checked_manifest(source)
    home = root / HOME
    home.mkdir(parents=True, exist_ok=True)
    with locked(home / ".lock"):
        for leftover in home.glob(".new-*"):
            shutil.rmtree(leftover, ignore_errors=True)
        target = home / str(manifest["version"])
        if intact(target, manifest["installed"], python):
            log(f"version {target.name} is installed already")
        else:
            unpack(source / "payload.zip", manifest["installed"], home, target, python)
            log(f"version {target.name} installed in {target}")
        switch(home, target.name)
        for name in COMMANDS:
            link_command(root, name, log)
        prune(home, keep=2)
    return target


def checked_manifest(source: Path) -> dict[str, Any]:
    """The manifest, after every file of the bundle agreed with it."""
    try:
        manifest = json.loads((source / "manifest.json").read_text(encoding="utf-8"))
        version, bundle, installed = manifest["version"], manifest["bundle"], manifest["installed"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InstallError(f"{source / 'manifest.json'} cannot be read ({error}): upload the bundle again") from None
    names = [*bundle, *installed]
    if "/" in version or version.startswith(".") or any(n.startswith("/") or ".." in n.split("/") for n in names):
        raise InstallError(f"{source / 'manifest.json'} names paths outside the bundle")
    for name, digest in bundle.items():
        try:
            found = hashlib.sha256((source / name).read_bytes()).hexdigest()
        except OSError as error:
            raise InstallError(f"{name} of the bundle cannot be read ({error.strerror}): upload it again") from None
        if found != digest:
            raise InstallError(f"{name} of the bundle does not agree with manifest.json: upload the bundle again")
    return dict(manifest)


def unpack(archive: Path, installed: Mapping[str, str], home: Path, target: Path, python: str) -> None:
    """Writes `target` beside what is in use, checks what arrived on disk, and only then gives it its name."""
    fresh = home / f".new-{os.getpid()}"
    try:
        with zipfile.ZipFile(archive) as packed:
            for name in installed:
                file = fresh / name
                file.parent.mkdir(parents=True, exist_ok=True)
                try:
                    file.write_bytes(packed.read(name))
                except (KeyError, zipfile.BadZipFile) as error:
                    raise InstallError(f"{archive.name} is damaged: {error}") from None
        (fresh / "bin").mkdir()
        for name, main_line in COMMANDS.items():
            (fresh / "bin" / name).write_text(COMMAND.format(python=python, main=main_line), encoding="utf-8")
            (fresh / "bin" / name).chmod(0o755)
        if not intact(fresh, installed, python):
            raise InstallError(f"what was unpacked in {home} is not what was packed: is the disk full?")
        for package in COMPILED:
            compileall.compile_dir(fresh / "lib" / package, ddir=f"/{HOME}/{target.name}/lib/{package}", quiet=2)
        former = home / f".new-former-{os.getpid()}"
        if target.exists():  # there, but not intact: nothing that works is lost
            target.rename(former)
        fresh.rename(target)
        shutil.rmtree(former, ignore_errors=True)
        os.sync()
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def intact(directory: Path, installed: Mapping[str, str], python: str) -> bool:
    """True if every file is there with the right bytes, and the commands name this Python."""
    try:
        for name, main_line in COMMANDS.items():
            if (directory / "bin" / name).read_text(encoding="utf-8") != COMMAND.format(python=python, main=main_line):
                return False
        return all(
            hashlib.sha256((directory / name).read_bytes()).hexdigest() == digest for name, digest in installed.items()
        )
    except (OSError, ValueError):
        return False


def switch(home: Path, version: str) -> None:
    """`current` names `version`, in one step: at every moment it names a whole one. The former becomes `previous`."""
    current = home / "current"
    former = str(current.readlink()) if current.is_symlink() else None
    if former == version:
        return
    if former and (home / former).is_dir():
        replace_link(home / "previous", former)
    replace_link(current, version)


def link_command(root: Path, name: str, log: Callable[[str], None]) -> None:
    """/usr/local/bin/<name>; a file of somebody else's stays, as nothing of ours is called by way of it."""
    link = root / "usr/local/bin" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    if link.exists() and not link.is_symlink():
        log(f"{link} is not ours and stays; ours is {root / HOME / 'current/bin' / name}")
        return
    replace_link(link, f"../../../{HOME}/current/bin/{name}")  # relative: right below any root


def replace_link(link: Path, target: str) -> None:
    if link.is_symlink() and str(link.readlink()) == target:
        return
    temporary = link.with_name(f".{link.name}.{os.getpid()}")
    temporary.unlink(missing_ok=True)
    temporary.symlink_to(target)
    temporary.replace(link)


def prune(home: Path, keep: int) -> None:
    """Removes versions that neither `current` nor `previous` names, but the newest `keep`."""
    named = {str((home / link).readlink()) for link in ("current", "previous") if (home / link).is_symlink()}
    versions = [place for place in home.iterdir() if place.is_dir() and not place.is_symlink() and place.name[0] != "."]
    versions.sort(key=lambda place: place.stat().st_mtime, reverse=True)
    for old in versions[keep:]:
        if old.name not in named:
            shutil.rmtree(old, ignore_errors=True)


@contextlib.contextmanager
def locked(file: Path) -> Iterator[None]:
    """One installer at a time; waits at most LOCK_SECONDS for another one."""
    with file.open("w") as handle:
        deadline = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    raise InstallError(f"another installer holds {file} for over {LOCK_SECONDS:.0f} s") from None
                time.sleep(0.1)
        yield


def strict(source: Path, root: Path, environment: Mapping[str, str]) -> bool:
    """The setting `strict`, read without the package, which may not be there."""
    word = environment.get("HYPERPOD_TOPOLOGY_STRICT")
    if word is not None:
        return word.strip().lower() in ("1", "true")
    for file in (source / "hyperpod_topology.json", root / "etc/hyperpod-topology.json"):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            value = json.loads(file.read_text(encoding="utf-8-sig")).get("strict")
            if value is not None:
                return value is True or value == 1
    return False


if __name__ == "__main__":
    sys.exit(main())
