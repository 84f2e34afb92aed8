"""A machine of a HyperPod cluster in a directory of its own, with stand-ins for mount and systemctl."""

from __future__ import annotations

import json
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from topology_plugin.jobs.simulated_cluster import SimulatedCluster

# Records every call; is as successful as the file `<name>-fails` beside it is absent.
STAND_IN = """#!/bin/sh
echo "$(basename "$0") $*" >> "{calls}"
for place in slurmctld.service.d/50-hyperpod-topology.conf hyperpod-topology-watch.service; do
    case "$*" in *start*slurm*) [ -e "{root}/etc/systemd/system/$place" ] && echo "  with $place" >> "{calls}" ;; esac
done
[ ! -e "$0-fails" ] || {{ echo "$(basename "$0"): refused" >&2; exit 1; }}
"""


@dataclass
class BareMachine:
    """`root` stands for /. `systemd`: whether systemctl is to be had. `installed`: a machine whose installed bundle
    this one starts with (which saves unpacking). Nothing of the test's own Python is in the way."""

    root: Path
    instance_id: str | None = None
    systemd: bool = True
    installed: Path | None = None
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for directory in ("opt/ml/config", "fsx", "etc", "stand-ins"):
            (self.root / directory).mkdir(parents=True, exist_ok=True)
        if self.systemd:
            (self.root / "run/systemd/system").mkdir(parents=True, exist_ok=True)
        if self.installed is not None:
            for directory in ("opt/hyperpod-topology", "usr/local/bin"):
                (self.root / directory).parent.mkdir(parents=True, exist_ok=True)
                subprocess.run(["cp", "-al", self.installed / directory, self.root / directory], check=True)
        for name in ("systemctl", "mount"):
            file = self.root / "stand-ins" / name
            file.write_text(STAND_IN.format(calls=self.root / "calls", root=self.root))
            file.chmod(0o755)

    def describe(self, cluster: SimulatedCluster | dict[str, Any], parameters: dict[str, Any] | None = None) -> None:
        """Writes what HyperPod's agent writes. Without `parameters` the cluster is API-driven."""
        config = cluster if isinstance(cluster, dict) else cluster.resource_config()
        (self.root / "opt/ml/config/resource_config.json").write_text(json.dumps(config))
        if parameters is not None:
            (self.root / "opt/ml/config/provisioning_parameters.json").write_text(json.dumps(parameters))

    def variables(self) -> dict[str, str]:
        found = {
            "PATH": f"{self.root}/stand-ins:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HYPERPOD_TOPOLOGY_ROOT": str(self.root),
            "AWS_EC2_METADATA_DISABLED": "true",
            **self.environment,
        }
        if self.instance_id:
            found["HYPERPOD_TOPOLOGY_INSTANCE_ID"] = self.instance_id
        return found

    def run(self, *command: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        """Ends when the command and everything that holds its output ended; four minutes at most."""
        return subprocess.run(
            [str(word) for word in command],
            env=self.variables(),
            cwd=cwd or self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
            check=False,
        )

    @property
    def log(self) -> str:
        file = self.root / "var/log/provision/provisioning.log"
        return file.read_text() if file.exists() else ""

    @property
    def calls(self) -> list[str]:
        """What was called of mount and systemctl, in order."""
        file = self.root / "calls"
        return file.read_text().splitlines() if file.exists() else []

    def refuse(self, name: str) -> None:
        (self.root / "stand-ins" / f"{name}-fails").touch()

    @property
    def records(self) -> list[str]:
        return sorted(place.name for place in self.root.glob("fsx/hyperpod-topology/*/nodes/*"))

    @property
    def units(self) -> list[str]:
        base = self.root / "etc/systemd/system"
        return sorted(str(place.relative_to(base)) for place in base.rglob("*hyperpod-topology*"))

    def files(self) -> dict[str, tuple[int, bytes]]:
        """Everything but logs, calls and bytecode: file → time, content."""
        found = {}
        for directory, _, names in os.walk(self.root):
            for name in names:
                file = Path(directory) / name
                if name in ("calls", ".lock", "provisioning.log") or file.parent.name == "__pycache__":
                    continue
                if file.is_file() and not file.is_symlink():
                    found[str(file.relative_to(self.root))] = (file.stat().st_mtime_ns, file.read_bytes())
        return found
