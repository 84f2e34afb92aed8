"""The demo tells a true story, leaves nothing behind, and says so where nothing is applied."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path


def demo(directory: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HYPERPOD_TOPOLOGY_", "SLURM"))}
    environment["TMPDIR"] = str(directory)
    if path is not None:
        environment["PATH"] = path
    command = [sys.executable, "-m", "topology_plugin", "demo", "--nodes", "16", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_a_small_cluster_lives_through_every_step(slurm_bin: Path, tmp_path: Path) -> None:
    done = demo(tmp_path, "--slurm-bin", str(slurm_bin))
    assert done.returncode == 0, done.stderr
    for title in (
        "Boot",
        "A leaf more",
        "Three nodes fewer",
        "Three replaced",
        "A node without a label",
        "Its label arrives",
    ):
        assert f"\n{title}\n" in done.stdout
    assert re.search(r"^  8 nodes, tree +1 leaf, ", done.stdout, re.MULTILINE)
    assert re.search(r"^  18 nodes, block +1 UltraServer, ", done.stdout, re.MULTILINE)
    assert "on a real slurmctld." in done.stdout
    assert list(tmp_path.iterdir()) == [], "cleaned up"


def test_without_slurm_it_says_that_nothing_was_applied(tmp_path: Path) -> None:
    done = demo(tmp_path, path="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "NOTHING IS APPLIED" in done.stdout
    assert "No jobs were run" in done.stdout
