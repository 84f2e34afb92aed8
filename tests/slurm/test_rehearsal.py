"""The rehearsal with the real slurmctld: what it says, how long it takes, and what it leaves behind (nothing)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.slurm.conftest import NewCluster
from topology_plugin.adapters.rehearsal import NamespaceRehearsal, Outcome
from topology_plugin.core import slurm_conf, topology_conf, topology_yaml
from topology_plugin.core.live import Job
from topology_plugin.core.rules import Numbers
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.stage import Question, Scene, Stage, external, questions, scene
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree

V26, V24 = (26, 5, 5), (24, 11, 5)
LIVE = "SlurmctldHost=nowhere(203.0.113.7)\nNodeName=n[1-36] NodeAddr=203.0.113.[1-36] CPUs=192 State=UNKNOWN\n"
PARTITION = "PartitionName=p Nodes=ALL Default=YES\n"


def conf(more: str = "") -> SlurmConf:
    return slurm_conf.parse("/slurm.conf", {"/slurm.conf": LIVE + PARTITION + more}.get)


def names(low: int, high: int) -> tuple[str, ...]:
    return tuple(f"n{number}" for number in range(low, high + 1))


FLAT = Topology("flat", Flat(), True)
TREE = Topology("tree", Tree((Switch("a", names(1, 18)), Switch("b", names(19, 36)), Switch("r", (), ("a", "b")))))
BLOCK = Topology(
    "block", Blocks((18,), (Block("x", names(1, 18)), Block("w", names(19, 30)), Block("z", names(31, 36))))
)
IN_FORCE = Configuration((FLAT,), {"p": None})
TO_BLOCK = Configuration((FLAT, BLOCK), {"p": "block"})
TO_TREE = Configuration((FLAT, TREE), {"p": "tree"})
JOBS = (
    Job(1, partition="p", nodes_wanted=33),
    Job(2, partition="p", nodes_wanted=2, required=("n1", "n20")),
    Job(3, partition="p", nodes_wanted=12, segment=4),
    Job(4, partition="p", nodes_wanted=18, switches=1, excluded=("n36",)),
)


def set_up(configuration: Configuration, version: Numbers = V26) -> Scene:
    return scene(conf(), topology_yaml.render(configuration).encode(), None, version, words=configuration.words)


def stage(after: Configuration, before: Configuration | None = IN_FORCE, jobs: tuple[Job, ...] = JOBS) -> Stage:
    asked = questions(conf(), before, after, jobs)
    return Stage(set_up(after), set_up(before) if before else None, asked)


def told(outcome: Outcome) -> dict[str, bool | None]:
    return {" ".join(question.arguments[2:]): accepted for question, accepted in outcome.answers.items()}


def test_says_which_sizes_and_pending_jobs_the_change_would_make_impossible(slurm_bin: Path, tmp_path: Path) -> None:
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(stage(TO_BLOCK))
    assert outcome.started, outcome.error
    assert told(outcome) == {
        "-N 33": False, "-N 2 -w n[1,20]": False, "-N 12 --segment=4": True, "-N 18 -x n36 --switches=1": True,
        "-N 31": False, "-N 30": True, "-N 36": False, "-N 1": True,
    }  # fmt: skip
    assert [str(question) for question in outcome.lost] == [
        "-p p -N 33 (job 1)", "-p p -N 2 -w n[1,20] (job 2)", "-p p -N 31", "-p p -N 36",
    ]  # fmt: skip
    assert outcome.seconds < 15  # 0.7 s alone


def test_nothing_is_lost_where_the_new_one_takes_all(slurm_bin: Path, tmp_path: Path) -> None:
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(stage(TO_TREE, TO_BLOCK))
    assert outcome.started, outcome.error
    assert outcome.lost == ()
    assert all(outcome.answers.values())


def test_what_was_refused_before_is_not_lost(slurm_bin: Path, tmp_path: Path) -> None:
    asked = (Question(("-p", "p", "-N", "33")), Question(("-p", "p", "-N", "37")))
    played = Stage(set_up(TO_BLOCK), set_up(TO_BLOCK), asked)
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(played)
    assert list(outcome.answers.values()) == [False, False]
    assert outcome.lost == ()


def test_a_broken_configuration_in_force_hides_nothing_and_is_said(slurm_bin: Path, tmp_path: Path) -> None:
    played = Stage(set_up(TO_BLOCK), Scene(set_up(IN_FORCE).conf, b"[]\n"), questions(conf(), None, TO_BLOCK, JOBS))
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(played)
    assert outcome.started
    assert outcome.lost == ()
    assert "SIGSEGV" in outcome.notes[0]


def test_24_11_rehearses_with_topology_conf_and_cloud_nodes(slurm_bin_24: Path, tmp_path: Path) -> None:
    two = Topology("block", Blocks((18,), (Block("x", names(1, 18)), Block("w", names(19, 36)))), True)
    classic = conf("TopologyPlugin=topology/block\n")
    after = scene(classic, None, topology_conf.render(two).encode(), V24)
    asked = questions(classic, IN_FORCE, Configuration((two,)), JOBS[:2])
    played = Stage(after, scene(conf(), None, None, V24), asked, external(V24))
    outcome = NamespaceRehearsal(slurm_bin_24, directory=tmp_path).rehearse(played)
    assert outcome.started, outcome.error
    assert told(outcome)["-N 33"] is True
    assert [question.jobs for question in outcome.lost] == [("2",)]


def test_slurmctlds_own_words_say_why_it_dies(slurm_bin: Path, tmp_path: Path) -> None:
    lost_child = Topology("t", Tree((Switch("a", names(1, 36)), Switch("r", (), ("a", "zz")))), True)
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(stage(Configuration((lost_child,))))
    assert not outcome.started
    assert outcome.error == "fatal: Switch configuration r has invalid child (zz)"
    assert outcome.answers == {}


@pytest.mark.parametrize(("version", "release"), [(V26, "slurm_bin"), (V24, "slurm_bin_24")], ids=["26.05", "24.11"])
def test_a_tree_that_a_job_can_crash_is_found_out(
    request: pytest.FixtureRequest, tmp_path: Path, version: Numbers, release: str
) -> None:
    uneven = Tree(
        (Switch("a", names(1, 18)), Switch("b", names(19, 36)), Switch("m", (), ("a",)), Switch("r", (), ("m", "b")))
    )
    topology = Topology("t", uneven, True)
    asked = questions(conf(), None, Configuration((topology,)))
    if version == V26:
        after = set_up(Configuration((topology,)))
    else:
        after = scene(conf("TopologyPlugin=topology/tree\n"), None, topology_conf.render(topology).encode(), V24)
    played = Stage(after, None, asked, external(version))
    outcome = NamespaceRehearsal(request.getfixturevalue(release), directory=tmp_path).rehearse(played)
    assert not outcome.started
    assert outcome.error == "slurmctld crashed when it was asked for sbatch -p p -N 1-37"


def test_it_ends_within_its_time(slurm_bin: Path, tmp_path: Path) -> None:
    waits = Stage(Scene(f"TopologyPlugin=topology/tree\n{scene(conf(), None, None, V26).conf}"))
    begun = time.monotonic()
    outcome = NamespaceRehearsal(slurm_bin, budget=2, directory=tmp_path).rehearse(waits)
    assert time.monotonic() - begun < 8
    assert not outcome.started
    assert "did not serve within 2 s" in outcome.error
    assert "topology.conf" in outcome.error


def test_questions_without_time_stay_open(slurm_bin: Path, tmp_path: Path) -> None:
    begun = time.monotonic()
    jumps = iter([begun, begun, begun])  # begin, start, first question; then time is up
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path, now=lambda: next(jumps, begun + 99)).rehearse(
        stage(TO_BLOCK)
    )
    assert outcome.started
    answers = list(outcome.answers.values())
    assert answers[0] is False
    assert set(answers[1:]) == {None}


def leftovers(place: Path) -> list[str]:
    """Directories, processes with them in their environment or command line, mounts."""
    found = [str(path) for path in place.iterdir()]
    for process in Path("/proc").glob("[0-9]*"):
        try:
            text = (process / "environ").read_bytes() + (process / "cmdline").read_bytes()
            name = (process / "comm").read_text()
        except OSError:  # it ended meanwhile
            continue
        if str(place).encode() + b"/" in text and process.name != str(os.getpid()):
            found.append(name)
    return found + [line for line in Path("/proc/self/mountinfo").read_text().splitlines() if str(place) in line]


def test_nothing_is_left_behind(slurm_bin: Path, tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for played in (stage(TO_BLOCK), Stage(Scene("NodeName=", b"[]\n"))):
        NamespaceRehearsal(slurm_bin, directory=place).rehearse(played)
        assert leftovers(place) == []


KILLED = """
import sys
from pathlib import Path
from tests.slurm.test_rehearsal import TO_BLOCK, stage
from topology_plugin.adapters.rehearsal import NamespaceRehearsal
NamespaceRehearsal(Path(sys.argv[1]), directory=Path(sys.argv[2])).rehearse(stage(TO_BLOCK))
"""


@pytest.mark.parametrize("seconds", [0.15, 0.35, 0.7])
def test_nothing_is_left_behind_by_one_that_is_killed(slurm_bin: Path, tmp_path: Path, seconds: float) -> None:
    place = tmp_path / "place"
    place.mkdir()
    repository = Path(__file__).parents[2]
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(slurm_bin), str(place)], cwd=repository)
    deadline = time.monotonic() + 60
    while not any(place.iterdir()) and time.monotonic() < deadline:
        time.sleep(0.005)
    time.sleep(seconds)
    child.send_signal(signal.SIGKILL)
    child.wait()
    deadline = time.monotonic() + 60
    while leftovers(place) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert leftovers(place) == []


def test_two_at_once_and_beside_a_live_one_know_nothing_of_each_other(
    slurmctld: NewCluster, slurm_bin: Path, tmp_path: Path
) -> None:
    live = slurmctld("NodeName=n[1-36] State=CLOUD CPUs=1", PARTITION)
    job, pid = live.submit("-N2"), live.pid
    live.wait_running(job)
    with ThreadPoolExecutor(2) as pool:
        rehearsal = NamespaceRehearsal(slurm_bin, directory=tmp_path)
        block, tree = pool.map(rehearsal.rehearse, [stage(TO_BLOCK), stage(TO_TREE)])
    assert (block.started, tree.started) == (True, True)
    assert len(block.lost) == 4
    assert tree.lost == ()
    assert live.pid == pid
    assert live.job(job).nodes == ("n1", "n2")
    assert live.run("squeue", "-h", "-o", "%i").stdout.split() == [str(job)]


def test_slurmctld_may_be_in_another_directory_than_the_commands(slurm_bin: Path, tmp_path: Path) -> None:
    installed = tmp_path / "slurm"
    for directory, programs in (("bin", ("scontrol", "sbatch", "scancel")), ("sbin", ("slurmctld",))):
        (installed / directory).mkdir(parents=True)
        for program in programs:
            (installed / directory / program).symlink_to(slurm_bin / program)
    rehearsal = NamespaceRehearsal(installed / "bin", directory=tmp_path)
    assert rehearsal.available() is None
    assert rehearsal.rehearse(stage(TO_TREE)).started


def test_where_there_can_be_none_the_reason_is_given(tmp_path: Path) -> None:
    said = NamespaceRehearsal(tmp_path).available()
    assert said is not None
    assert said.startswith("scontrol, sbatch, scancel")


def test_at_most_sixty_four_questions_on_two_thousand_nodes_take_seconds(slurm_bin: Path, tmp_path: Path) -> None:
    large = slurm_conf.parse("/s", {"/s": f"NodeName=n[1-2000]\n{PARTITION}"}.get)
    leaves = tuple(Switch(f"s{i}", names(18 * i + 1, min(2000, 18 * i + 18))) for i in range(112))
    tree = Topology("tree", Tree((*leaves, Switch("root", (), tuple(leaf.name for leaf in leaves)))), True)
    jobs = [Job(i, partition="p", nodes_wanted=i, required=(f"n{i}",)) for i in range(1, 100)]
    configuration = Configuration((tree,))
    asked = questions(large, None, configuration, jobs)
    assert len(asked) == 64
    played = Stage(scene(large, topology_yaml.render(configuration).encode(), None, V26), None, asked)
    outcome = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(played)
    assert outcome.started
    assert all(outcome.answers.values())
    assert outcome.seconds < 28  # 2 s alone
