"""The other two ways in: beside HyperPod's stock scripts, and as the whole of on_create.sh."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.machine import BareMachine
from tests.bundle.nodes import CLUSTER, CONTROLLER, CONTROLLER_UNITS, LOGIN, WORKER, machine


class TestStockScripts:
    STOCK = 'import subprocess\nsubprocess.run(["bash", "./hyperpod-topology/entry.sh"]).check_returncode()\n'

    def test_one_line_in_them_is_enough(self, bundle: Path, tmp_path: Path) -> None:
        """As lifecycle_script.py runs every script: from its own directory, by bash; it owns log, mounts and Slurm."""
        stock = tmp_path / "base-config"
        stock.mkdir()
        (stock / "lifecycle_script.py").write_text(self.STOCK)
        shutil.copytree(bundle / "hyperpod-topology", stock / "hyperpod-topology")
        node = machine(tmp_path, CONTROLLER)
        ended = node.run("python3", "lifecycle_script.py", cwd=stock)
        assert ended.returncode == 0
        assert node.units == CONTROLLER_UNITS
        assert not [call for call in node.calls if call.startswith("mount") or "slurmd" in call or " slurmctld" in call]
        assert "[hyperpod-topology] set up" in ended.stdout

    def test_what_stdout_says_is_not_written_into_the_log_a_second_time(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        """The stock on_create.sh copies stdout into the provisioning log."""
        node = machine(tmp_path, installed=installed)
        node.run("bash", bundle / "hyperpod-topology/entry.sh")
        assert "set up" not in node.log
        assert f"registered {node.instance_id}" in node.log  # by the hook, which has no stdout


class TestWholeOnCreate:
    def fsx(self) -> dict[str, Any]:
        return {
            **CLUSTER.provisioning_parameters(),
            "fsx_dns_name": "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com",
            "fsx_mountname": "abcd1234",
        }

    def node(self, installed: Path, tmp_path: Path, group: str) -> BareMachine:
        node = machine(tmp_path, group, installed=installed)
        node.describe(CLUSTER, self.fsx())
        conf = node.root / "opt/slurm/etc/slurm.conf"
        conf.parent.mkdir(parents=True)
        conf.write_text(f"SlurmctldHost=ip-10-1-0-5({CLUSTER.controller.address})\n")
        return node

    def test_a_controller_mounts_then_gets_its_guard_and_only_then_starts_slurmctld(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = self.node(installed, tmp_path, CONTROLLER)
        ended = node.run("bash", bundle / "on_create.sh")
        assert ended.returncode == 0, ended.stdout
        source = "fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com@tcp:/abcd1234"
        assert node.calls == [
            f"mount -t lustre -o noatime,flock {source} {node.root}/fsx",
            "systemctl daemon-reload",
            "systemctl restart --no-block hyperpod-topology-register.path",
            "systemctl disable --now slurmd",
            "systemctl enable slurmctld",
            "systemctl start slurmctld",
            "  with slurmctld.service.d/50-hyperpod-topology.conf",
            "  with hyperpod-topology-watch.service",
            "systemctl restart --no-block hyperpod-topology-watch.service",
        ]
        assert (node.root / "etc/fstab").read_text().split()[:3] == [source, "/fsx", "lustre"]

    @pytest.mark.parametrize("group", [WORKER, LOGIN])
    def test_other_nodes_start_slurmd_with_the_controllers_address(
        self, bundle: Path, installed: Path, tmp_path: Path, group: str
    ) -> None:
        node = self.node(installed, tmp_path, group)
        assert node.run("bash", bundle / "on_create.sh").returncode == 0
        drop_in = (node.root / "etc/systemd/system/slurmd.service.d/40-controller.conf").read_text()
        assert f'Environment="SLURMD_OPTIONS=--conf-server {CLUSTER.controller.address}"' in drop_in
        assert node.calls[-2:] == ["systemctl enable slurmd", "systemctl restart --no-block slurmd"]

    def test_a_second_run_leaves_running_daemons_alone(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        for group in (WORKER, CONTROLLER):
            node = self.node(installed, tmp_path, group)
            node.run("bash", bundle / "on_create.sh")
            (node.root / "calls").unlink()
            before = node.files()
            assert node.run("bash", bundle / "on_create.sh").returncode == 0
            assert not [call for call in node.calls if "restart" in call and "slurm" in call]
            assert node.files() == before

    @pytest.mark.parametrize(
        ("refused", "message"),
        [
            pytest.param("mount", "cannot be used: mounting failed", id="mount"),
            pytest.param("systemctl", "cannot be used: starting Slurm failed", id="slurm"),
        ],
    )
    @pytest.mark.slow
    def test_a_node_without_storage_or_slurm_fails_as_with_the_stock_scripts(
        self, bundle: Path, installed: Path, tmp_path: Path, refused: str, message: str
    ) -> None:
        node = self.node(installed, tmp_path, CONTROLLER)
        node.refuse(refused)
        ended = node.run("bash", bundle / "on_create.sh")
        assert ended.returncode == 1
        assert message in ended.stdout

    def test_the_parameters_beside_the_scripts_are_used_and_kept(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        """In S3 they lie beside the scripts; /tmp is gone after a reboot, and the controller's passes need them."""
        unpacked = tmp_path / "unpacked"
        shutil.copytree(bundle, unpacked)
        (unpacked / "provisioning_parameters.json").write_text(json.dumps(self.fsx()))
        node = self.node(installed, tmp_path, CONTROLLER)
        kept = node.root / "opt/ml/config/provisioning_parameters.json"
        kept.unlink()
        assert node.run("bash", unpacked / "on_create.sh").returncode == 0
        assert json.loads(kept.read_text()) == self.fsx()
        assert node.calls[0].startswith("mount -t lustre")
        # What we put there we renew; what HyperPod put there stays.
        newer = {**self.fsx(), "fsx_mountname": "newer"}
        (unpacked / "provisioning_parameters.json").write_text(json.dumps(newer))
        node.run("bash", unpacked / "on_create.sh")
        assert json.loads(kept.read_text()) == newer
        kept.write_text(json.dumps({**newer, "version": "HyperPod's"}))
        node.run("bash", unpacked / "on_create.sh")
        assert json.loads(kept.read_text())["version"] == "HyperPod's"
