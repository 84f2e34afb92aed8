"""A slurmctld of our own on loopback: for the tests, `demo`, `simulate` and the rehearsal.

It has its own directory (configuration, state, log), its own ports and no authentication, knows nothing of any other
Slurm on the machine, and ends with the process that started it, even if that is killed.

    with PrivateSlurmctld(directory, slurm_bin) as cluster:
        cluster.write_conf(nodes="NodeName=n[1-5000] State=CLOUD CPUs=8", partitions="PartitionName=p Nodes=ALL")
        cluster.start()
        cluster.run("sbatch", "-N4", "--wrap", "sleep 60")
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from topology_plugin.adapters.last_words import SlurmctldDied, last_words
from topology_plugin.adapters.loopback_conf import QUICK, free_ports, loopback_conf, real_nodes, spool_directory
from topology_plugin.adapters.own_processes import Guardian, OwnProcesses
from topology_plugin.adapters.service_manager import ServiceManager
from topology_plugin.adapters.slurm import SlurmCommands

if TYPE_CHECKING:
    from typing_extensions import Self  # typing has it from Python 3.11 on

__all__ = ["CommandFailed", "PrivateSlurmctld", "SlurmctldDied"]

_IN_USE = "Address already in use"


class CommandFailed(subprocess.CalledProcessError):
    """As its parent, and says what the command said."""

    def __str__(self) -> str:
        return f"{super().__str__()} {(self.stderr or self.stdout or '').strip()}"


class PrivateSlurmctld:
    def __init__(
        self,
        directory: Path,
        slurm_bin: Path | None,
        *,
        conf: Path | None = None,
        foreground: bool = False,
        options: Sequence[str] = (),
        within: Sequence[str] = (),
    ) -> None:
        """Nothing is written or started yet.

        `slurm_bin`: where slurmctld and the commands are; None: on PATH. `conf`: default `directory`/etc/slurm.conf.
        `foreground`: plain `slurmctld -D`, whose failed reconfigure is its death; else as under systemd, where a
        failed reconfigure leaves the old one running (both run). `options`: more for slurmctld, such as -c. `within`:
        what runs slurmctld and the commands for us, such as `nsenter … --`; it must exec.
        """
        self.directory = directory.resolve()
        self.conf = (conf or self.directory / "etc" / "slurm.conf").resolve()
        self.foreground = foreground
        self.log_path = self.directory / "slurmctld.log"
        self.port: int | None = None  # known once write_conf() chose it
        self._slurm_bin, self._options, self._within = slurm_bin, tuple(options), tuple(within)
        self.processes = OwnProcesses(self.conf, self.directory)
        self._spool = spool_directory(self.directory)
        self._service: ServiceManager | None = None
        self._guardian: Guardian | None = None
        self._first: subprocess.Popen[bytes] | None = None
        self._slurmds: dict[str, subprocess.Popen[bytes]] = {}

    # Configuration

    def write_conf(self, nodes: str, partitions: str, *, extra: str = "", scheduler: str = QUICK) -> None:
        """Write a slurm.conf that serves `nodes` and `partitions` (lines of text) on free ports of loopback.

        CLOUD nodes are never powered up or down: jobs get them and stay CONFIGURING. `extra`: more lines; one with a
        key that loopback_conf() sets takes its place.
        """
        for directory in (self.directory, self.directory / "state", self.conf.parent):
            directory.mkdir(parents=True, exist_ok=True)
        self.port = free_ports(1)[0]
        self.conf.write_text(loopback_conf(self.directory, self.port, nodes, partitions, extra, scheduler))
        # Nothing of ours may depend on, or touch, the machine's control groups.
        (self.conf.parent / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def real_nodes(self, names: Iterable[str], attributes: str = "CPUs=1") -> str:
        """NodeName lines, for write_conf(), of nodes that start_slurmds() can bring to life on this machine."""
        return real_nodes(names, attributes)

    # Life

    def start(self, timeout: float = 30) -> None:
        """Return when slurmctld answers. Raises SlurmctldDied, or TimeoutError when it does neither (it is ended then).

        Should somebody have taken the port since write_conf(), another is chosen and the line in slurm.conf changed.
        """
        if self.alive():
            raise RuntimeError(f"slurmctld of {self.directory} runs already")
        for attempt in range(5):
            try:
                return self._start(timeout)
            except SlurmctldDied as died:
                if self.port is None or attempt == 4 or not any(_IN_USE in line for line in died.words):
                    raise
            self.port = free_ports(1)[0]
            line = re.compile(r"^SlurmctldPort=\d+$", re.M)
            self.conf.write_text(line.sub(f"SlurmctldPort={self.port}", self.conf.read_text()))

    def _start(self, timeout: float) -> None:
        if self._service is None:
            self._service = ServiceManager()
            self._guardian = Guardian(self.processes, [self._service.directory, self._spool])
        self._service.expect()
        mark = self.log_path.stat().st_size if self.log_path.exists() else 0
        # prlimit: some configurations crash slurmctld, and nobody wants its core dumps.
        command = ["prlimit", "--core=0:0", *self._command("slurmctld"), "-D" if self.foreground else "--systemd"]
        notify = {} if self.foreground else {"NOTIFY_SOCKET": str(self._service.socket_path)}
        self._first = self._spawn([*command, *self._options], "slurmctld.out", notify)
        deadline = time.monotonic() + timeout
        while (code := self._first.poll()) is None:
            # Ping alone could be answered by a stranger on our port.
            said = "Running as primary" in self._words(mark) if self.foreground else self._service.ready.is_set()
            if said and self._answers(deadline) and self._first.poll() is None:
                return
            if time.monotonic() > deadline:
                self.kill()
                raise TimeoutError(f"slurmctld did not answer within {timeout:g} s (its log: {self.log_path})")
            time.sleep(0.005)
        self.kill()  # what it may have started before it died
        raise SlurmctldDied(code, last_words(self._words(mark)), self.log_path)

    def _answers(self, deadline: float) -> bool:
        """One that waits for a file (60 s for a missing topology.conf) keeps ping waiting too, for 10 s (run)."""
        try:
            return " is UP" in self.scontrol("ping", check=False, timeout=max(0.1, deadline - time.monotonic())).stdout
        except subprocess.TimeoutExpired:
            return False

    @property
    def pid(self) -> int | None:
        """Of the slurmctld that serves now; a reconfigure replaces it."""
        known = self._service.main_pid if self._service else None
        for candidate in (known, self._first.pid if self._first else None):
            if candidate is not None and self.processes.owns(candidate):
                return candidate
        return next(iter(self.processes.find(["slurmctld"])), None)

    def alive(self) -> bool:
        return self.pid is not None

    def stop(self, grace: float = 10) -> None:
        """SIGTERM (slurmctld saves its state), SIGKILL after `grace` seconds. slurmds end too. Safe to repeat."""
        self.stop_slurmds()
        self._terminate(grace)
        if self._guardian is not None:
            self._guardian.dismiss()
            self._guardian = None
        if self._service is not None:
            self._service.close()
            self._service = None
        shutil.rmtree(self._spool, ignore_errors=True)

    def kill(self) -> None:
        """SIGKILL, as if the machine had crashed: no state is saved. slurmds live on."""
        self.processes.end_all(["slurmctld", "slurmscriptd"])
        if self._first is not None:
            self._first.wait()  # it is dead; this only reaps it

    def restart(self, timeout: float = 30) -> None:
        """A new slurmctld from the files and the saved state; slurmds live on. Raises as start()."""
        self._terminate(timeout)
        self.start(timeout)

    def _terminate(self, grace: float) -> None:
        deadline = time.monotonic() + grace
        while (pid := self.pid) is not None and time.monotonic() < deadline:
            # Again and again: one that comes while slurmctld starts or replaces itself is lost (run).
            self.processes.kill(pid, signal.SIGTERM)
            self.processes.wait_gone(pid, 0.5)
        self.kill()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    # Real nodes

    def start_slurmds(self, names: Iterable[str], timeout: float = 30) -> None:
        """A real slurmd for each of `names` (see real_nodes()); returns when Slurm calls all of them idle.

        Raises TimeoutError with each missing node's state and its slurmd's last words.
        """
        names = list(names)
        self._spool.mkdir(mode=0o700, exist_ok=True)
        if self._spool.stat().st_uid != os.geteuid():
            raise PermissionError(f"{self._spool} belongs to somebody else")
        for name in names:
            self._slurmds[name] = self._spawn([*self._command("slurmd"), "-D", "-N", name], f"slurmd-{name}.out")
        deadline = time.monotonic() + timeout
        while True:
            answer = self.run("sinfo", "-h", "-N", "-n", ",".join(names), "-o", "%N %T", check=False)
            states = dict(line.split(None, 1) for line in answer.stdout.splitlines())
            missing = {name: states.get(name, "unknown") for name in names if states.get(name) != "idle"}
            if not missing:
                return
            if time.monotonic() > deadline:
                words = {name: self._tail(self.directory / f"slurmd-{name}.out") for name in missing}
                raise TimeoutError(f"nodes do not become idle: {missing}; their slurmds say: {words}")
            time.sleep(0.02)

    def stop_slurmds(self, names: Iterable[str] | None = None) -> None:
        """End these slurmds (default: all), and with the last of them the jobs' processes."""
        chosen = list(self._slurmds) if names is None else list(names)
        running = [self._slurmds.pop(name) for name in chosen]
        for slurmd in running:
            slurmd.terminate()
        for slurmd in running:
            try:
                slurmd.wait(5)
            except subprocess.TimeoutExpired:
                slurmd.kill()
                slurmd.wait()
        if running and not self._slurmds:
            steps = self.processes.find(["slurmstepd"])
            tasks = self.processes.descendants(steps)
            self.processes.end_all(["slurmd", "slurmstepd"])
            for task in tasks:
                self.processes.kill(task, signal.SIGKILL)

    # Talking to it

    @property
    def env(self) -> dict[str, str]:
        """The environment in which Slurm's commands, and the product, talk to this slurmctld."""
        path = os.environ.get("PATH", os.defpath)
        return {
            **{key: value for key, value in os.environ.items() if not key.startswith(("SLURM_", "SLURMD_", "SBATCH_"))},
            "SLURM_CONF": str(self.conf),
            "PATH": f"{self._slurm_bin}{os.pathsep}{path}" if self._slurm_bin else path,
        }

    @property
    def slurm(self) -> SlurmCommands:
        """The same slurmctld as the product's use cases see it (without `within`)."""
        return SlurmCommands(self._slurm_bin, self.conf, self.env)

    def run(
        self, program: str, *arguments: str, check: bool = True, timeout: float = 60, stdin: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """One of Slurm's commands, run in `directory`, where jobs' output goes.

        Raises CommandFailed (with `check`) and TimeoutExpired.
        """
        command = [*self._command(program), *arguments]
        done = subprocess.run(
            command, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL, capture_output=True,
            text=True, errors="replace", timeout=timeout, env=self.env, cwd=self.directory,
        )  # fmt: skip
        if check and done.returncode:
            raise CommandFailed(done.returncode, command, done.stdout, done.stderr)
        return done

    def scontrol(self, *arguments: str, check: bool = True, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        return self.run("scontrol", *arguments, check=check, timeout=timeout)

    @property
    def log(self) -> str:
        """All that slurmctld said since the directory was made."""
        return self._words(0)

    def _words(self, mark: int) -> str:
        """The log from byte `mark` on; what went to stderr where it did not get as far as opening its log."""
        for path, offset in ((self.log_path, mark), (self.directory / "slurmctld.out", 0)):
            with contextlib.suppress(FileNotFoundError), path.open("rb") as file:
                file.seek(offset)
                if text := file.read().decode(errors="replace"):
                    return text
        return ""

    def _tail(self, path: Path) -> str:
        return (path.read_text(errors="replace").splitlines() or ["nothing"])[-1]

    def _command(self, program: str) -> list[str]:
        return [*self._within, str(self._slurm_bin / program) if self._slurm_bin else program]

    def _spawn(
        self, command: Sequence[str], out: str, more: Mapping[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        with (self.directory / out).open("wb") as file:
            return subprocess.Popen(command, env={**self.env, **(more or {})}, stdin=subprocess.DEVNULL, stdout=file,
                                    stderr=subprocess.STDOUT, start_new_session=True, cwd=self.directory)  # fmt: skip
