"""The processes that belong to one Slurm of our own, found by what they were started with.

A pid alone proves nothing: slurmctld replaces itself at every reconfigure, and the kernel gives old numbers to
strangers. The environment does: nobody else runs with the path of our throw-away slurm.conf as SLURM_CONF. slurmstepd
overwrites its environment (run), but keeps the working directory in which its slurmd was started: ours.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Collection, Sequence
from pathlib import Path

DAEMONS = ("slurmctld", "slurmscriptd", "slurmd", "slurmstepd")

# Reads until whoever started it closes the pipe, by ending properly or by dying of whatever, then ends our processes.
# A line on the pipe dismisses it. The daemons first: a slurmstepd would report its task's end, a slurmctld requeue it.
_GUARDIAN = """
read -r _ && exit
for round in 1 2; do
    for process in /proc/[0-9]*; do
        case "$(tr '\\0' '\\n' <"$process/environ" | grep -Fx "SLURM_CONF=$1")$(cat "$process/comm")" in
            SLURM_CONF=*) kill -9 "${process#/proc/}" ;;
            slurmstepd)
                case "$(readlink "$process/cwd")" in
                    "$2" | "$2 (deleted)") kill -9 "${process#/proc/}" ;;
                esac ;;
        esac
    done
done
shift 2
rm -rf -- "$@"
"""


class OwnProcesses:
    """Finds and ends the processes started with SLURM_CONF=`conf`, slurmds among them in the directory `home`."""

    def __init__(self, conf: Path, home: Path) -> None:
        self.conf, self.home = conf, home
        self._word = os.fsencode(f"SLURM_CONF={conf}")

    def owns(self, pid: int) -> bool:
        """False for strangers, for zombies, and for what is not there. (A zombie has no environment left.)"""
        process = Path(f"/proc/{pid}")
        try:
            if self._word in (process / "environ").read_bytes().split(b"\0"):
                return True
            if (process / "comm").read_text() != "slurmstepd\n":
                return False
            return str((process / "cwd").readlink()).removesuffix(" (deleted)") == str(self.home)
        except OSError:
            return False

    def find(self, names: Collection[str] = DAEMONS) -> list[int]:
        """Living processes of ours with one of these names (as in /proc/<pid>/comm; empty: any), oldest pid first."""
        found = []
        for entry in os.listdir("/proc"):  # noqa: PTH208  plain names, thousands of them
            if entry.isdigit():
                with contextlib.suppress(OSError):
                    name = Path(f"/proc/{entry}/comm").read_text().rstrip("\n")
                    if (not names or name in names) and int(entry) != os.getpid() and self.owns(int(entry)):
                        found.append(int(entry))
        return sorted(found)

    def descendants(self, pids: Collection[int]) -> list[int]:
        """Children, grandchildren … of `pids`, whatever their environment."""
        parents: dict[int, list[int]] = {}
        for entry in os.listdir("/proc"):  # noqa: PTH208
            if entry.isdigit():
                with contextlib.suppress(OSError, IndexError):
                    after_name = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                    parents.setdefault(int(after_name[1]), []).append(int(entry))
        found, pending = [], list(pids)
        while pending:
            children = parents.get(pending.pop(), [])
            found += children
            pending += children
        return found

    def kill(self, pid: int, number: signal.Signals) -> None:
        if self.owns(pid):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def wait_gone(self, pid: int, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.owns(pid):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.005)
        return True

    def end_all(self, names: Collection[str] = DAEMONS) -> None:
        """SIGKILL, again for those that were being started meanwhile, until none is left. Raises TimeoutError."""
        deadline = time.monotonic() + 10
        while left := self.find(names):
            for pid in left:
                self.kill(pid, signal.SIGKILL)
            if time.monotonic() > deadline:
                raise TimeoutError(f"processes {left} of {self.conf} do not end")
            time.sleep(0.01)


class Guardian:
    """A small process that ends ours, jobs included, should this one be killed before it could do so itself."""

    def __init__(self, processes: OwnProcesses, litter: Sequence[Path]) -> None:
        """`litter`: directories to remove then."""
        self._process = subprocess.Popen(
            ["/bin/sh", "-c", _GUARDIAN, "guardian", str(processes.conf), str(processes.home), *map(str, litter)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for us, not for it
            env={"PATH": os.environ.get("PATH", os.defpath)},
        )

    def dismiss(self) -> None:
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.communicate(b"dismissed\n")
