"""The real entry script of the built bundle on machines with a bare Python: roles, repeated runs, settings, uninstall."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.machine import BareMachine
from tests.bundle.nodes import CLUSTER, CONTROLLER, CONTROLLER_UNITS, LOGIN, NODE_UNITS, WORKER, machine, with_settings


class TestRoles:
    @pytest.mark.parametrize(
        ("group", "units"),
        [
            pytest.param(CONTROLLER, CONTROLLER_UNITS, id="controller"),
            pytest.param(LOGIN, NODE_UNITS, id="login"),
            pytest.param(WORKER, NODE_UNITS, id="compute"),
        ],
    )
    def test_the_group_of_a_file_driven_cluster_decides(
        self, bundle: Path, installed: Path, tmp_path: Path, group: str, units: list[str]
    ) -> None:
        node = machine(tmp_path, group, installed=installed)
        ended = node.run("bash", bundle / "on_init_complete.sh")
        assert ended.returncode == 0, ended.stdout
        assert node.units == units
        assert node.records == [f"{node.instance_id}.json"]

    @pytest.mark.parametrize(
        ("change", "controller"),
        [
            pytest.param({"SlurmConfig": {"NodeType": "Controller"}}, True, id="controller-by-api"),
            pytest.param({"SlurmConfig": {"NodeType": "Compute", "PartitionNames": ["p"]}}, False, id="compute-by-api"),
            pytest.param({"SlurmConfig": {"NodeType": "Login"}}, False, id="login-by-api"),
            pytest.param({}, False, id="nothing-said"),
        ],
    )
    def test_the_node_type_of_an_api_driven_cluster_decides(
        self, bundle: Path, installed: Path, tmp_path: Path, change: dict[str, Any], controller: bool
    ) -> None:
        config = CLUSTER.resource_config()
        group = next(g for g in config["InstanceGroups"] if g["Name"] == WORKER)
        group.update(change)
        node = BareMachine(tmp_path / "node", CLUSTER.members(WORKER)[0].instance_id)
        node.describe(config)
        assert node.run("bash", bundle / "on_init_complete.sh").returncode == 0
        assert node.units == (CONTROLLER_UNITS if controller else NODE_UNITS)

    def test_a_controllers_address_makes_a_controller(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        """API-driven: resource_config names no node type, but the controllers' addresses; the second one counts too."""
        config = CLUSTER.resource_config()
        config["SlurmConfig"] = {
            "PrimaryControllerIp": "10.9.9.9",
            "SecondaryControllerIps": [CLUSTER.controller.address],
        }
        node = BareMachine(tmp_path / "node", CLUSTER.controller.instance_id, installed=installed)
        node.describe(config)
        assert node.run("bash", bundle / "on_init_complete.sh").returncode == 0
        assert node.units == CONTROLLER_UNITS

    def test_slurm_daemons_that_happen_to_run_decide_nothing(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = machine(tmp_path, installed=installed)
        for name in ("slurmctld", "slurmd"):
            (node.root / "etc/systemd/system").mkdir(parents=True, exist_ok=True)
            (node.root / f"etc/systemd/system/{name}.service").write_text("[Service]\n")
        node.run("bash", bundle / "on_init_complete.sh")
        assert node.units == NODE_UNITS

    def test_a_node_that_is_no_controller_any_more_loses_the_controllers_parts(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = machine(tmp_path, CONTROLLER, installed=installed)
        node.run("bash", bundle / "on_init_complete.sh")
        node.instance_id = CLUSTER.members(WORKER)[0].instance_id
        node.run("bash", bundle / "on_init_complete.sh")
        assert node.units == NODE_UNITS

    def test_a_node_that_nobody_knows_yet_gets_what_every_node_gets(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = machine(tmp_path, installed=installed, environment={"HYPERPOD_TOPOLOGY_REGISTER_TIMEOUT_SECONDS": "1"})
        node.instance_id = "i-0fffffffffffffff0"
        ended = node.run("bash", bundle / "on_init_complete.sh")
        assert ended.returncode == 0
        assert "which instance this is cannot be told" in ended.stdout
        assert node.units == NODE_UNITS
        assert "systemctl start --no-block hyperpod-topology-register.service" in node.calls

    def test_an_operator_can_say_what_a_node_is(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        node = machine(tmp_path, installed=installed)
        node.run("bash", bundle / "on_init_complete.sh")
        setup = node.root / "usr/local/bin/hyperpod-topology-setup"
        assert node.run(setup, "stock", "--role", "controller").returncode == 0
        assert node.units == CONTROLLER_UNITS


class TestRepeating:
    @pytest.mark.parametrize("group", [WORKER, CONTROLLER])
    def test_a_second_run_changes_no_file(self, bundle: Path, tmp_path: Path, group: str) -> None:
        node = machine(tmp_path, group)
        node.run("bash", bundle / "on_init_complete.sh")
        before = node.files()
        assert node.run("bash", bundle / "on_init_complete.sh").returncode == 0
        assert node.files() == before

    def test_nothing_of_tmp_is_needed_afterwards(self, bundle: Path, tmp_path: Path) -> None:
        unpacked = tmp_path / "tmp-sagemaker-lifecycle"
        shutil.copytree(bundle, unpacked)
        node = machine(tmp_path)
        node.run("bash", unpacked / "on_init_complete.sh")
        shutil.rmtree(unpacked)
        (node.root / "fsx/hyperpod-topology").rename(node.root / "fsx/gone")
        ended = node.run(node.root / "opt/hyperpod-topology/current/bin/hyperpod-topology", "register")
        assert (ended.returncode, node.records) == (0, [f"{node.instance_id}.json"]), ended.stdout

    def test_the_watch_service_restarts_so_that_an_upgrade_takes_effect(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = machine(tmp_path, CONTROLLER, installed=installed)
        node.run("bash", bundle / "on_init_complete.sh")
        assert node.calls == [
            "systemctl daemon-reload",
            "systemctl restart --no-block hyperpod-topology-register.path",
            "systemctl restart --no-block hyperpod-topology-watch.service",
        ]


class TestSettings:
    def test_those_of_the_bundle_are_installed(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        unpacked = with_settings(bundle, tmp_path, '{"settle_seconds": 7}')
        node = machine(tmp_path, installed=installed)
        node.run("bash", unpacked / "on_init_complete.sh")
        assert json.loads((node.root / "etc/hyperpod-topology.json").read_text()) == {"settle_seconds": 7}

    def test_an_empty_file_leaves_what_an_operator_wrote_on_the_node(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        node = machine(tmp_path, installed=installed)
        (node.root / "etc/hyperpod-topology.json").write_text('{"mode": "observe"}')
        node.run("bash", bundle / "on_init_complete.sh")
        assert (node.root / "etc/hyperpod-topology.json").read_text() == '{"mode": "observe"}'

    def test_others_that_stood_there_are_kept(self, bundle: Path, installed: Path, tmp_path: Path) -> None:
        unpacked = with_settings(bundle, tmp_path, '{"settle_seconds": 7}')
        node = machine(tmp_path, installed=installed)
        (node.root / "etc/hyperpod-topology.json").write_text('{"mode": "observe"}')
        node.run("bash", unpacked / "on_init_complete.sh")
        assert (node.root / "etc/hyperpod-topology.json.former").read_text() == '{"mode": "observe"}'

    def test_br_02_a_broken_file_is_named_not_installed_and_does_not_fail_the_instance(
        self, bundle: Path, installed: Path, tmp_path: Path
    ) -> None:
        unpacked = with_settings(bundle, tmp_path, '{"settle_seconds": 7,,}')
        node = machine(tmp_path, installed=installed)
        ended = node.run("bash", unpacked / "on_init_complete.sh")
        assert ended.returncode == 0
        assert "ERROR: hyperpod_topology.json is not used: Expecting property name" in ended.stdout
        assert node.records == [f"{node.instance_id}.json"]


class TestUninstall:
    def test_a_worker_keeps_nothing_of_ours(self, bundle: Path, tmp_path: Path) -> None:
        node = machine(tmp_path)
        before = {name for name in node.files() if not name.startswith(("stand-ins", "fsx"))}
        node.run("bash", with_settings(bundle, tmp_path, '{"settle_seconds": 7}') / "on_init_complete.sh")
        ended = node.run(node.root / "usr/local/bin/hyperpod-topology-setup", "uninstall")
        assert ended.returncode == 0, ended.stdout
        after = {name for name in node.files() if not name.startswith(("stand-ins", "fsx"))}
        assert after == before
        assert node.units == []
        assert not (node.root / "opt/hyperpod-topology").exists()
        assert "systemctl stop hyperpod-topology-register.path hyperpod-topology-register.service" in node.calls


def test_the_description_of_machines_is_the_real_one() -> None:
    """Should the simulated cluster change, these tests must not quietly test something else."""
    assert CLUSTER.resource_config()["SlurmConfig"]["PrimaryControllerIp"] == CLUSTER.controller.address
    assert CLUSTER.provisioning_parameters()["controller_group"] == CONTROLLER
