"""The real entry scripts of the built bundle on machines with a bare Python: three ways in, and what may go wrong."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.machine import BareMachine
from topology_plugin.jobs.simulated_cluster import SimulatedCluster, mixed

CLUSTER = mixed(p5=4, ultraservers=(), cpu=0)
NODE_UNITS = [
    "hyperpod-topology-register.path",
    "hyperpod-topology-register.service",
    "multi-user.target.wants/hyperpod-topology-register.path",
    "multi-user.target.wants/hyperpod-topology-register.service",
]
CONTROLLER_UNITS = sorted(
    [
        *NODE_UNITS,
        "hyperpod-topology-watch.service",
        "multi-user.target.wants/hyperpod-topology-watch.service",
        "slurmctld.service.d/50-hyperpod-topology.conf",
    ]
)
WORKER, LOGIN, CONTROLLER = "worker-p5", "login-group", "controller-machine"


@pytest.fixture(scope="module")
def installed(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine that has the bundle already: most tests are about what comes after unpacking."""
    node = machine(tmp_path_factory.mktemp("installed"))
    assert node.run("bash", bundle / "on_init_complete.sh").returncode == 0
    return node.root


def machine(tmp_path: Path, group: str = WORKER, cluster: SimulatedCluster = CLUSTER, **more: Any) -> BareMachine:
    found = BareMachine(tmp_path / group, cluster.members(group)[0].instance_id, **more)
    found.describe(cluster, cluster.provisioning_parameters())
    return found


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


@contextmanager
def frozen_disk(image: Path, place: Path) -> Iterator[None]:
    """A file system at `place` that accepts no write within the block, and does after it."""
    if os.geteuid() != 0 or not shutil.which("fsfreeze"):
        pytest.skip("needs root and fsfreeze to hang a file system")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=False).returncode:
        pytest.skip("needs a loop device to hang a file system")
    try:
        subprocess.run(["fsfreeze", "-f", str(place)], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "-u", str(place)], check=True)
            wait_for_processes_of(place.parent)
        saved = place.parent / "saved"
        shutil.copytree(place, saved)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    shutil.rmtree(place)
    saved.rename(place)


def wait_for_processes_of(root: Path) -> None:
    deadline = time.monotonic() + 30
    while processes_of(root):
        assert time.monotonic() < deadline, "a process that was left does not end"
        time.sleep(0.1)


def with_settings(bundle: Path, tmp_path: Path, text: str) -> Path:
    unpacked = tmp_path / "with-settings"
    shutil.copytree(bundle, unpacked)
    (unpacked / "hyperpod-topology/hyperpod_topology.json").write_text(text)
    return unpacked


def processes_of(root: Path) -> list[int]:
    """Processes whose command line names something below `root`."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{root}/".encode() in words:
                found.append(int(place.name))
    return found


def test_the_description_of_machines_is_the_real_one() -> None:
    """Should the simulated cluster change, these tests must not quietly test something else."""
    assert CLUSTER.resource_config()["SlurmConfig"]["PrimaryControllerIp"] == CLUSTER.controller.address
    assert CLUSTER.provisioning_parameters()["controller_group"] == CONTROLLER
