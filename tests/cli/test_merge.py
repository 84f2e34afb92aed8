"""`merge` as a real process, offline: nothing waits for a slurmctld, and what matters is said."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests import cases
from tests.cli.typed import typed


def cluster(path: Path) -> Path:
    """F0 below `path`, with Slurm's commands that write down what they are asked; its slurm.conf."""
    for directory in ("opt/ml/config", "opt/slurm/etc", "fsx", "bin"):
        (path / directory).mkdir(parents=True)
    (path / "opt/ml/config/resource_config.json").write_text(json.dumps(cases.f0()))
    conf = path / "opt/slurm/etc/slurm.conf"
    conf.write_text(cases.F0_SLURM_CONF)
    for name in ("scontrol", "squeue", "slurmctld", "sinfo", "sbatch"):
        script = path / "bin" / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >> {path}/log\necho "slurm 26.05.5"\n')
        script.chmod(0o755)
    return conf


def merge(path: Path, *arguments: str, offline: bool = True) -> subprocess.CompletedProcess[str]:
    way = ("--offline",) if offline else ()
    environment = {"PATH": f"{path}/bin:/usr/bin:/bin", "HYPERPOD_TOPOLOGY_SOURCES": "resource-config,records"}
    return typed("merge", *way, "--root", path, *arguments, **environment)


def test_it_writes_without_asking_slurm_anything_but_its_version(tmp_path: Path) -> None:
    conf = cluster(tmp_path)
    done = merge(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "switch: nn-3aaaaaaaaaaaaaaa1" in (conf.parent / "topology.yaml").read_text()
    assert set((tmp_path / "log").read_text().splitlines()) == {"scontrol --version"}
    registry = tmp_path / "fsx/hyperpod-topology/abc123def456"
    assert (registry / "generations/current").read_text() == "1\n"


def test_br_09_one_line_says_which_nodes_are_unplaced_and_why(tmp_path: Path) -> None:
    cluster(tmp_path)
    lines = [line for line in merge(tmp_path).stderr.splitlines() if "unplaced" in line]
    assert len(lines) == 1 and "ip-10-1-1-8: no source knows its position" in lines[0]


def test_br_02_an_unreadable_input_is_said_without_being_asked_for_and_changes_nothing(tmp_path: Path) -> None:
    conf = cluster(tmp_path)
    assert merge(tmp_path).returncode == 0
    before = (conf.parent / "topology.yaml").read_bytes()
    (tmp_path / "opt/ml/config/resource_config.json").write_text("garbage")
    done = merge(tmp_path)
    assert (done.returncode, done.stdout) == (0, "nothing to do: the files are as wanted\n")
    assert "resource_config.json:1:1: is not valid JSON" in done.stderr
    assert (conf.parent / "topology.yaml").read_bytes() == before


def down(path: Path) -> None:
    """slurmctld does not answer: its commands know their version and nothing else."""
    for name in ("scontrol", "squeue"):
        (path / "bin" / name).write_text('#!/bin/sh\n[ "$1" = --version ] && echo "slurm 26.05.5" && exit 0\nexit 1\n')


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["merge", "dry-run"])
def test_where_slurmctld_does_not_answer_nothing_is_said_to_be_in_force(tmp_path: Path, dry: tuple[str, ...]) -> None:
    cluster(tmp_path)
    assert merge(tmp_path).returncode == 0
    down(tmp_path)
    done = merge(tmp_path, *dry, offline=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == (
        "slurmctld does not answer, so what it has loaded is not known; "
        "nothing to do in the files: they are as wanted, and it loads them when it starts\n"
    )


def test_what_slurmctld_cannot_be_told_is_not_written_and_the_remedy_is_said(tmp_path: Path) -> None:
    conf = cluster(tmp_path)
    down(tmp_path)
    done = merge(tmp_path, offline=False)
    assert done.returncode == 1 and not (conf.parent / "topology.yaml").exists()
    assert "does not answer, nothing was changed" in done.stderr and "merge --offline" in done.stderr


@pytest.mark.parametrize("dry", [(), ("--dry-run",)], ids=["merge", "dry-run"])
def test_why_it_only_observes_is_said_once(tmp_path: Path, dry: tuple[str, ...]) -> None:
    cluster(tmp_path)
    done = merge(tmp_path, "--mode", "observe", *dry)
    assert done.returncode == 0 and done.stdout.startswith("observing, nothing ")
    assert (done.stdout + done.stderr).count("mode is observe") == 1


def test_a_partition_that_a_setting_names_and_slurm_does_not_know_is_said_with_near_names(tmp_path: Path) -> None:
    cluster(tmp_path)
    done = merge(tmp_path, "--partitions", '{"trian": {"kind": "flat"}, "train": {"kind": "flat"}}')
    [said] = [row for row in done.stderr.splitlines() if "no such partition" in row]
    assert "partitions.trian (flag --partitions)" in said and "did you mean train?" in said


def test_job_sizes_that_a_change_takes_away_are_listed_before_and_while_it_happens(tmp_path: Path) -> None:
    conf = cluster(tmp_path)
    found = json.loads((tmp_path / "opt/ml/config/resource_config.json").read_text())
    for one in found["InstanceGroups"][-1]["Instances"]:
        one["InstanceLabel"]["network-node-layer-1"] = "nn-1bbbbbbbbbbbbbbb1"
    (tmp_path / "opt/ml/config/resource_config.json").write_text(json.dumps(found))
    assert "one root joins" in merge(tmp_path).stderr
    for arguments in (("--dry-run",), ()):
        done = merge(tmp_path, "--separate-fabrics", "true", *arguments)
        assert "partition train: job sizes that become impossible: 3-4" in done.stderr
        assert "a job cannot span" in done.stderr
    assert "switch: root\n" not in (conf.parent / "topology.yaml").read_text()


def test_many_notes_are_cut_and_verbose_says_all(tmp_path: Path) -> None:
    cluster(tmp_path)
    found = json.loads((tmp_path / "opt/ml/config/resource_config.json").read_text())
    strangers = [{"InstanceId": f"i-0e{n:015x}", "CustomerIpAddress": f"10.9.9.{n}"} for n in range(30)]
    found["InstanceGroups"].append({"Name": "x", "InstanceType": "ml.p5.48xlarge", "Instances": strangers})
    (tmp_path / "opt/ml/config/resource_config.json").write_text(json.dumps(found))
    short, full = merge(tmp_path, "--dry-run").stderr, merge(tmp_path, "--dry-run", "-v").stderr
    assert "more notes: -v says them" in short and len(short.splitlines()) < 15
    assert full.count("no node of slurm.conf has its address") == 30


@pytest.mark.parametrize("before", [True, False], ids=["before the command", "after it"])
def test_a_root_given_by_flag_wins_over_the_variable(tmp_path: Path, before: bool) -> None:
    cluster(tmp_path / "flag")
    cluster(tmp_path / "variable")
    root = ["--root", str(tmp_path / "flag")]
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "topology_plugin",
            *(root if before else ()),
            "merge",
            "--offline",
            *(() if before else root),
        ],
        env={
            "PATH": f"{tmp_path}/flag/bin:/usr/bin:/bin",
            "HYPERPOD_TOPOLOGY_ROOT": str(tmp_path / "variable"),
            "HYPERPOD_TOPOLOGY_SOURCES": "resource-config,records",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "flag/opt/slurm/etc/topology.yaml").exists()
    assert not (tmp_path / "variable/opt/slurm/etc/topology.yaml").exists()
