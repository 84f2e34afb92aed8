"""Whole OnCreate only: mounts what provisioning_parameters.json names, as the stock scripts do, and at every reboot."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TRIES, PAUSE_SECONDS, MOUNT_SECONDS = 5, 5.0, 60.0


class MountError(Exception):
    """A filesystem that the parameters name cannot be mounted."""


@dataclass(frozen=True)
class Filesystem:
    """One line of /etc/fstab."""

    source: str
    directory: str
    kind: str
    options: str

    @property
    def line(self) -> str:
        return f"{self.source} {self.directory} {self.kind} {self.options} 0 0"


def filesystems(parameters: Mapping[str, Any]) -> list[Filesystem]:
    """FSx for Lustre at /fsx, FSx for OpenZFS at /home: the stock scripts' places and options."""
    found = []
    name, mount_name = parameters.get("fsx_dns_name"), parameters.get("fsx_mountname")
    at_boot = "_netdev,x-systemd.automount,x-systemd.requires=network-online.target"
    if name and mount_name:
        found.append(Filesystem(f"{name}@tcp:/{mount_name}", "/fsx", "lustre", f"noatime,flock,{at_boot}"))
    zfs = parameters.get("fsx_openzfs_dns_name")
    if zfs:
        found.append(Filesystem(f"{zfs}:/fsx", "/home", "nfs", f"noatime,nfsvers=4.2,sync,nconnect=16,{at_boot}"))
    return found


def mount(wanted: list[Filesystem], root: Path, log: Callable[[str], None], pause: float = PAUSE_SECONDS) -> None:
    """Mounts each that is not mounted yet. Raises MountError after TRIES attempts."""
    for filesystem in wanted:
        directory = root / filesystem.directory.lstrip("/")
        directory.mkdir(parents=True, exist_ok=True)
        _remember(filesystem, root / "etc/fstab")
        if directory.is_mount():
            log(f"{filesystem.directory} is mounted")
            continue
        for attempt in range(1, TRIES + 1):
            # The options that only systemd reads are of no use to mount(8) in a script.
            options = filesystem.options.partition(",_netdev")[0]
            reason = _mount(["mount", "-t", filesystem.kind, "-o", options, filesystem.source, str(directory)])
            if reason is None:
                log(f"{filesystem.directory} mounted from {filesystem.source}")
                break
            log(f"{filesystem.directory}: attempt {attempt} of {TRIES}: {reason}")
            time.sleep(pause if attempt < TRIES else 0)
        else:
            raise MountError(f"{filesystem.source} cannot be mounted at {filesystem.directory}: {reason}")


def _mount(command: list[str]) -> str | None:
    """None: done; else mount's own words."""
    try:
        ended = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=MOUNT_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return None if ended.returncode == 0 else (ended.stderr or ended.stdout).strip() or f"exit {ended.returncode}"


def _remember(filesystem: Filesystem, fstab: Path) -> None:
    """A line in fstab, unless one for the directory is there: no lifecycle script runs at a reboot."""
    text = fstab.read_text(encoding="utf-8") if fstab.exists() else ""
    if any(line.split()[1:2] == [filesystem.directory] for line in text.splitlines()):
        return
    separator = "" if not text or text.endswith("\n") else "\n"
    fstab.parent.mkdir(parents=True, exist_ok=True)
    with fstab.open("a", encoding="utf-8") as file:
        file.write(f"{separator}{filesystem.line}\n")
