"""What `doctor --bundle` packs for support."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.app.ward import Ward
from topology_plugin.app.support_bundle import collect
from topology_plugin.core.issues import InputError


def test_the_bundle_holds_what_support_needs_without_accounts_addresses_and_secrets(ward: Ward, tmp_path: Path) -> None:
    ward.edit("PartitionName=dev", "StoragePass=hunter2\nPartitionName=dev")
    target = tmp_path / "support.tar.gz"
    names = collect(ward.wiring, {"checks": []}, target)
    assert target.stat().st_mode & 0o777 == 0o600
    assert {"doctor.json", "resource_config.json", "slurm/slurm.conf", "slurm/topology.yaml", "state-1.json"} <= set(
        names
    )
    with tarfile.open(target) as archive:
        texts = {m.name.split("/", 1)[1]: archive.extractfile(m).read().decode() for m in archive}  # type: ignore[union-attr]
    everything = "\n".join(texts.values())
    for secret in ("111122223333", "10.1.1.", "10-1-1-", "172.16.", "hunter2"):
        assert secret not in everything, secret
    assert "ip-net" in texts["slurm/topology.yaml"] and "StoragePass=REDACTED" in texts["slurm/slurm.conf"]
    assert json.loads(texts["resource_config.json"])["InstanceGroups"][2]["Instances"][0]["InstanceId"].startswith(
        "i-0"
    )


def test_the_bundle_never_overwrites_a_file(ward: Ward, tmp_path: Path) -> None:
    target = tmp_path / "there.tar.gz"
    target.write_text("mine")
    with pytest.raises(InputError, match="another name"):
        collect(ward.wiring, {}, target)
    assert target.read_text() == "mine"
