"""The installed slurmctld, started with what is to be published, in a network namespace of its own.

Nothing outside is reached: the namespace has an address of its own and no way out, slurm.conf is written from nothing
(core/stage.py), all files lie in a directory that goes away. It says in a second what no list of rules can.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from topology_plugin.adapters.last_words import SlurmctldDied
from topology_plugin.adapters.private_slurmctld import PrivateSlurmctld
from topology_plugin.core.stage import Question, Scene, Stage

BUDGET_SECONDS = 30.0
_PROGRAMS = ("scontrol", "sbatch", "scancel")
_DIRECTORY = "hyperpod-topology-rehearsal-"

# Holds the namespace: gives its loopback device an address beside 127.0.0.1 (with that alone slurmctld can't resolve
# what to listen on: run) and lives until its standard input ends, with us. Then, or if we were killed, it removes the
# directory, for as long as a dying slurmctld still writes there.
_HOLDER = """
import fcntl, os, shutil, socket, struct, sys, time
device = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
def request(number, name, value):
    fcntl.ioctl(device, number, struct.pack("16s24s", name, value))
address = struct.pack("HH4s", socket.AF_INET, 0, socket.inet_aton("10.255.255.1"))
request(0x8914, b"lo", struct.pack("H", 0x1 | 0x40))
request(0x8916, b"lo:1", address)
print("ready", flush=True)
sys.stdin.read()
for attempt in range(20):
    shutil.rmtree(sys.argv[1], ignore_errors=True)
    if not os.path.exists(sys.argv[1]):
        break
    time.sleep(0.1)
"""


@dataclass(frozen=True)
class Outcome:
    """`started`: slurmctld took the new configuration; else `error`: its own last words.

    `answers`: question → accepted under the new configuration (None: no clear answer, or no time for it). `lost`:
    those accepted under the configuration in force and refused under the new one. `seconds`: what it took.
    """

    started: bool
    error: str = ""
    answers: Mapping[Question, bool | None] = field(default_factory=dict)
    lost: tuple[Question, ...] = ()
    seconds: float = 0.0
    notes: tuple[str, ...] = ()


class Rehearsal(Protocol):
    def available(self) -> str | None:
        """Why there can be none here; None: it can be."""
        ...

    def rehearse(self, stage: Stage) -> Outcome:
        """Never raises for what is on the stage. Raises OSError if the machine refuses namespaces or files."""
        ...


class NamespaceRehearsal:
    """`slurm_bin`: where Slurm's commands are, None: on PATH. slurmctld is looked for there, in ../sbin, /usr/sbin."""

    def __init__(
        self,
        slurm_bin: Path | None,
        *,
        budget: float = BUDGET_SECONDS,
        directory: Path | None = None,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slurm_bin, self._budget, self._directory, self._now = slurm_bin, budget, directory, now

    def available(self) -> str | None:
        if os.geteuid() != 0:
            return "only root can make a network namespace"
        for program in ("unshare", "nsenter", "prlimit"):
            if shutil.which(program) is None:
                return f"{program} (util-linux) is missing"
        missing = [name for name in (*_PROGRAMS, "slurmctld") if self._program(name) is None]
        if missing:
            return f"{', '.join(missing)} not found"
        done = subprocess.run(["unshare", "-n", "true"], capture_output=True, text=True, check=False)
        return f"unshare -n fails: {done.stderr.strip()}" if done.returncode else None

    def rehearse(self, stage: Stage) -> Outcome:
        begun = self._now()
        deadline = begun + self._budget
        with contextlib.ExitStack() as cleanup:
            place = Path(tempfile.mkdtemp(prefix=_DIRECTORY, dir=self._directory))
            cleanup.callback(shutil.rmtree, place, ignore_errors=True)
            bin_dir = self._links(place)
            within = cleanup.enter_context(_Namespace(place))
            answers: dict[Question, bool | None] = {}
            started, error = self._play(
                place / "after", bin_dir, within, stage.after, stage, stage.questions, answers, deadline
            )
            lost, notes = (
                self._lost(place / "before", bin_dir, within, stage, answers, deadline) if started else ((), ())
            )
        return Outcome(started, error, answers, lost, self._now() - begun, notes)

    def _lost(
        self,
        place: Path,
        bin_dir: Path,
        within: list[str],
        stage: Stage,
        answers: Mapping[Question, bool | None],
        deadline: float,
    ) -> tuple[tuple[Question, ...], tuple[str, ...]]:
        """Only what the new configuration refuses is asked of the one in force."""
        refused = tuple(question for question, accepted in answers.items() if accepted is False)
        if stage.before is None or not refused:
            return (), ()
        former: dict[Question, bool | None] = {}
        started, error = self._play(place, bin_dir, within, stage.before, stage, refused, former, deadline)
        if not started:
            return (), (f"what is in force does not start on its own, so nothing can be compared with it: {error}",)
        return tuple(question for question in refused if former.get(question)), ()

    def _play(
        self,
        place: Path,
        bin_dir: Path,
        within: list[str],
        scene: Scene,
        stage: Stage,
        questions: tuple[Question, ...],
        answers: dict[Question, bool | None],
        deadline: float,
    ) -> tuple[bool, str]:
        """One slurmctld: started, asked, ended. `answers` fills as far as the time goes."""
        slurmctld = PrivateSlurmctld(place, bin_dir, within=within)
        slurmctld.write_conf("", "", extra=f"SlurmctldHost=localhost(127.0.0.1)\n{scene.conf}")
        for name, data in (("topology.yaml", scene.topology_yaml), ("topology.conf", scene.topology_conf)):
            if data is not None:
                (slurmctld.conf.parent / name).write_bytes(data)
        try:
            slurmctld.start(timeout=max(1.0, deadline - self._now()))
            for question in questions:
                answers[question] = None
                if (left := deadline - self._now()) <= 0:
                    continue
                answers[question] = _ask(slurmctld, question, stage.external, left)
                if not answers[question] and _gone(slurmctld, answers[question]):
                    return False, f"slurmctld crashed when it was asked for sbatch {question}"
        except SlurmctldDied as died:
            if died.code < 0:
                return False, f"slurmctld crashed: {signal.Signals(-died.code).name}"
            return False, " / ".join(died.words) or str(died)
        except TimeoutError:
            words = [line for line in slurmctld.log.splitlines() if "error:" in line]
            return False, f"slurmctld did not serve within {self._budget:g} s" + (f": {words[-1]}" if words else "")
        finally:
            slurmctld.kill()  # nobody needs the state it would save
            slurmctld.stop()
        return True, ""

    def _links(self, place: Path) -> Path:
        """One directory with the programs, as slurmctld is often elsewhere than the commands."""
        directory = place / "bin"
        directory.mkdir()
        for name in (*_PROGRAMS, "slurmctld"):
            if (program := self._program(name)) is not None:
                (directory / name).symlink_to(program)
        return directory

    def _program(self, name: str) -> Path | None:
        if self._slurm_bin is None:
            found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
            return Path(found) if found else None
        places = (self._slurm_bin, self._slurm_bin.parent / "sbin", Path("/usr/sbin"))
        return next((place / name for place in places if (place / name).is_file()), None)


def _ask(slurmctld: PrivateSlurmctld, question: Question, external: bool, seconds: float) -> bool | None:
    """True: such a job could run; False: never; None: no clear answer."""
    arguments = list(question.arguments)
    if external:
        arguments.append("--external")
    if not question.real:
        arguments.append("--test-only")
    if not external:
        arguments += ["--wrap", "true"]
    try:
        done = slurmctld.run("sbatch", *arguments, check=False, timeout=seconds)
        if question.real and done.returncode == 0:
            slurmctld.run("scancel", done.stdout.split()[-1], check=False, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None
    if done.returncode == 0:
        return True
    said = done.stderr.lower()
    if "zero bytes" in said:
        return None  # the connection ended without an answer
    return False if "allocation failure" in said or "batch job submission failed" in said else None


def _gone(slurmctld: PrivateSlurmctld, answer: bool | None) -> bool:
    """Whether the question was its end. Without an answer it may still be dying."""
    patience = 1.0 if answer is None else 0.0
    until = time.monotonic() + patience
    while slurmctld.alive():
        if time.monotonic() >= until:
            return False
        time.sleep(0.02)
    return True


class _Namespace:
    """A network namespace that lasts as long as this object, or as long as we live."""

    def __init__(self, litter: Path) -> None:
        """`litter`: a directory to remove in the end."""
        python = [sys.executable, "-I", "-S", "-c", _HOLDER, str(litter)]
        self._holder = subprocess.Popen(
            ["unshare", "-n", "--", *python],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        self.enter = ["nsenter", f"--net=/proc/{self._holder.pid}/ns/net", "--"]

    def __enter__(self) -> list[str]:
        """What runs a command inside."""
        said = self._holder.stdout.readline() if self._holder.stdout else ""
        if said != "ready\n":
            words = (said + self._end()).strip().splitlines()
            raise OSError(f"no network namespace: {words[-1] if words else 'unshare -n gave no reason'}")
        return self.enter

    def __exit__(self, *_: object) -> None:
        self._end()

    def _end(self) -> str:
        try:
            return self._holder.communicate(timeout=5)[0]
        except subprocess.TimeoutExpired:
            self._holder.kill()
            self._holder.wait()
            return ""
