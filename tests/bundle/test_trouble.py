"""What may go wrong on a node that boots: it goes on, says what is not done, and strict fails it."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import pytest

from tests.bundle.machine import BareMachine
from tests.bundle.nodes import CLUSTER, CONTROLLER, machine, with_settings
from tests.disks import frozen_disk


class TestTrouble:
    def no_registry(self, node: BareMachine) -> None:
        """Something lies where the registry should be: register fails with exit code 1."""
        node.environment["HYPERPOD_TOPOLOGY_REGISTER_TIMEOUT_SECONDS"] = "1"
        (node.root / "fsx/hyperpod-topology").write_text("not a directory")

    def test_a_node_that_cannot_register_goes_on(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        node = machine(tmp_path, installed=installed)
        self.no_registry(node)
        ended = node.run("bash", bundle / "on_init_complete.sh")
        assert ended.returncode == 0
        assert "the node goes on, but not done: register (exit code 1)" in ended.stdout
        assert "not registered" in node.log
        assert "systemctl start --no-block hyperpod-topology-register.service" in node.calls

    def test_unusable_settings_fail_no_node(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        node = machine(tmp_path, CONTROLLER, installed=installed)
        (node.root / "etc/hyperpod-topology.json").write_text('{"mode": "sometimes"}')
        ended = node.run("bash", bundle / "on_init_complete.sh")
        assert ended.returncode == 0
        assert "'sometimes' is not one of auto, manage, observe, off" in ended.stdout

    @pytest.mark.parametrize("how", ["variable", "bundle", "parameters"])
    def test_strict_fails_the_instance(self, bundle: Path, installed: Path, tmp_path: Path, how: str) -> None:
        node = machine(tmp_path, installed=installed)
        self.no_registry(node)
        if how == "variable":
            node.environment["HYPERPOD_TOPOLOGY_STRICT"] = "true"
        elif how == "bundle":
            bundle = with_settings(bundle, tmp_path, '{"strict": true}')
        else:
            node.describe(CLUSTER, {**CLUSTER.provisioning_parameters(), "topology": {"strict": True}})
        ended = node.run("bash", bundle / "on_init_complete.sh")
        assert ended.returncode == 1
        assert "register (exit code 1)" in ended.stdout

    def test_a_hook_that_hangs_is_left_behind_and_keeps_nobody_waiting(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        """On a frozen file system a write hangs in the kernel, deaf to every signal, as on a dead mount; the caller
        reads our stdout to its end, as HyperPod's agent may."""
        node = machine(tmp_path, installed=installed, environment={"HYPERPOD_TOPOLOGY_REGISTER_TIMEOUT_SECONDS": "1"})
        with frozen_disk(tmp_path / "image", node.root / "fsx"):
            started = time.monotonic()
            ended = node.run("bash", bundle / "on_init_complete.sh")
            assert ended.returncode == 0
            assert "not done: register (left running)" in ended.stdout
            assert 5 < time.monotonic() - started < 40
            assert node.records == []
        assert node.records == [f"{node.instance_id}.json"]  # what was left ended its work when the disk came back

    def test_a_damaged_bundle_leaves_the_installed_version_at_work(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = machine(tmp_path, CONTROLLER, installed=installed)
        node.run("bash", bundle / "on_init_complete.sh")
        damaged = tmp_path / "damaged"
        shutil.copytree(bundle, damaged)
        (damaged / "hyperpod-topology/payload.zip").write_bytes(b"half an upload")
        (node.root / "fsx/hyperpod-topology").rename(node.root / "fsx/gone")
        ended = node.run("bash", damaged / "on_init_complete.sh")
        assert ended.returncode == 0
        assert "does not agree with manifest.json: upload the bundle again" in ended.stdout
        assert "not done: the bundle" in ended.stdout
        assert node.records == [f"{node.instance_id}.json"]

    @pytest.mark.parametrize(
        ("script", "strict", "code"),
        [
            pytest.param("on_init_complete.sh", None, 0, id="on-init-complete"),
            pytest.param("on_init_complete.sh", "1", 1, id="strict"),
            pytest.param("on_create.sh", None, 1, id="whole-on-create-has-nothing-to-start-slurm-with"),
        ],
    )
    def test_a_damaged_bundle_on_a_new_node(
        self, bundle: Path, tmp_path: Path, script: str, strict: str | None, code: int
    ) -> None:
        damaged = tmp_path / "damaged"
        shutil.copytree(bundle, damaged)
        (damaged / "hyperpod-topology/manifest.json").write_text("{}")
        node = machine(tmp_path)
        if strict:
            node.environment["HYPERPOD_TOPOLOGY_STRICT"] = strict
        ended = node.run("bash", damaged / script)
        assert ended.returncode == code
        assert "no version is installed; this node goes on without a topology" in node.log
