"""Stand-ins for what the product talks to. Each behaves as the real thing does in the points that tests rest on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from topology_plugin.adapters.controller import LogMark
from topology_plugin.adapters.files import Operations
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.slurm import Answer, Version
from topology_plugin.core import topology_conf, topology_yaml
from topology_plugin.core.issues import InputError
from topology_plugin.core.plan import needs_conf
from topology_plugin.core.topology import Configuration, Topology


class FakeClock:
    """Time that passes only when somebody sleeps."""

    def __init__(self, start: float = 1_000_000.0) -> None:
        self.time = start
        self.slept: list[float] = []

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.time += seconds


class Quick(Operations):
    """A disk that need not survive a power cut."""

    def sync(self, fd: int) -> None:
        pass


class FakeSlurmctld:
    """A slurmctld that reads the files of `live` at start and at `reconfigure`, refusing what the real one refuses.

    `answers`: answers to the next reconfigures instead of the real ones; a callable runs at that moment and returns an
    answer or None (then the files are read as usual). `jobs_text`: what squeue says; `released`: jobs let go; `asked`:
    how often for its nodes, as every pass begins.
    """

    def __init__(self, live: LiveFiles, version: str = "26.05.5", start: bool = True) -> None:
        self.live = live
        self.version_text = version
        self.loaded: Configuration | None = None
        self.plugin = "topology/default"
        self.classic_topology: Topology | None = None
        self.words: dict[str, str | None] = {}
        self.up = start  # it answers
        self.process: bool | None = None  # whether its process is there, where that is not the same
        self.is_foreground = False
        self.reconfigures = 0
        self.answers: list[Answer | Callable[[], Answer | None]] = []
        self.lies: Callable[[str], str] | None = None
        self.jobs_text = ""
        self.job_rows: list[dict[str, Any]] = []  # of `squeue --json`
        self.pinged = "Slurmctld(primary) at here is UP\n"  # what `scontrol ping` says
        self.released: list[str] = []
        self.log: list[str] = []
        self.asked = 0
        if start:
            assert self.load() is None

    @property
    def classic(self) -> bool:
        return self.version_text.startswith("24.")

    def load(self) -> str | None:
        """Take up the files; the fatal line if it dies of them."""
        disk = self.live.disk()
        if disk.conf.issues:
            return f"fatal: {disk.conf.issues[0]}"
        if self.classic:
            return self._load_classic()
        loaded: Configuration | None = None
        if disk.topology_yaml is not None:
            try:
                loaded = topology_yaml.parse(disk.topology_yaml.decode())
            except InputError as error:
                return f"fatal: {error}"
        elif needs_conf(disk.plugin) and disk.topology_conf is None:
            return "fatal: no topology.conf"
        names = {topology.name for topology in loaded.topologies} if loaded else set()
        for partition, word in disk.words.items():
            if word is not None and word not in names:
                return f"fatal: Invalid partition topology {word} of {partition}"
        self.loaded, self.words = loaded, disk.words
        return None

    def _load_classic(self) -> str | None:
        disk = self.live.disk()
        if any(disk.words.values()):
            return "fatal: unknown key Topology"
        plugin = disk.plugin or "topology/default"
        topology = None
        if needs_conf(plugin):
            if disk.topology_conf is None:
                return "fatal: no topology.conf"
            topology = topology_conf.parse(disk.topology_conf.decode())
            if topology.kind != plugin.removeprefix("topology/"):
                return "fatal: topology.conf is of another kind"
        self.plugin, self.classic_topology, self.words = plugin, topology, disk.words
        return None

    # The Protocol Slurm

    def run(self, program: str, *arguments: str, timeout: float = 30, stdin: str | None = None) -> Answer:
        if not self.up:
            return Answer(1, "", "Unable to contact slurm controller (connect failure)")
        if program == "squeue":
            return Answer(0, self.jobs_text, "")
        if program == "scontrol" and arguments[0] == "release":
            self.released.append(arguments[1])
            return Answer(0, "", "")
        if program == "scontrol" and arguments == ("ping",):
            return Answer(0, self.pinged, "")
        if program == "scontrol" and arguments == ("show", "topology"):
            return Answer(0, self._shown(), "")
        raise AssertionError(f"nobody taught the fake {program} {arguments}")

    def _shown(self) -> str:
        if self.classic_topology is None:
            return ""
        text = topology_conf.render(self.classic_topology)
        return "\n".join(line for line in text.splitlines() if line.startswith(("SwitchName", "BlockName")))

    def version(self) -> Version | None:
        return Version.parse(self.version_text)

    def ping(self) -> bool:
        return self.up

    def reconfigure(self, timeout: float = 60) -> Answer:
        if not self.up:
            return Answer(1, "", "slurm_reconfigure error: Unable to contact slurm controller (connect failure)")
        self.reconfigures += 1
        if self.answers:
            planned = self.answers.pop(0)
            answer = planned() if callable(planned) else planned
            if answer is not None:
                return answer
        fatal = self.load()
        if fatal is None:
            return Answer(0, "", "")
        self.log.append(fatal)
        if self.is_foreground:
            self.up = False
            return Answer(0, "", "")
        return Answer(1, "", "slurm_reconfigure error: Unspecified error")

    def topoconf(self) -> str | None:
        if not self.up:
            return None
        text = topology_yaml.render(self.loaded) if self.loaded else "- topology: default\n  flat: true\n"
        return self.lies(text) if self.lies else text

    def nodes(self) -> list[dict[str, Any]] | None:
        self.asked += 1
        return [] if self.up else None

    def partitions(self) -> dict[str, str | None] | None:
        return dict(self.words) if self.up else None

    def jobs(self, *which: str) -> list[dict[str, Any]] | None:
        return self.job_rows if self.up else None

    def config(self) -> Mapping[str, str] | None:
        return {"TopologyPlugin": self.plugin} if self.up else None

    # The Protocol Controller

    def running(self) -> bool | None:
        return self.up if self.process is None else self.process

    def foreground(self) -> bool:
        return self.is_foreground

    def log_mark(self, path: str | None) -> LogMark:
        return LogMark("log", len(self.log))

    def log_words(self, mark: LogMark) -> str:
        return " / ".join(self.log[mark.size :])
