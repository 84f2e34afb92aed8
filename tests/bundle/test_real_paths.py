"""The entry script at its real paths, in a mount namespace over this machine's disk that is thrown away."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from topology_plugin.jobs.simulated_cluster import mixed

CLUSTER = mixed(p5=4, ultraservers=(), cpu=0)

# /fsx is absent for some seconds, then there but not writable, then fine; in the end it is taken away again.
STAGE = """
set -e
mount -t tmpfs tmpfs "$T"; mkdir "$T/upper" "$T/work" "$T/machine"
mount -t overlay overlay -o "lowerdir=/,upperdir=$T/upper,workdir=$T/work" "$T/machine" || { echo NO-OVERLAY; exit 0; }
M=$T/machine
mount --bind /proc "$M/proc"; mount --bind /dev "$M/dev"; mount -t tmpfs tmpfs "$M/run"
mkdir -p "$M/fsx" "$M/opt/ml/config"; cp "$C/resource_config.json" "$M/opt/ml/config/"
( sleep 4; mount -t tmpfs -o ro tmpfs "$M/fsx"; sleep 3; mount -o remount,rw "$M/fsx" ) >/dev/null 2>&1 &
set +e
chroot "$M" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin AWS_EC2_METADATA_DISABLED=true \
    HYPERPOD_TOPOLOGY_INSTANCE_ID="$ID" bash "$B/on_init_complete.sh"
echo "EXIT $?"; wait
echo "SHARED $(cd "$M/fsx" && find . -name '*.json' | sort | tr '\\n' ' ')"
umount "$M/fsx"; echo "BARE $(ls "$M/fsx" | wc -l)"
"""


def test_br_22_waits_for_the_mount_and_never_writes_below_the_bare_mount_point(bundle: Path, tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs root for a mount namespace")
    (tmp_path / "stage").mkdir()
    (tmp_path / "resource_config.json").write_text(json.dumps(CLUSTER.resource_config()))
    instance_id = CLUSTER.members("worker-p5")[0].instance_id
    variables = {"T": str(tmp_path / "stage"), "C": str(tmp_path), "B": str(bundle), "ID": instance_id}
    ended = subprocess.run(
        ["unshare", "-m", "sh", "-c", STAGE],
        env={"PATH": os.environ["PATH"], **variables},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    if "NO-OVERLAY" in ended.stdout or not ended.stdout:
        pytest.skip(f"no overlay file system in a mount namespace here: {ended.stderr.strip()}")
    lines = ended.stdout.splitlines()
    assert "EXIT 0" in lines, ended.stdout + ended.stderr
    assert f"SHARED ./hyperpod-topology/abc123def456/nodes/{instance_id}.json " in lines
    assert "BARE 0" in lines
