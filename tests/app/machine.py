"""A controller whose slurm.conf, topology.yaml, registry and generations are files, its slurmctld a fake."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tests.fakes import FakeClock, FakeSlurmctld, Quick
from topology_plugin.adapters.files import Operations, RealFiles
from topology_plugin.adapters.generations import Generations
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import Applied, execute
from topology_plugin.app.doors import Doors
from topology_plugin.core import plan as planning
from topology_plugin.core import target
from topology_plugin.core.disk import Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.issues import Issue
from topology_plugin.core.topology import Configuration, Flat, Switch, Topology, Tree

NODES = tuple(f"n{number}" for number in range(1, 9))
CONF = """# The operator's own words stay.
ClusterName=c
NodeName=n[1-8]   CPUs=4 # eight
PartitionName=train Nodes=n[1-4]  Default=YES   # comment
PartitionName=all Nodes=ALL
Include more.conf
"""
MORE = "PartitionName=other\tNodes=n[5-8] State=UP\r\n"
FLAT = Topology("flat", Flat(), default=True)


def tree(name: str, *leaves: Sequence[str], default: bool = False) -> Topology:
    switches = tuple(Switch(f"s{number}", tuple(nodes)) for number, nodes in enumerate(leaves, 1))
    return Topology(name, Tree((*switches, Switch("root", children=tuple(s.name for s in switches)))), default)


ONE = Configuration((FLAT, tree("tree", NODES[:2], NODES[2:4])), {"train": "tree", "all": None, "other": None})
TWO = Configuration(
    (FLAT, tree("tree", NODES[:4]), tree("tree-other", NODES[4:6], NODES[6:])),
    {"train": "tree", "all": None, "other": "tree-other"},
)
RENAMED = Configuration((FLAT, tree("fabric", NODES[:4])), {"train": "fabric", "all": None, "other": None})


def undefined(disk: Disk) -> list[Issue]:
    """The one deadly thing these tests need: a word that names nothing."""
    return [
        Issue("", f"{word} is not defined") for word in sorted(disk.named - planning.defined_names(disk.topology_yaml))
    ]


@dataclass
class Machine:
    """A controller: its slurm.conf, state_dir and registry in a directory, its slurmctld a fake."""

    home: Path
    operations: Operations = field(default_factory=Quick)

    def __post_init__(self) -> None:
        self.etc = self.home / "etc"
        self.registry, self.state_dir = self.home / "fsx", self.home / "state"
        for directory in (self.etc, self.registry):
            directory.mkdir(exist_ok=True)
        if not (self.etc / "slurm.conf").exists():
            (self.etc / "slurm.conf").write_bytes(CONF.encode())
            (self.etc / "more.conf").write_bytes(MORE.encode())
        self.files = RealFiles(self.operations)
        self.live = LiveFiles(self.files, str(self.etc / "slurm.conf"))
        self.slurm = FakeSlurmctld(LiveFiles(RealFiles(), str(self.etc / "slurm.conf")))
        self.clock = FakeClock()

    @property
    def generations(self) -> Generations:
        return Generations(self.files, self.registry, self.state_dir)

    @property
    def doors(self) -> Doors:
        return Doors(self.live, self.slurm, self.clock, self.generations, self.slurm, undefined)

    def apply(self, configuration: Configuration, rehearsed: bool = False, offline: bool = False) -> Applied:
        """As a pass does it: a begun generation with the same content is finished, else a new one made."""
        doors, generations = self.doors, self.generations
        disk = doors.live.disk()
        wanted = target.of_configuration(configuration, disk)
        generation = Generation(
            generations.next_number(), wanted.topology_yaml, words=configuration.words, meta={"by": "merge"}
        )
        begun = generations.begun()
        if begun is not None and begun.same_content(generation):
            generation = replace(generation, number=begun.number)
        current = generations.current()
        number = None if current is not None and current.same_content(generation) else generation.number
        change = planning.plan(disk, wanted, number=number, reconfigure=not offline)
        return execute(doors, disk, change, generation, rehearsed=rehearsed)

    def snapshot(self) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in self.etc.iterdir()}

    def kept(self) -> list[str]:
        return sorted(p.name for p in (self.registry / "generations").iterdir())


def in_force(machine: Machine) -> Configuration:
    assert machine.slurm.loaded is not None
    return replace(machine.slurm.loaded, words=machine.slurm.words)


def refuse(machine: Machine) -> None:
    def refuses() -> Answer:
        machine.slurm.log.append("fatal: no such luck")
        return Answer(1, "", "refused")

    machine.slurm.answers.append(refuses)


class Killed(BaseException):
    """As SIGKILL: nobody catches it."""
