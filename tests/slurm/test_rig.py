"""The rig itself: what the other tests in this directory take for granted about the Slurm they are given."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.adapters.loopback_conf import free_ports
from topology_plugin.adapters.private_slurmctld import PrivateSlurmctld, SlurmctldDied

REPOSITORY = Path(__file__).parents[2]
TWO_SWITCHES = """\
- topology: tree
  cluster_default: true
  tree:
    switches:
      - {switch: leaf-a, nodes: "n[1-8]"}
      - {switch: leaf-b, nodes: "n[9-16]"}
      - {switch: root, children: "leaf-a,leaf-b"}
"""
SIXTEEN = "NodeName=n[1-16] State=CLOUD CPUs=8"


def mounts() -> int:
    return len(Path("/proc/self/mountinfo").read_text().splitlines())


def until(condition: object, seconds: float = 10) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_is_up_within_a_second_or_so_and_gives_five_thousand_nodes_to_a_job(slurmctld: NewCluster) -> None:
    cluster = slurmctld("NodeName=n[1-5000] State=CLOUD CPUs=8", start=False)
    begun = time.monotonic()
    cluster.start()
    assert time.monotonic() - begun < 3  # 0.15 s alone on two cores; the tests share the machine
    assert cluster.run("sinfo", "-h", "-o", "%D").stdout.strip() == "5000"
    assert len(cluster.wait_running(cluster.submit("-N4"))) == 4
    assert len(cluster.wait_running(cluster.submit("-N", "4996"))) == 4996
    assert not cluster.accepts("-N5001")


def test_two_clusters_at_once_know_nothing_of_each_other(slurmctld: NewCluster) -> None:
    one, two = slurmctld(SIXTEEN), slurmctld("NodeName=m[1-3] State=CLOUD CPUs=8")
    job = one.submit("-N2")
    assert one.wait_running(job) == ["n1", "n2"]
    assert two.run("squeue", "-h").stdout == ""
    assert two.expand(two.run("sinfo", "-h", "-o", "%N").stdout.strip()) == ["m1", "m2", "m3"]
    one.stop()
    assert not one.alive()
    assert two.scontrol("ping").returncode == 0


def test_a_topology_is_in_force_and_jobs_follow_it(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN, "PartitionName=p Nodes=ALL Default=YES Topology=tree", topology=TWO_SWITCHES)
    assert "leaf-a" in cluster.topoconf()
    assert cluster.partitions() == {"p": "tree"}
    cluster.wait_running(cluster.submit("-N1"))
    assert cluster.wait_running(cluster.submit("-N8")) == [f"n{number}" for number in range(9, 17)]


def test_reconfigure_takes_up_the_files_with_a_new_process(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN)
    job, before = cluster.submit("-N2"), cluster.pid
    assert len(cluster.wait_running(job)) == 2
    cluster.write_topology(TWO_SWITCHES)
    assert cluster.reconfigure()
    assert "leaf-b" in cluster.topoconf()
    assert cluster.pid != before
    assert cluster.job(job).nodes == ("n1", "n2")
    assert cluster.reconfigure()  # the second one is done by a process that is not our child
    cluster.stop()
    assert cluster.leftovers() == []


def test_a_failed_reconfigure_leaves_the_old_one_running(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN, topology=TWO_SWITCHES)
    before = cluster.pid
    cluster.write_topology("- topology: tree\n  tree:\n    switches: []\n")
    assert not cluster.reconfigure()
    assert cluster.pid == before
    assert "leaf-a" in cluster.topoconf()
    with pytest.raises(SlurmctldDied):  # but the file is still there
        cluster.restart()


def test_in_the_foreground_a_failed_reconfigure_is_the_end(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN, topology=TWO_SWITCHES, foreground=True)
    before = cluster.pid
    assert cluster.reconfigure()
    assert cluster.pid == before
    assert until(lambda: cluster.scontrol("ping", check=False).returncode == 0)
    cluster.write_topology("- topology: tree\n  tree:\n    switches: []\n")
    cluster.reconfigure()  # it may even say that it worked
    assert until(lambda: not cluster.alive())


@pytest.mark.parametrize("foreground", [False, True], ids=["as under systemd", "in the foreground"])
def test_a_configuration_that_is_refused_is_reported_with_slurms_own_words(
    slurmctld: NewCluster, foreground: bool
) -> None:
    with pytest.raises(SlurmctldDied, match="exit status 1") as died:
        slurmctld(SIXTEEN, "PartitionName=p Nodes=ALL Topology=nowhere", topology=TWO_SWITCHES, foreground=foreground)
    assert died.value.code == 1
    assert died.value.words[0] == "error: Invalid partition topology"
    assert died.value.words[1].startswith("fatal: read_slurm_conf reading")


def test_a_crash_is_reported_as_one(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN, topology="[]\n", start=False)
    with pytest.raises(SlurmctldDied, match="SIGSEGV") as died:
        cluster.start()
    assert died.value.code == -signal.SIGSEGV
    assert not cluster.alive()
    assert not list(cluster.directory.rglob("core*"))
    cluster.write_topology(TWO_SWITCHES)
    cluster.start()  # the same object serves on


def test_state_survives_a_restart(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN)
    job = cluster.submit("-N3")
    nodes = cluster.wait_running(job)
    cluster.restart()
    assert list(cluster.job(job).nodes) == nodes
    cluster.kill()
    assert not cluster.alive()
    cluster.start()
    assert list(cluster.job(job).nodes) == nodes


def test_a_port_that_somebody_took_meanwhile_is_replaced(slurmctld: NewCluster) -> None:
    cluster = slurmctld(SIXTEEN, start=False)
    taken = cluster.port
    assert taken is not None
    with socket.create_server(("127.0.0.1", taken)):
        cluster.start()
        assert cluster.port != taken
        assert cluster.scontrol("show", "config").stdout.count(f"= {cluster.port}\n") == 1


def test_ports_are_free_and_differ() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == 50
    with socket.create_server(("127.0.0.1", ports[0])):
        pass


def test_real_slurmds_run_real_jobs(real_cluster: Cluster) -> None:
    done = real_cluster.run("srun", "-N4", "sh", "-c", "echo $SLURMD_NODENAME", timeout=30)
    assert sorted(done.stdout.split()) == ["real-1", "real-2", "real-3", "real-4"]
    assert real_cluster.run("srun", "-N1", "sh", "-c", "exit 7", check=False).returncode == 7


def test_jobs_run_however_long_the_path_of_the_directory_is(slurm_bin: Path, tmp_path: Path) -> None:
    with Cluster(tmp_path / ("long" * 30) / ("path" * 10), slurm_bin) as cluster:
        cluster.write_conf(cluster.real_nodes(["r"]), "PartitionName=p Nodes=ALL Default=YES")
        cluster.start()
        cluster.start_slurmds(["r"])
        assert cluster.run("srun", "echo", "here", timeout=30).stdout == "here\n"


def test_nothing_is_left_of_jobs_and_slurmds(real_cluster: Cluster) -> None:
    job = real_cluster.submit("-N2")
    assert len(real_cluster.wait_running(job)) == 2
    assert until(lambda: real_cluster.job(job).state == "RUNNING")
    assert until(lambda: real_cluster.processes.find(["sleep"]))
    real_cluster.stop()
    assert real_cluster.leftovers() == []


def test_nothing_is_left_when_its_owner_is_killed(slurm_bin: Path, tmp_path: Path) -> None:
    program = """
import pathlib, sys
from tests.slurm.cluster import Cluster
cluster = Cluster(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]))
cluster.write_conf(cluster.real_nodes(["r1", "r2"]), "PartitionName=p Nodes=ALL Default=YES")
cluster.start()
cluster.start_slurmds(["r1", "r2"])
cluster.wait_running(cluster.submit("-N2"))
cluster.reconfigure()
print(cluster._service.directory, cluster._spool, flush=True)
sys.stdin.read()
"""
    before = mounts()
    owner = subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path), str(slurm_bin)], cwd=REPOSITORY,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    orphans = Cluster(tmp_path, slurm_bin)
    try:
        assert owner.stdout
        litter = [Path(word) for word in owner.stdout.readline().split()]
        assert len(litter) == 2
        assert all(directory.is_dir() for directory in litter)
        assert len(orphans.leftovers()) > 5
    finally:
        owner.kill()
        owner.communicate()
    assert until(lambda: not orphans.leftovers())
    assert until(lambda: not any(directory.exists() for directory in litter))
    assert mounts() == before


def test_ends_only_what_is_its_own(slurmctld: NewCluster, tmp_path: Path) -> None:
    cluster = slurmctld(SIXTEEN)
    with subprocess.Popen(["sleep", "60"], env={"SLURM_CONF": f"{cluster.conf}.other"}) as stranger:
        other = PrivateSlurmctld(tmp_path / "other", None)
        other.processes.kill(stranger.pid, signal.SIGKILL)
        cluster.processes.kill(stranger.pid, signal.SIGKILL)
        assert not cluster.processes.owns(stranger.pid)
        assert not cluster.processes.owns(os.getpid())
        cluster.stop()
        assert stranger.poll() is None
        stranger.kill()


def test_24_11_serves_its_one_topology(slurmctld: NewCluster, slurm_bin_24: Path) -> None:
    cluster = slurmctld(SIXTEEN, extra="TopologyPlugin=topology/tree", slurm_bin=slurm_bin_24, start=False)
    cluster.write_topology("SwitchName=a Nodes=n[1-8]\nSwitchName=b Nodes=n[9-16]\nSwitchName=r Switches=a,b\n",
                           "topology.conf")  # fmt: skip
    cluster.start()
    assert cluster.scontrol("--version").stdout.split()[1].startswith("24.11.")
    cluster.wait_running(cluster.submit("-N1"))
    assert cluster.wait_running(cluster.submit("-N8")) == [f"n{number}" for number in range(9, 17)]
    assert cluster.reconfigure()
    assert "SwitchName=b" in cluster.scontrol("show", "topology").stdout


class TestExecutables:
    def test_pass_on_directory_environment_and_exit_status(self, slurmctld: NewCluster, tmp_path: Path) -> None:
        cluster = slurmctld(SIXTEEN)
        (tmp_path / "job.sh").write_text("#!/bin/sh\n")
        command = [cluster._command("sbatch")[0], "--parsable", "job.sh"]
        environment = {**cluster.env, "SBATCH_JOB_NAME": "from-environment"}
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
        shown = cluster.scontrol("show", "job", done.stdout.strip()).stdout
        assert f"WorkDir={tmp_path}" in shown
        assert "JobName=from-environment" in shown
        refused = subprocess.run(
            [*command[:2], "-p", "nowhere", "job.sh"], cwd=tmp_path, env=environment, capture_output=True
        )
        assert refused.returncode == 1

    def test_keep_the_pid_they_were_started_with(self, slurmctld: NewCluster) -> None:
        cluster = slurmctld(SIXTEEN)
        assert cluster._first is not None
        assert cluster.pid == cluster._first.pid
        assert Path(f"/proc/{cluster.pid}/comm").read_text().strip() == "slurmctld"

    def test_read_a_script_from_standard_input(self, slurmctld: NewCluster) -> None:
        cluster = slurmctld(SIXTEEN)
        done = cluster.run("sbatch", "--parsable", "-N2", stdin="#!/bin/sh\nsleep 60\n")
        assert cluster.wait_running(int(done.stdout)) == ["n1", "n2"]

    def test_let_another_user_submit(self, slurm_bin: Path) -> None:
        """An ordinary user can't make a mount namespace, so root does, and then becomes that user."""
        if not (slurm_bin / "slurm-inside").exists():
            pytest.skip("an installed Slurm needs no such thing")
        become = ("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups")
        # not in tmp_path, which is root's alone
        with tempfile.TemporaryDirectory() as directory, Cluster(Path(directory), slurm_bin) as cluster:
            Path(directory).chmod(0o755)
            cluster.write_conf(SIXTEEN, "PartitionName=p Nodes=ALL Default=YES")
            cluster.start()
            done = cluster.run("slurm-inside", *become, "sbatch", "--parsable", "-D", "/", "--wrap", "true")
            assert "UserId=nobody" in cluster.scontrol("show", "job", done.stdout.strip()).stdout

    def test_load_a_lua_submit_plugin(self, slurmctld: NewCluster) -> None:
        cluster = slurmctld(SIXTEEN, extra="JobSubmitPlugins=lua", start=False)
        (cluster.conf.parent / "job_submit.lua").write_text("""
function slurm_job_submit(job, partitions, uid)
    slurm.log_user("seen by lua")
    job.comment = "from lua"
    return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
""")
        cluster.start()
        done = cluster.run("sbatch", "--parsable", "--wrap", "true")
        assert "seen by lua" in done.stderr
        assert "Comment=from lua" in cluster.scontrol("show", "job", done.stdout.strip()).stdout

    def test_leave_no_mount_behind(self, slurmctld: NewCluster) -> None:
        before = mounts()
        cluster = slurmctld(SIXTEEN)
        cluster.kill()
        assert mounts() == before

    def test_work_in_a_network_namespace_of_their_own(self, slurm_bin: Path) -> None:
        assert subprocess.run(["unshare", "-n", slurm_bin / "slurmctld", "-V"]).returncode == 0

    def test_know_the_name_this_machine_has_now(self, slurm_bin: Path, tmp_path: Path) -> None:
        """A machine may be renamed after the root directory was built; slurmctld must still resolve its name."""
        program = """
import pathlib, sys
from tests.slurm.cluster import Cluster
with Cluster(pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])) as cluster:
    cluster.write_conf("NodeName=n[1-2] State=CLOUD", "PartitionName=p Nodes=ALL Default=YES")
    cluster.start()
    print(cluster.scontrol("ping").stdout)
"""
        renamed = 'hostname renamed && exec "$@"'
        done = subprocess.run(
            ["unshare", "--uts", "sh", "-c", renamed, "sh", sys.executable, "-c", program, tmp_path, slurm_bin],
            cwd=REPOSITORY, capture_output=True, text=True,
        )  # fmt: skip
        assert "at renamed is UP" in done.stdout, done.stderr
