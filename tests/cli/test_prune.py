"""`prune` as a real process, below a directory that stands for `/`."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from tests import cases
from tests.cli.typed import typed
from topology_plugin.core import records
from topology_plugin.core.records import Record

GONE = "i-0e000000000000001"


def run(path: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return typed("prune", "--root", path, *arguments, PATH="/nonexistent")


def test_an_absent_record_is_listed_after_an_hour_with_exit_code_3_and_removed_with_apply(tmp_path: Path) -> None:
    for directory in ("opt/ml/config", "opt/slurm/etc", "fsx/hyperpod-topology/abc123def456/nodes"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "opt/ml/config/resource_config.json").write_text(json.dumps(cases.f0()))
    (tmp_path / "opt/slurm/etc/slurm.conf").write_text(cases.F0_SLURM_CONF)
    nodes = tmp_path / "fsx/hyperpod-topology/abc123def456/nodes"
    for identity, address in ((GONE, "10.1.1.91"), ("i-0a000000000000001", "10.1.1.11")):
        record = Record(cases.ARN, identity, None, address, group="worker-a")
        (nodes / record.file_name).write_bytes(records.dump(record))
    first = run(tmp_path)
    assert (first.returncode, first.stderr) == (0, "")
    assert f"{GONE}: absent for 0 min, kept until it is an hour" in first.stdout
    memory = tmp_path / "var/lib/hyperpod-topology/absent.json"
    since = json.loads(memory.read_text())["absent_since"][GONE]
    memory.write_text(json.dumps({"absent_since": {GONE: since - 3600}}))
    listed = run(tmp_path)
    assert listed.returncode == 3
    assert "absent for an hour, would be removed" in listed.stdout
    applied = run(tmp_path, "--apply")
    assert applied.returncode == 0
    assert f"{GONE} (no name, group worker-a): absent for an hour, removed" in applied.stdout
    assert [path.stem for path in nodes.iterdir()] == ["i-0a000000000000001"]


def test_without_slurm_conf_nothing_is_pruned(tmp_path: Path) -> None:
    (tmp_path / "opt/ml/config").mkdir(parents=True)
    (tmp_path / "opt/ml/config/resource_config.json").write_text(json.dumps(cases.f0()))
    done = run(tmp_path, "--apply")
    assert done.returncode == 2
    assert "slurm.conf" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_a_registry_there_is_nothing_to_prune(tmp_path: Path) -> None:
    (tmp_path / "opt/ml/config").mkdir(parents=True)
    (tmp_path / "opt/slurm/etc").mkdir(parents=True)
    (tmp_path / "opt/ml/config/resource_config.json").write_text(json.dumps(cases.f0()))
    (tmp_path / "opt/slurm/etc/slurm.conf").write_text(cases.F0_SLURM_CONF)
    done = run(tmp_path, "--registry", "null")
    assert done.returncode == 0
    assert "nothing to prune" in done.stdout
