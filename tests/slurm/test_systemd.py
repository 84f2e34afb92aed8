"""The units under a systemd of their own, on a controller, with a real slurmctld; nothing is called in its stead."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.bundle.conftest import bundle, sources  # noqa: F401  (fixtures)
from tests.slurm.booted import Booted, CannotBoot
from tests.slurm.cluster import Cluster
from topology_plugin.jobs.simulated_cluster import mixed

CLUSTER = mixed(p5=4, ultraservers=(), cpu=1)
SLURMCTLD, WATCH = "slurmctld.service", "hyperpod-topology-watch.service"
REGISTER, PATH = "hyperpod-topology-register.service", "hyperpod-topology-register.path"
CONF, YAML = "/opt/slurm/etc/slurm.conf", "/opt/slurm/etc/topology.yaml"
RESOURCE_CONFIG = "/opt/ml/config/resource_config.json"
QUICK = {
    "settle_seconds": 1,
    "poll_seconds": 0.2,
    "min_reconfigure_interval": 0.5,
    "sources": ["resource-config", "records"],
    "rehearse": "always",
}


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Booted]:
    found = Booted(tmp_path / "machine", {"HYPERPOD_TOPOLOGY_INSTANCE_ID": CLUSTER.controller.instance_id})
    try:
        found.boot()
    except CannotBoot as reason:
        pytest.skip(f"the units are not run by systemd here, only their command lines (test_fleet.py): {reason}")
    try:
        yield found
    finally:
        found.stop()


def until(what: Callable[[], object], why: Callable[[], str], seconds: float = 40) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)


@pytest.mark.slow
def test_systemd_starts_what_keeps_the_topology_and_starts_it_again(
    machine: Booted,
    bundle: Path,  # noqa: F811
    slurm_bin: Path,
    tmp_path: Path,
) -> None:
    # A controller as HyperPod has it: slurm.conf, resource_config.json, a unit for slurmctld, /fsx.
    unlabelled = CLUSTER
    for member in CLUSTER.machines:
        unlabelled = unlabelled.with_changed(member.name, label=None)
    ctld = Cluster(machine.shared, slurm_bin)
    ctld.write_conf("\n".join(CLUSTER.node_lines()), "\n".join(CLUSTER.partition_lines()))
    machine.write(CONF, f"# controller {CLUSTER.controller.address}\n{ctld.conf.read_text()}")
    machine.write("/opt/slurm/etc/cgroup.conf", "CgroupPlugin=disabled\n")
    machine.write(RESOURCE_CONFIG, json.dumps(unlabelled.resource_config()))
    machine.write("/opt/ml/config/provisioning_parameters.json", json.dumps(CLUSTER.provisioning_parameters()))
    machine.write("/etc/hyperpod-topology.json", json.dumps({**QUICK, "slurm_bin": str(slurm_bin)}))
    unit = f"[Service]\nType=notify\nExecStart={slurm_bin}/slurmctld --systemd -f {CONF}\nLimitCORE=0\n"
    machine.write("/etc/systemd/system/slurmctld.service", unit)
    machine.write("/etc/systemd/system/slurmd.service", "[Service]\nExecStart=/bin/sleep infinity\n")
    for name in (SLURMCTLD, WATCH):  # systemd's patience is not what is tested
        machine.write(f"/etc/systemd/system/{name}.d/60-quick.conf", "[Service]\nRestartSec=1\n")

    created = machine.run("bash", bundle / "on_create.sh")
    assert created.returncode == 0, created.stdout
    assert "systemd does not run here" not in created.stdout
    assert "guard ; ignore_errors=yes" in machine.show(SLURMCTLD, "ExecStartPre")

    def story() -> str:
        return (
            f"{machine.run('systemctl', 'status', '--no-pager', SLURMCTLD, WATCH, REGISTER).stdout}\n{ctld.log[-3000:]}"
        )

    # The script doesn't wait for what it starts (`--no-block`): a busy machine is still at it when the script ends.
    until(lambda: {machine.show(name, "ActiveState") for name in (SLURMCTLD, WATCH, PATH)} == {"active"}, story)
    assert machine.show(WATCH, "NRestarts") == "0"

    # The agent rewrites resource_config.json with the labels: the path unit registers, the watch service, confined as
    # it is, rehearses and puts the tree in force.
    assert machine.run("sh", "-c", "rm /fsx/hyperpod-topology/*/nodes/*.json").returncode == 0
    machine.write(RESOURCE_CONFIG, json.dumps(CLUSTER.resource_config()))
    until(lambda: ctld.partitions().get("train") == "tree", story)
    records = ("sh", "-c", "ls /fsx/hyperpod-topology/*/nodes")
    until(lambda: machine.run(*records).stdout == f"{CLUSTER.controller.instance_id}.json\n", story)
    until(lambda: machine.show(REGISTER, "ActiveState") == "inactive", story)
    assert machine.show(REGISTER, "Result") == "success"

    # What dies is started again.
    former = {name: machine.show(name, "MainPID") for name in (SLURMCTLD, WATCH)}
    for name in former:
        machine.run("systemctl", "kill", "--kill-whom=main", "--signal=KILL", name)
    until(lambda: all(machine.show(n, "ActiveState") == "active" and machine.show(n, "MainPID") != pid
                      for n, pid in former.items()), story)  # fmt: skip

    # Guard mends what slurmctld would die of, as root though the unit's user is another.
    machine.run("systemctl", "stop", WATCH, SLURMCTLD)
    machine.write(YAML, "[]\n")
    machine.write("/etc/systemd/system/other.service", "[Service]\nUser=nobody\nExecStart=/bin/sleep infinity\n")
    drop_in = "50-hyperpod-topology.conf"
    machine.run(
        "sh", "-c", f"cd /etc/systemd/system; mkdir other.service.d; cp {SLURMCTLD}.d/{drop_in} other.service.d"
    )
    machine.run("systemctl", "daemon-reload")
    assert machine.run("systemctl", "start", "other.service").returncode == 0
    assert "topology: tree" in machine.run("cat", YAML).stdout
    assert machine.run("systemctl", "start", SLURMCTLD, WATCH).returncode == 0

    # And all of it goes.
    ended = machine.run("hyperpod-topology-setup", "uninstall")
    assert ended.returncode == 0, ended.stdout
    known = machine.run("systemctl", "list-unit-files", "--no-legend", "hyperpod-topology*").stdout
    assert (known, machine.show(SLURMCTLD, "ActiveState"), machine.show(WATCH, "LoadState")) == (
        "",
        "active",
        "not-found",
    )
    assert machine.show(SLURMCTLD, "ExecStartPre") == ""
    assert set(ctld.partitions().values()) == {None}
