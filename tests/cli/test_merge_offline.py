"""`merge --offline` as a real process: before slurmctld first starts nothing may wait for it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests import cases


def test_it_writes_without_asking_slurm_anything_but_its_version(tmp_path: Path) -> None:
    for directory in ("opt/ml/config", "opt/slurm/etc", "fsx", "bin"):
        (tmp_path / directory).mkdir(parents=True)
    (tmp_path / "opt/ml/config/resource_config.json").write_text(json.dumps(cases.f0()))
    conf = tmp_path / "opt/slurm/etc/slurm.conf"
    conf.write_text(cases.F0_SLURM_CONF)
    for name in ("scontrol", "squeue", "slurmctld", "sinfo", "sbatch"):
        script = tmp_path / "bin" / name
        script.write_text(f'#!/bin/sh\necho "{name} $*" >> {tmp_path}/log\necho "slurm 26.05.5"\n')
        script.chmod(0o755)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HYPERPOD_", "AWS_", "SAGEMAKER_", "SLURM_"))}
    done = subprocess.run(
        [sys.executable, "-m", "topology_plugin", "merge", "--offline", "--root", str(tmp_path)],
        env={
            **clean,
            "PATH": f"{tmp_path}/bin:/usr/bin:/bin",
            "HYPERPOD_TOPOLOGY_SOURCES": "resource-config,records",
            "AWS_EC2_METADATA_DISABLED": "true",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "switch: nn-3aaaaaaaaaaaaaaa1" in (conf.parent / "topology.yaml").read_text()
    assert set((tmp_path / "log").read_text().splitlines()) == {"scontrol --version"}
    registry = tmp_path / "fsx/hyperpod-topology/abc123def456"
    assert (registry / "generations/current").read_text() == "1\n"
