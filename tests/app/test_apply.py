"""Apply: the new configuration in force and read back, or the former one on disk and in force, and why."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeClock, FakeSlurmctld
from topology_plugin.adapters.files import Operations, RealFiles
from topology_plugin.adapters.generations import JOBS, Generations
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import Applied, ApplyFailed, Doors, execute, settle_jobs
from topology_plugin.core import plan as planning
from topology_plugin.core import target, topology_yaml
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


class Quick(Operations):
    """A disk that need not survive a power cut."""

    def sync(self, fd: int) -> None:
        pass


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


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def in_force(machine: Machine) -> Configuration:
    assert machine.slurm.loaded is not None
    return replace(machine.slurm.loaded, words=machine.slurm.words)


def test_a_change_is_in_force_on_disk_and_noted_after_one_reconfigure(machine: Machine) -> None:
    applied = machine.apply(ONE)
    assert (applied.number, applied.reconfigured, applied.notes) == (1, True, ())
    assert machine.slurm.reconfigures == 1
    assert in_force(machine) == ONE
    current = machine.generations.current()
    assert current is not None and current.number == 1 and current.words == ONE.words
    for base in (machine.registry, machine.state_dir):
        assert (base / "generations" / "current").read_text() == "1\n"
        assert (base / "generations" / "1" / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()


def test_of_slurm_conf_one_word_changes_and_nothing_else_and_comes_back_byte_for_byte(machine: Machine) -> None:
    before = machine.snapshot()
    machine.apply(TWO)
    assert (machine.etc / "slurm.conf").read_bytes() == CONF.replace(
        "Default=YES", "Default=YES Topology=tree"
    ).encode()
    assert (machine.etc / "more.conf").read_bytes() == MORE.replace("State=UP", "State=UP Topology=tree-other").encode()
    machine.apply(Configuration((FLAT,), dict.fromkeys(("train", "all", "other"))))
    after = machine.snapshot()
    assert after.pop("topology.yaml") and after == before


def test_the_same_again_touches_nothing(machine: Machine) -> None:
    machine.apply(ONE)
    stamps = {p: p.stat().st_mtime_ns for p in machine.home.rglob("*") if p.is_file()}
    applied = machine.apply(ONE)
    assert (applied.number, applied.reconfigured) == (None, False)
    assert {p: p.stat().st_mtime_ns for p in machine.home.rglob("*") if p.is_file()} == stamps
    assert machine.slurm.reconfigures == 1


def test_offline_writes_everything_and_asks_slurm_nothing(machine: Machine) -> None:
    machine.slurm.up = False
    assert machine.apply(ONE, offline=True).number == 1
    current = machine.generations.current()
    assert current is not None and current.number == 1
    machine.slurm.up = True
    assert machine.slurm.load() is None and in_force(machine) == ONE


# --- what goes wrong ---


def refuse(machine: Machine) -> None:
    def refuses() -> Answer:
        machine.slurm.log.append("fatal: no such luck")
        return Answer(1, "", "refused")

    machine.slurm.answers.append(refuses)


def time_out(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(1, "", "slurm_reconfigure error: Socket timed out on send/recv operation"))


def no_scontrol(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(None, "", "scontrol cannot be started: No such file or directory"))


def unreachable(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(1, "", "Unable to contact slurm controller (connect failure)"))


def lie(machine: Machine) -> None:
    def lies(text: str) -> str:
        return text.replace("n[1-2]", "n[1-3]") if "s2" in text else text

    machine.slurm.lies = lies


def die(machine: Machine) -> None:
    def dies() -> Answer:
        machine.slurm.up = False
        return Answer(0, "", "")

    machine.slurm.answers.append(dies)


def agent_writes(machine: Machine) -> None:
    """The agent puts its own slurm.conf there while slurmctld is reconfigured, and slurmctld refuses."""

    def writes() -> Answer:
        text = (machine.etc / "slurm.conf").read_text()
        (machine.etc / "slurm.conf").write_text(text + "PartitionName=new Nodes=n1\n")
        return Answer(1, "", "refused")

    machine.slurm.answers.append(writes)


REFUSALS: list[tuple[Callable[[Machine], None], str, str]] = [
    (refuse, "reconfigure", "fatal: no such luck"),
    (time_out, "read-back", "slurmctld runs something else"),
    (no_scontrol, "scontrol", "scontrol cannot be started: No such file or directory"),
    (unreachable, "reconfigure", "Unable to contact slurm controller"),
    (lie, "read-back", "s1 has nodes"),
    (die, "died", "slurmctld is not running any more"),
    (agent_writes, "reconfigure", "refused"),
]


@pytest.mark.parametrize(("wrong", "code", "says"), REFUSALS, ids=[wrong.__name__ for wrong, _, _ in REFUSALS])
@pytest.mark.parametrize("after", [RENAMED, Configuration((FLAT,), dict.fromkeys(ONE.words))], ids=["renamed", "flat"])
def test_a_refused_change_changes_nothing_says_why_and_succeeds_next_time(
    machine: Machine, wrong: Callable[[Machine], None], code: str, says: str, after: Configuration
) -> None:
    if wrong is lie:
        after = Configuration((FLAT, tree("tree", NODES[:2], NODES[2:3], NODES[3:4])), ONE.words)
    machine.apply(ONE if wrong is not lie else RENAMED)
    former, files = in_force(machine), machine.snapshot()
    if wrong is agent_writes:
        files["slurm.conf"] += b"PartitionName=new Nodes=n1\n"
    wrong(machine)
    with pytest.raises(ApplyFailed) as caught:
        machine.apply(after)
    assert caught.value.code == code and says in str(caught.value)
    assert caught.value.undone
    assert machine.snapshot() == files
    if machine.slurm.up:
        assert in_force(machine).topologies == former.topologies
        assert {p: w for p, w in machine.slurm.words.items() if p != "new"} == former.words
    assert machine.kept() == ["1", "current"]
    current = machine.generations.current()
    assert current is not None and current.number == 1

    machine.slurm.up, machine.slurm.lies = True, None
    assert machine.slurm.load() is None
    assert machine.apply(after).number == 2
    assert in_force(machine).topologies == after.topologies


def test_a_timeout_is_no_failure_as_long_as_slurmctld_gets_there(machine: Machine) -> None:
    """A big tree: scontrol gives up after 10 s, the former slurmctld answers for a while, then nobody, then the new."""
    slurm, clock = machine.slurm, machine.clock
    begin = clock.now()

    class Slow(FakeClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            slurm.up = not 100 < self.time - begin < 200
            if self.time - begin >= 200:
                slurm.load()

    machine.clock, slurm.process = Slow(begin), True
    time_out(machine)
    applied = machine.apply(ONE)
    assert applied.number == 1 and in_force(machine) == ONE
    assert 200 <= applied.seconds < 210


def test_patience_ends_after_five_minutes(machine: Machine) -> None:
    machine.apply(ONE)
    begin = machine.clock.now()
    time_out(machine)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert 300 <= machine.clock.now() - begin < 320
    assert in_force(machine) == ONE


def test_br_19_what_slurmctld_says_it_runs_is_compared_and_a_mismatch_reported(machine: Machine) -> None:
    machine.slurm.answers.append(Answer(0, "", ""))  # says yes and loads nothing
    with pytest.raises(ApplyFailed, match="slurmctld runs something else: partition train has no") as caught:
        machine.apply(ONE)
    assert caught.value.code == "read-back"
    assert machine.generations.current() is None


def test_br_29_what_failed_is_not_noted_as_done_and_the_next_pass_tries_again(machine: Machine) -> None:
    machine.apply(ONE)
    refuse(machine)
    with pytest.raises(ApplyFailed):
        machine.apply(TWO)
    current = machine.generations.current()
    assert current is not None and current.words == ONE.words and in_force(machine) == ONE
    machine.apply(TWO)  # nothing new came in between
    assert in_force(machine) == TWO


def test_an_undo_takes_back_our_words_only_and_what_the_agent_did_meanwhile_stays(machine: Machine) -> None:
    machine.apply(ONE)

    def agent() -> Answer:
        text = (
            (machine.etc / "slurm.conf").read_text().replace("CPUs=4", "CPUs=8").replace("# comment", "# new comment")
        )
        (machine.etc / "slurm.conf").write_text(text.replace("Nodes=ALL", "Nodes=ALL Hidden=YES"))
        return Answer(1, "", "refused")

    machine.slurm.answers.append(agent)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    text = (machine.etc / "slurm.conf").read_text()
    assert "CPUs=8" in text and "# new comment" in text and "Hidden=YES" in text
    assert "Topology=tree " in text and "fabric" not in text
    assert (machine.etc / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()


@pytest.mark.parametrize("partition", ["all", "train"])
def test_a_word_that_someone_else_wrote_meanwhile_stays(machine: Machine, partition: str) -> None:
    machine.apply(ONE)

    def agent() -> Answer:
        path = machine.etc / "slurm.conf"
        text = path.read_text().replace(" Topology=fabric", "") if partition == "train" else path.read_text()
        path.write_text(text.replace(f"PartitionName={partition} ", f"PartitionName={partition} Topology=flat "))
        return Answer(1, "", "refused")

    machine.slurm.answers.append(agent)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert machine.live.disk().words == {**ONE.words, partition: "flat"}
    assert (machine.etc / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()


def test_a_topology_yaml_that_someone_else_put_there_meanwhile_stays(machine: Machine) -> None:
    machine.apply(ONE)
    theirs = topology_yaml.render(Configuration((FLAT, tree("tree", NODES), tree("theirs", NODES)))).encode()

    def agent() -> Answer:
        (machine.etc / "topology.yaml").write_bytes(theirs)
        return Answer(1, "", "refused")

    machine.slurm.answers.append(agent)
    with pytest.raises(ApplyFailed):
        machine.apply(TWO)
    assert (machine.etc / "topology.yaml").read_bytes() == theirs
    assert machine.live.disk().words == ONE.words


@pytest.mark.parametrize("victim", ["slurm.conf", "topology.yaml"])
def test_an_agent_that_writes_between_two_of_our_writes_is_not_overwritten(tmp_path: Path, victim: str) -> None:
    class Agent(Quick):
        armed = False

        def rename(self, source: Path, target: Path) -> None:
            super().rename(source, target)
            if self.armed and target.parent.name == "etc":
                self.armed = False
                with (target.parent / victim).open("ab") as file:
                    file.write(b"\n# the agent was here\n")

    operations = Agent()
    machine = Machine(tmp_path, operations)
    machine.apply(ONE)
    operations.armed = True
    try:
        machine.apply(RENAMED)
    except ApplyFailed as failed:
        assert victim == "topology.yaml" and failed.code == "interfered"
        assert machine.slurm.load() is None and machine.slurm.words == ONE.words
    else:
        assert victim == "slurm.conf" and in_force(machine) == RENAMED
    assert b"# the agent was here" in (machine.etc / victim).read_bytes()


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EIO, errno.EACCES, errno.EROFS], ids=errno.errorcode.get)
def test_br_25_a_failing_disk_changes_nothing_wherever_it_fails(tmp_path: Path, code: int) -> None:
    """Every write and rename of a whole change fails once: each time the former state stands, and then all is well."""

    class Failing(Quick):
        left = 1 << 30

        def _count(self) -> None:
            self.left -= 1
            if self.left == 0:
                raise OSError(code, os.strerror(code))

        def write(self, fd: int, data: memoryview) -> int:
            self._count()
            return super().write(fd, data)

        def rename(self, source: Path, target: Path) -> None:
            self._count()
            super().rename(source, target)

    failing = Failing()
    machine = Machine(tmp_path, failing)
    machine.apply(ONE)
    files = machine.snapshot()
    failures = 0
    for point in range(1, 200):
        failing.left = point
        try:
            applied = machine.apply(RENAMED)
        except ApplyFailed as failed:
            failures += 1
            assert os.strerror(code) in str(failed) and failed.undone
            assert machine.snapshot() == files and in_force(machine) == ONE
            current = machine.generations.current()
            assert current is not None and current.words == ONE.words
        else:
            failing.left = 1 << 30
            if not applied.notes:
                break
            # It was in force before the note failed, and stays; the next pass writes the note.
            assert in_force(machine) == RENAMED
            assert machine.apply(RENAMED).reconfigured is False
            current = machine.generations.current()
            assert current is not None and current.words == RENAMED.words
            machine.apply(ONE)
            files = machine.snapshot()
    assert failures >= 12
    assert in_force(machine) == RENAMED
    assert list(tmp_path.rglob(".*")) == []


def test_an_unhealthy_former_pair_is_not_restored_but_the_last_good_generation(machine: Machine) -> None:
    machine.apply(ONE)
    (machine.etc / "topology.yaml").write_text("[]\n")
    refuse(machine)
    with pytest.raises(ApplyFailed, match="generation 1: back on disk"):
        machine.apply(RENAMED)
    assert (machine.etc / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()
    assert machine.live.disk().words == ONE.words


def test_an_unhealthy_former_pair_without_any_good_generation_becomes_flat(machine: Machine) -> None:
    (machine.etc / "slurm.conf").write_text(CONF.replace("Default=YES", "Default=YES Topology=nothing"))
    refuse(machine)
    with pytest.raises(ApplyFailed, match="flat alone: back on disk"):
        machine.apply(ONE)
    assert not machine.live.disk().named and machine.slurm.load() is None


def test_under_plain_d_nothing_is_reconfigured_without_a_rehearsal(machine: Machine) -> None:
    machine.slurm.is_foreground = True
    files = machine.snapshot()
    with pytest.raises(ApplyFailed, match="plain -D") as caught:
        machine.apply(ONE)
    assert caught.value.code == "foreground"
    assert machine.snapshot() == files and machine.slurm.reconfigures == 0
    assert machine.apply(ONE, rehearsed=True).number == 1


class Killed(BaseException):
    """As SIGKILL: nobody catches it."""


class Killing(Quick):
    """Dies right before the n-th rename over a live file."""

    def __init__(self) -> None:
        self.left = 0

    def rename(self, source: Path, target: Path) -> None:
        if target.parent.name == "etc":
            self.left -= 1
            if self.left == 0:
                raise Killed
        super().rename(source, target)


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_what_a_killed_pass_began_and_the_next_cannot_finish_is_taken_back_whole(tmp_path: Path, renames: int) -> None:
    """The files are halfway then, which is not where to go back to."""
    killing = Killing()
    machine = Machine(tmp_path, killing)
    machine.apply(ONE)
    files = machine.snapshot()
    killing.left = renames
    with pytest.raises(Killed):
        machine.apply(RENAMED)
    assert machine.generations.begun() is not None
    machine.slurm.load()
    refuse(machine)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert {name: data for name, data in machine.snapshot().items() if ".hpt-" not in name} == files
    assert machine.generations.begun() is None


@pytest.mark.parametrize("renames", [1, 2, 3])
def test_killed_on_the_way_back_everything_on_disk_is_still_known_as_ours(tmp_path: Path, renames: int) -> None:
    killing = Killing()
    machine = Machine(tmp_path, killing)
    machine.apply(ONE)

    def refuses() -> Answer:
        killing.left = renames
        return Answer(1, "", "refused")

    machine.slurm.answers.append(refuses)
    with pytest.raises(Killed):
        machine.apply(RENAMED)
    disk = machine.live.disk()
    assert disk.topology_yaml is not None and machine.generations.ours_text(disk.topology_yaml)
    assert all(machine.generations.ours_word(p, w) for p, w in disk.words.items() if w)
    assert machine.slurm.load() is None, "and slurmctld starts from it"
    assert machine.apply(RENAMED).number == 2


# --- jobs ---


def squeue(machine: Machine, *jobs: tuple[int, int, str], partition: str = "train") -> None:
    machine.slurm.jobs_text = "".join(
        f"{job}|{job}|{priority}|{partition}|{reason}\n" for job, priority, reason in jobs
    )


def test_exactly_the_jobs_that_our_change_got_held_are_released_by_the_next_change(machine: Machine) -> None:
    before = [
        (1, 10, "Resources"),
        (2, 10, "Priority"),
        (3, 0, "JobHeldUser"),
        (4, 0, "BadConstraints"),
        (5, 9, "None"),
    ]
    squeue(machine, *before)
    assert machine.apply(ONE).held == ()
    # Slurm looks at them some seconds later; 5 is held by its user meanwhile, 6 comes and is held by Slurm as well.
    now = [(1, 0, "BadConstraints"), *before[1:4], (5, 0, "JobHeldUser"), (6, 0, "BadConstraints")]
    squeue(machine, *now)
    assert settle_jobs(machine.doors) == ((1,), ())
    assert machine.slurm.released == []
    applied = machine.apply(RENAMED)
    assert applied.released == (1,) and machine.slurm.released == ["1"]
    assert settle_jobs(machine.doors) == ((1,), ()), "it could not run yet, was held again, and stays remembered"
    machine.apply(ONE)
    assert machine.slurm.released == ["1", "1"]
    squeue(machine, *now[1:])
    assert settle_jobs(machine.doors) == ((), ())


@pytest.mark.parametrize(
    ("partition", "candidates"), [("train", [1]), ("all", []), ("all,other", []), ("all,train", [1])]
)
def test_only_jobs_of_partitions_that_get_another_topology_can_be_held_by_the_change(
    machine: Machine, partition: str, candidates: list[int]
) -> None:
    machine.apply(Configuration((FLAT,), dict.fromkeys(ONE.words)))
    squeue(machine, (1, 10, "Resources"), partition=partition)
    machine.apply(ONE)
    assert (machine.generations.note(JOBS) or {"candidates": []})["candidates"] == candidates


def test_a_killed_pass_leaves_a_note_of_the_jobs_that_waited(machine: Machine) -> None:
    squeue(machine, (1, 10, "Resources"))

    def killed() -> Answer:
        raise Killed

    machine.slurm.answers.append(killed)
    with pytest.raises(Killed):
        machine.apply(ONE)
    squeue(machine, (1, 0, "BadConstraints"))
    assert settle_jobs(machine.doors) == ((1,), ())


def test_a_failed_change_releases_the_jobs_it_got_held(machine: Machine) -> None:
    machine.apply(ONE)
    squeue(machine, (1, 10, "Resources"))

    def held() -> Answer | None:
        squeue(machine, (1, 0, "BadConstraints"))
        return None

    machine.slurm.answers.append(held)
    machine.slurm.lies = lambda text: text.replace("fabric", "febric")
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert machine.slurm.released == ["1"]


def test_jobs_json_is_plain_and_sorted(machine: Machine) -> None:
    squeue(machine, (7, 10, "Resources"), (3, 10, "Resources"))
    machine.apply(ONE)
    note: dict[str, Any] | None = machine.generations.note(JOBS)
    assert note == {"candidates": [3, 7], "held": []}
