"""The line is read as sbatch reads it, as far as nearness depends on it."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from topology_plugin.core.issues import InputError
from topology_plugin.jobs.sbatch_line import SbatchLine

SCRIPT = """#!/bin/bash
#SBATCH -N 4 --partition=train   # two on a line
#SBATCH --exclude=n[1-2]

# a comment
#SBATCH --ntasks-per-node=8
echo hello
#SBATCH -N 99
"""


def parse(
    *arguments: str, environment: Mapping[str, str] | None = None, scripts: Mapping[str, str] | None = None
) -> SbatchLine:
    def read(path: str) -> str:
        try:
            return (scripts or {"job.sh": SCRIPT})[path]
        except KeyError:
            raise FileNotFoundError(path) from None

    return SbatchLine.parse(arguments, read, environment or {})


@pytest.mark.parametrize(
    ("arguments", "nodes"),
    [
        pytest.param(["-N4", "x.sh"], (4, 4), id="short, joined"),
        pytest.param(["-N", "4", "x.sh"], (4, 4), id="short, apart"),
        pytest.param(["--nodes=4-8", "x.sh"], (4, 8), id="a range"),
        pytest.param(["--nodes", "2k", "x.sh"], (2048, 2048), id="a k of nodes"),
        pytest.param(["-HN4", "x.sh"], (4, 4), id="letters in one word"),
        pytest.param(["-n", "32", "--ntasks-per-node", "8", "x.sh"], (4, 4), id="by tasks"),
        pytest.param(["-n", "33", "--ntasks-per-node=8", "x.sh"], (5, 5), id="by tasks, rounded up"),
        pytest.param(["-w", "n[1-3]", "x.sh"], (3, 3), id="by names"),
        pytest.param(["-n", "32", "x.sh"], None, id="tasks alone say nothing"),
        pytest.param(["-G", "16", "x.sh"], None, id="GPUs alone, short"),
        pytest.param(["--gpus=16", "x.sh"], None, id="GPUs alone say nothing"),
        pytest.param(["x.sh"], (1, 1), id="nothing said"),
        pytest.param(["--wrap", "sleep -N9", "-N2"], (2, 2), id="a wrapped command is no option"),
        pytest.param(["-N2", "-N3", "x.sh"], (3, 3), id="the last one wins"),
        pytest.param(["--exclusive", "-N2", "x.sh", "-N9"], (2, 2), id="behind the script it is the script's"),
        pytest.param(["job.sh"], (4, 4), id="of the script, its head only"),
        pytest.param(["-N2", "job.sh"], (2, 2), id="the line above the script"),
    ],
)
def test_how_many_nodes_a_line_asks_for(arguments: list[str], nodes: tuple[int, int] | None) -> None:
    assert parse(*arguments).nodes() == nodes


def test_what_is_no_count_is_an_error() -> None:
    with pytest.raises(InputError, match="no node count"):
        parse("-N", "many", "x.sh").nodes()


def test_partition_and_excluded_nodes_come_from_line_script_and_environment_in_sbatchs_order() -> None:
    assert parse("job.sh").partition == "train"
    assert parse("job.sh").excluded == ("n1", "n2")
    assert parse("job.sh", environment={"SBATCH_PARTITION": "env"}).partition == "env"
    assert parse("-p", "line", "job.sh", environment={"SBATCH_PARTITION": "env"}).partition == "line"
    assert parse("-x", "n7", "job.sh").excluded == ("n7",)
    assert parse("x.sh").partition is None


def test_more_options_go_where_they_win_and_the_script_keeps_its_arguments() -> None:
    line = parse("-p", "train", "-x", "n1", "job.sh", "-x", "mine")
    made = line.with_options(["--exclude=n1,n2"])
    assert made == ["-p", "train", "-x", "n1", "--exclude=n1,n2", "job.sh", "-x", "mine"]
    assert parse("-N2", "--wrap=true").with_options(["-J", "x"]) == ["-N2", "--wrap=true", "-J", "x"]


@pytest.mark.parametrize(
    ("arguments", "scripts"),
    [
        pytest.param(["-N1", "a.sh", ":", "-N2", "b.sh"], {}, id="on the line"),
        pytest.param(["het.sh"], {"het.sh": "#SBATCH -N1\n#SBATCH hetjob\n#SBATCH -N2\n"}, id="in the script"),
    ],
)
def test_het_jobs_are_refused_as_they_are_several_jobs(arguments: list[str], scripts: dict[str, str]) -> None:
    with pytest.raises(InputError, match="het job"):
        parse(*arguments, scripts=scripts)
