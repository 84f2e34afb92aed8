"""Unit files: which a role has, where they go, and how they come and go."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from pathlib import Path

from node_setup.processes import Systemd

UNITS = "etc/systemd/system"
NODE_UNITS = ("hyperpod-topology-register.service", "hyperpod-topology-register.path")
CONTROLLER_UNITS = ("hyperpod-topology-watch.service",)
DROP_IN_SOURCE = "slurmctld-drop-in.conf"
DROP_IN = "slurmctld.service.d/50-hyperpod-topology.conf"


class Units:
    """Our units below `root`, taken from the installed version's directory."""

    def __init__(self, root: Path, version: Path, systemd: Systemd, log: Callable[[str], None]) -> None:
        self._directory = root / UNITS
        self._source = version / "systemd"
        self._systemd = systemd
        self._log = log

    def place(self, controller: bool) -> None:
        """Files and links as `systemctl enable` makes them; starts nothing but the watch for resource_config.json.

        A node that is no controller any more loses the controller's parts.
        """
        for name in NODE_UNITS:
            self._enable(name)
        for name in CONTROLLER_UNITS:
            if controller:
                self._enable(name)
            else:
                self._remove(name)
        if controller:
            self._write(self._directory / DROP_IN, (self._source / DROP_IN_SOURCE).read_bytes())
        else:
            self._remove_drop_in()
        self._systemd.call("daemon-reload")
        self._systemd.call("restart", "--no-block", "hyperpod-topology-register.path")

    def start_watch(self) -> None:
        """Restart, so that an upgrade takes effect; without waiting, as slurmctld may not run yet."""
        self._systemd.call("restart", "--no-block", *CONTROLLER_UNITS)

    def register_later(self) -> None:
        """Let systemd go on with what the hook could not finish."""
        self._systemd.call("start", "--no-block", NODE_UNITS[0])

    def stop_watch(self) -> None:
        self._systemd.call("stop", *CONTROLLER_UNITS, timeout=120)

    def remove(self) -> None:
        self._systemd.call("stop", *reversed(NODE_UNITS))
        for name in (*NODE_UNITS, *CONTROLLER_UNITS):
            self._remove(name)
        self._remove_drop_in()
        self._systemd.call("daemon-reload")

    def _enable(self, name: str) -> None:
        self._write(self._directory / name, (self._source / name).read_bytes())
        link = self._wanted(name)
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(f"/{UNITS}/{name}")

    def _remove(self, name: str) -> None:
        _unlink([self._wanted(name), self._directory / name])

    def _remove_drop_in(self) -> None:
        drop_in = self._directory / DROP_IN
        _unlink([drop_in])
        if drop_in.parent.is_dir() and not any(drop_in.parent.iterdir()):
            drop_in.parent.rmdir()

    def _wanted(self, name: str) -> Path:
        return self._directory / "multi-user.target.wants" / name

    def _write(self, file: Path, data: bytes) -> None:
        if file.is_file() and file.read_bytes() == data:
            return
        write_atomically(file, data, 0o644)
        self._log(f"unit {file.name} written")


def write_atomically(file: Path, data: bytes, mode: int | None = None) -> None:
    """`mode` None: by this process's umask."""
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{os.getpid()}")
    temporary.write_bytes(data)
    if mode is not None:
        temporary.chmod(mode)
    temporary.replace(file)


def _unlink(files: Iterable[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)
