"""The unit files: systemd finds nothing wrong, every command exists, and what must hold is written there."""

from __future__ import annotations

import configparser
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bundle import ROOT

SYSTEMD = ROOT / "lifecycle_scripts" / "systemd"
UNITS = sorted(path.name for path in SYSTEMD.iterdir())
COMMANDS = "/opt/hyperpod-topology/current/bin/"


def unit(name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read_string((SYSTEMD / name).read_text())
    return parser


def test_systemd_analyze_verify_finds_nothing_wrong(tmp_path: Path) -> None:
    """With a slurmctld unit as plain as ParallelCluster's, which the drop-in joins."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze on this machine: the units are not verified by systemd here")
    units = tmp_path / "etc/systemd/system"
    (units / "slurmctld.service.d").mkdir(parents=True)
    for name in UNITS:
        target = "slurmctld.service.d/50-hyperpod-topology.conf" if name.endswith(".conf") else name
        text = (SYSTEMD / name).read_text().replace(COMMANDS, f"{tmp_path}/bin/")
        (units / target).write_text(text.replace("file:/opt/hyperpod-topology/current", "man:systemd(1)"))
    (tmp_path / "bin").mkdir()
    for name in ("hyperpod-topology", "hyperpod-topology-setup", "slurmctld"):
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    (units / "slurmctld.service").write_text(f"[Service]\nUser=daemon\nExecStart={tmp_path}/bin/slurmctld -D\n")
    names = [name for name in UNITS if not name.endswith(".conf")]
    ended = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(units / name) for name in (*names, "slurmctld.service"))],
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin:/usr/sbin", "SYSTEMD_UNIT_PATH": f"{units}:"},
    )
    ours = [line for line in (ended.stderr + ended.stdout).splitlines() if str(tmp_path) in line or "hyperpod" in line]
    assert (ended.returncode, ours) == (0, [])


def test_an_error_in_a_unit_would_be_found(tmp_path: Path) -> None:
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze on this machine")
    wrong = tmp_path / "wrong.service"
    wrong.write_text((SYSTEMD / "hyperpod-topology-watch.service").read_text().replace("Restart=", "Restrat="))
    ended = subprocess.run(["systemd-analyze", "verify", str(wrong)], capture_output=True, text=True, check=False)
    assert "Restrat" in ended.stderr


def test_every_command_is_one_that_the_bundle_installs() -> None:
    from node_setup.install import COMMANDS as installed

    from topology_plugin.cli.main import COMMANDS as subcommands

    found = []
    for name in UNITS:
        for line in (SYSTEMD / name).read_text().splitlines():
            if line.startswith("Exec"):
                program, subcommand = line.split("=", 1)[1].lstrip("-+").split()
                assert program.startswith(COMMANDS)
                assert program.removeprefix(COMMANDS) in installed
                found.append(subcommand)
    assert sorted(found) == ["guard", "register", "watch"]
    assert set(found) <= set(subcommands)


def test_guard_runs_as_root_whatever_the_units_user_and_cannot_keep_slurmctld_from_starting() -> None:
    drop_in = unit("slurmctld-drop-in.conf")["Service"]
    assert drop_in["ExecStartPre"].startswith(("-+", "+-"))
    assert drop_in["Restart"] == "on-failure"


def test_watch_is_restarted_for_ever_and_confined() -> None:
    watch = unit("hyperpod-topology-watch.service")
    assert watch["Service"]["Restart"] == "always"
    assert watch["Unit"]["StartLimitIntervalSec"] == "0"
    for key in ("NoNewPrivileges", "PrivateTmp", "ProtectKernelModules", "RestrictSUIDSGID", "LockPersonality"):
        assert watch["Service"][key] == "yes"


def test_the_hook_runs_at_boot_and_whenever_the_agent_rewrites_its_file() -> None:
    assert unit("hyperpod-topology-register.service")["Install"]["WantedBy"] == "multi-user.target"
    path = unit("hyperpod-topology-register.path")
    assert path["Path"]["PathChanged"] == "/opt/ml/config/resource_config.json"
    assert path["Path"]["Unit"] == "hyperpod-topology-register.service"
    # A start limit would put the path unit out of action after five quick rewrites.
    assert unit("hyperpod-topology-register.service")["Unit"]["StartLimitIntervalSec"] == "0"


def test_the_units_time_limit_leaves_room_for_the_default_time_limit_of_the_hook() -> None:
    from node_setup.setup import GRACE_SECONDS

    from topology_plugin.core.settings import Settings

    limit = int(unit("hyperpod-topology-register.service")["Service"]["TimeoutStartSec"])
    assert limit > Settings().register_timeout_seconds + GRACE_SECONDS


def test_what_the_service_may_do_is_measured() -> None:
    """systemd's own score; 10 is unconfined. The rehearsal needs CAP_SYS_ADMIN, so it cannot be much lower."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("no systemd-analyze on this machine")
    command = ["systemd-analyze", "security", "--offline=true", "--threshold=55"]
    ended = subprocess.run(
        [*command, str(SYSTEMD / "hyperpod-topology-watch.service")], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stdout[-400:] + ended.stderr
