"""The job commands where no Slurm is: what a state.json alone can tell, and plain words for what it cannot."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import states
from topology_plugin.core import state_json
from topology_plugin.core.hostlists import fold
from topology_plugin.jobs import distance

STATE = states.state()
TRAIN = distance.of_state(STATE, "train")
CAPTURED = Path(__file__).parents[1] / "captured"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    (tmp_path / "state.json").write_text(json.dumps(state_json.dump(STATE)))
    (tmp_path / "root").mkdir()
    return tmp_path


def run(here: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "topology_plugin", *arguments, "--root", str(here / "root")],
        cwd=here,
        env={"PATH": str(here), "PYTHONPATH": str(Path(__file__).parents[2]), "LC_ALL": "C.UTF-8"},
        capture_output=True,
        text=True,
        timeout=60,
        stdin=subprocess.DEVNULL,
        check=False,
    )
    assert done.returncode == code, done.stderr
    assert "Traceback" not in done.stderr
    return done


FROM = ("--from", "state.json")


def test_placement_of_nodes_that_are_named(here: Path) -> None:
    nodes = f"{TRAIN.nodes[0]},{TRAIN.nodes[8]},{TRAIN.nodes[40]}"
    found = json.loads(run(here, "placement", "-p", "train", "--nodes", nodes, "-o", "json", *FROM).stdout)["jobs"][0]
    assert (found["leaves"], found["least_leaves"], found["spines"], found["worst_hops"]) == (3, 1, 2, 5)
    told = run(here, "placement", "-p", "train", "--nodes", nodes, *FROM).stdout
    assert "3 (of 1)" in told
    assert found["job"] == fold(nodes.split(",")) == told.splitlines()[-1].split()[0], "what was asked, no job 0"


def test_placement_without_slurm_says_what_can_be_done(here: Path) -> None:
    assert "name --nodes" in run(here, "placement", *FROM, code=2).stderr
    assert "Slurm's commands are not here" in run(here, "placement", "17", *FROM, code=2).stderr


def test_placement_of_a_job_that_accounting_remembers(here: Path) -> None:
    rows = (CAPTURED / "26.05-sacct.json").read_text().replace("real-[2-4]", f"{TRAIN.nodes[0]},{TRAIN.nodes[40]}")
    (here / "rows.json").write_text(rows)
    for name, answer in (
        ("scontrol", "exit 1"),
        ("squeue", "exit 1"),
        ("sacct", f"[ $2 = --json ] && exec /bin/cat {here}/rows.json"),
    ):
        (here / name).write_text(f"#!/bin/sh\n{answer}\n")
        (here / name).chmod(0o755)
    told = json.loads(run(here, "placement", "5", "-p", "train", "-o", "json", *FROM).stdout)["jobs"]
    (one,) = [job for job in told if job["job"] == "5"]
    assert (one["name"], one["nodes"], one["leaves"], one["worst_hops"]) == ("ended", 2, 2, 5)


def test_jobs_of_a_slurmctld_that_does_not_answer_are_not_known_and_not_gone(here: Path) -> None:
    (here / "scontrol").write_text("#!/bin/sh\nexit 1\n")
    (here / "scontrol").chmod(0o755)
    for arguments in (("ranks", "17"), ("placement", "17"), ("placement",), ("explain", "job:17")):
        told = run(here, *arguments, *FROM, code=2).stderr
        assert "slurmctld does not answer" in told and "is not in squeue" not in told
    assert "--nodes LIST -p PARTITION" in run(here, "ranks", "17", *FROM, code=2).stderr
    assert "slurmctld does not answer" in run(here, "submit", "--again", "17", *FROM, code=1).stderr


def test_advise_without_slurm_leaves_open_what_starts_now(here: Path) -> None:
    done = run(here, "advise", "-p", "train", "-N", "16", *FROM)
    assert "--switches=2@05:00" in done.stdout
    assert "whether it can start now is unknown" in done.stdout
    assert (
        json.loads(run(here, "advise", "-p", "ultra", "-N", "36", "-o", "json", *FROM).stdout)["startable_now"] is None
    )


def test_advise_needs_a_size_and_a_partition(here: Path) -> None:
    assert "say it: -N 16" in run(here, "advise", "-p", "train", *FROM, code=2).stderr
    assert "choose one with -p: dev, train, ultra, cpu" in run(here, "advise", "-N", "2", *FROM, code=2).stderr
    assert "there is no 'nowhere'" in run(here, "advise", "-N", "2", "-p", "nowhere", *FROM, code=2).stderr


def test_ranks_of_nodes_that_are_named(here: Path) -> None:
    nodes = [TRAIN.nodes[i] for i in (40, 0, 9, 1, 8)]
    done = run(here, "ranks", "-p", "train", "--nodes", ",".join(nodes), "-o", "hosts", "--tasks-per-node", "2", *FROM)
    order = (here / "hosts").read_text().split()
    assert order[::2] == order[1::2]
    assert [TRAIN.leaf(n) for n in order[::2]].count(TRAIN.leaf(nodes[0])) == 1
    assert order[-1] == nodes[0]
    assert "switches between neighbouring nodes" in done.stderr
    assert "names no job" in run(here, "ranks", *FROM, code=2).stderr
    assert (
        "cannot be written"
        in run(here, "ranks", "-p", "train", "--nodes", nodes[0], "-o", "no/where", *FROM, code=2).stderr
    )


def test_submit_shows_what_it_would_pass(here: Path) -> None:
    line = ("--", "-p", "train", "-N8", "--wrap", "true")
    done = run(here, "submit", "--required", "leaf", "--dry-run", *FROM, "--root", str(here / "root"), *line)
    assert done.stdout.startswith("sbatch -p train") and "--exclude=" in done.stdout and done.stdout.count("\n") == 1, (
        "a result, to be piped"
    )
    assert "could not be asked" in done.stderr


def test_that_there_is_no_sbatch_is_said_once(here: Path) -> None:
    done = run(here, "submit", *FROM, "--", "-N2", "--wrap", "true", code=1)
    assert done.stderr.count("sbatch cannot be started") == 1 and done.stdout == ""


def test_a_hold_has_any_bytes_for_a_reason(here: Path) -> None:
    run(here, "hold", "\udcff until Friday")
    assert "? until Friday" in next((here / "root").rglob("hold.json")).read_text()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("submit", *FROM), "nothing to submit", id="nothing"),
        pytest.param(("submit", "--required", "leaf", "--preferred", "leaf", *FROM), "choose one", id="both"),
        pytest.param(("submit", "--again", "7", "--preferred", "leaf", *FROM), "takes a job", id="again with a wish"),
        pytest.param(("placement", "-p", "nowhere", *FROM), "there is no 'nowhere'", id="no such partition"),
        pytest.param(("placement", "--from", "missing.json"), "missing.json", id="no such file"),
        pytest.param(("placement", "-p", "train", "--nodes", "", *FROM), "names no node", id="no node"),
        pytest.param(
            ("placement", "-p", "train", "--nodes", "foo", *FROM), "foo: not in partition train", id="stranger"
        ),
        pytest.param(("ranks", "-p", "train", "--nodes", "", *FROM), "names no node", id="no node to rank"),
        pytest.param(("ranks", "-p", "train", "--nodes", "foo", *FROM), "`show train -o table`", id="stranger to rank"),
        pytest.param(("simulate", sys.executable), "is not text", id="a trace that is none"),
        pytest.param(("simulate", *()), "needs a trace or --synthetic", id="no trace"),
        pytest.param(("simulate", "--synthetic", "kalos", "--jobs", "2"), "not found", id="no slurmctld"),
        pytest.param(("simulate", "--synthetic", "kalos", "--losses", "nan"), "is no number", id="no number"),
        pytest.param(
            ("simulate", "--synthetic", "kalos", "--losses", "inf"), "not in the range", id="no end of losses"
        ),
        pytest.param(
            ("simulate", "--synthetic", "kalos", "--policy", "ours+" + "9" * 400),
            "ours+MINUTES",
            id="no end of minutes",
        ),
        pytest.param(("advise", "--policy", *FROM), "not found", id="no slurmctld for a trial"),
    ],
)
def test_what_cannot_be_done_is_a_sentence_and_exit_code_2(here: Path, arguments: tuple[str, ...], words: str) -> None:
    assert words in run(here, *arguments, code=2).stderr
