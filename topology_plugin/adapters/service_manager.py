"""The part of systemd that `slurmctld --systemd` talks to: it says that it is ready, and under which pid."""

from __future__ import annotations

import re
import shutil
import socket
import tempfile
import threading
from pathlib import Path


class ServiceManager:
    """Listens on a socket to be given as NOTIFY_SOCKET (sd_notify(3)).

    A thread does, because slurmctld waits up to 5 s at each reconfigure for its `BARRIER=1` to be read (run).
    """

    def __init__(self) -> None:
        # Not in the caller's directory: the path of a socket has room for 107 bytes only.
        self.directory = Path(tempfile.mkdtemp(prefix="notify-"))
        self.socket_path = self.directory / "socket"
        self.ready = threading.Event()
        self.main_pid: int | None = None
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(self.socket_path))
        self._thread = threading.Thread(target=self._listen, name="service-manager", daemon=True)
        self._thread.start()

    def expect(self) -> None:
        """Forget what an earlier slurmctld said."""
        self.main_pid = None
        self.ready.clear()

    def close(self) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as waker:
            waker.sendto(b"CLOSE=1", str(self.socket_path))
        self._thread.join(5)
        self._socket.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _listen(self) -> None:
        while True:
            # recv() without room for the descriptor that comes with BARRIER=1 closes it, which is the answer.
            message = self._socket.recv(4096)
            if message == b"CLOSE=1":
                return
            if pid := re.search(rb"^MAINPID=(\d+)$", message, re.M):
                self.main_pid = int(pid[1])
            if b"READY=1" in message.splitlines():
                self.ready.set()
