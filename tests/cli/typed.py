"""`hyperpod-topology …` as typed, in a process of its own and without this machine's settings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

STRANGE = ("HYPERPOD_", "AWS_", "SAGEMAKER_", "SLURM_")


def typed(*words: str | Path, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(STRANGE)}
    return subprocess.run(
        [sys.executable, "-m", "topology_plugin", *map(str, words)],
        env={**clean, "AWS_EC2_METADATA_DISABLED": "true", **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
