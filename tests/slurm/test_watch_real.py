"""The controller's service as a real process beside a real slurmctld: a cluster's day, its end, and two controllers."""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.clusters import CPU, P5
from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room
from tests.slurm.watching import Watching
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    cluster,
    in_tree,
    without_network_data,
)

cpu = without_network_data("worker-cpu", "ml.c5.9xlarge", 1)


def of(count: int) -> SimulatedCluster:
    return cluster(P5, CPU).with_machines([*in_tree("worker-p5", "ml.p5.48xlarge", count, per_leaf=4), *cpu])


def placed(room: Room, count: int) -> Callable[[], bool]:
    """So many p5 nodes lie under switches of the network, as slurmctld has it loaded, and the words are right."""

    def holds() -> bool:
        if room.ctld.scontrol("ping", check=False).returncode:
            return False
        if room.ctld.partitions() != {"dev": None, "train": "tree", "cpu": None}:
            return False
        return sum(len(nodes) for leaf, nodes in room.leaves("tree").items() if leaf.startswith("nn-")) == count

    return holds


def touch_inputs(room: Room) -> None:
    """The agent writes the same once more: a reason to look."""
    path = room.controller / "opt/ml/config/resource_config.json"
    path.write_text(path.read_text())


def test_a_clusters_day(room: NewRoom) -> None:
    """Boot by records, growth, words lost, files lost and broken, drift, slurmctld down and back, a clean end."""
    here = room()
    start = of(8)
    bare = replace(start, machines=tuple(replace(m, label=None) for m in start.machines))
    here.boot(bare)
    here.register([m for m in start.machines if m.label][:3], start)
    with Watching(here) as watch:
        watch.until(placed(here, 3), "three nodes placed")
        here.register([m for m in start.machines if m.label][3:], start)
        watch.until(placed(here, 8), "all nodes placed")

        here.change(of(12))
        watch.until(placed(here, 12), "a leaf more")
        good = here.yaml.read_bytes()

        here.yaml.unlink()
        watch.until(lambda: here.yaml.is_file() and here.yaml.read_bytes() == good, "topology.yaml again")
        here.yaml.write_text("[]\n")
        watch.until(lambda: here.yaml.read_bytes() == good, "topology.yaml mended")
        watch.until(placed(here, 12), "in force")

        here.ctld.scontrol("update", "PartitionName=train", "Topology=flat")
        assert here.ctld.partitions()["train"] == "flat"
        touch_inputs(here)
        watch.until(placed(here, 12), "drift put right")

        here.ctld.kill()
        here.write(of(16))
        watch.until_said("slurmctld does not answer, nothing was changed")
        here.ctld.start()
        touch_inputs(here)
        watch.until(placed(here, 16), "in force after slurmctld was away")

        restarts = here.ctld.log.count("Running as primary controller")
        assert watch.stop() == 0
        assert watch.said.rstrip().endswith("stopped")
        assert "Traceback" not in watch.said
        assert watch.family() == []
        assert here.ctld.log.count("Running as primary controller") == restarts
    assert here.merge().state.last.result == "unchanged"


def slow_reconfigure(room: Room, seconds: float) -> Path:
    """Slurm's commands, but `scontrol reconfigure` takes its time."""
    assert room.slurm_bin is not None
    made = room.directory / "slow"
    made.mkdir()
    for program in room.slurm_bin.iterdir():
        (made / program.name).symlink_to(program)
    (made / "scontrol").unlink()
    (made / "scontrol").write_text(
        f'#!/bin/sh\n[ "$1" = reconfigure ] && sleep {seconds}\nexec {room.slurm_bin}/scontrol "$@"\n'
    )
    (made / "scontrol").chmod(0o755)
    return made


@pytest.mark.parametrize("how", ["SIGTERM to it", "Ctrl-C in its terminal"])
def test_a_stop_amid_a_pass_lets_the_pass_end(room: NewRoom, how: str) -> None:
    here = room()
    here.boot(of(8))
    with Watching(here, slurm_bin=slow_reconfigure(here, 1.5)) as watch:
        watch.until(lambda: "Topology=tree" in here.conf.read_text(), "the reconfigure")
        if how == "SIGTERM to it":
            watch.process.send_signal(signal.SIGTERM)
        else:
            os.killpg(watch.process.pid, signal.SIGINT)
        assert watch.process.wait(30) == 0, watch.said
        assert "generation 1 is in force" in watch.said
        assert watch.said.rstrip().endswith("stopped")
        assert watch.family() == []
    assert placed(here, 8)()
    state = json.loads((here.registry / "state.json").read_text())
    assert (state["last"]["result"], state["generation"]) == ("applied", 1)


def test_a_kill_amid_a_pass_is_made_good_by_the_next_watch(room: NewRoom) -> None:
    here = room()
    here.boot(of(8))
    with Watching(here, slurm_bin=slow_reconfigure(here, 60)) as watch:
        watch.until(lambda: "Topology=tree" in here.conf.read_text(), "the reconfigure")
        watch.process.kill()
    for pid in watch.family():  # the sleeping scontrol, which the kill left behind
        os.kill(pid, signal.SIGKILL)
    with Watching(here) as again:
        again.until(placed(here, 8), "in force")
        assert again.stop() == 0


def test_a_stop_while_the_change_is_being_rehearsed_leaves_no_process(room: NewRoom) -> None:
    here = room()
    here.boot(of(8))
    with Watching(here, rehearse="auto") as watch:
        watch.until_said("rehears") if rehearsals_work(here) else watch.until_said("generation 1")
        assert watch.stop() == 0
        assert watch.family() == []


def rehearsals_work(room: Room) -> bool:
    from topology_plugin.adapters.rehearsal import NamespaceRehearsal

    return NamespaceRehearsal(room.slurm_bin).available() is None


# --- two controllers ---


def test_of_two_watches_one_writes_and_when_it_is_killed_the_other_takes_over(room: NewRoom) -> None:
    here = room()
    here.boot(of(8))
    here.registry.mkdir(parents=True)
    other_disk = {"state_dir": str(here.directory / "other-state"), "log": "other.log"}
    with Watching(here) as first:
        first.until(placed(here, 8), "in force")
        with Watching(here, **other_disk) as second:
            who = f"process {first.process.pid} on {socket.gethostname()} writes for this cluster"
            second.until_said(f"observed: {who}")
            here.change(of(12))
            first.until(placed(here, 12), "the first one writes")
            # The other looked at the change as well, and wrote nothing.
            assert "is in force" not in second.said
            merged = here.on_controller("--state-dir", other_disk["state_dir"], "merge")
            assert merged.returncode == 0
            assert f"observing, nothing written: {who}" in merged.stdout
            back = here.on_controller("--state-dir", other_disk["state_dir"], "rollback", "1")
            assert back.returncode == 1
            assert f"nothing was changed: {who}" in back.stderr
            mine = here.on_controller("merge")
            assert mine.returncode == 0, mine.stderr
            assert "nothing to do" in mine.stdout
            first.process.kill()
            first.process.wait()
            second.until_said("the controller that wrote is gone: writing from now on")
            here.change(of(16))
            second.until(placed(here, 16), "the second one writes")
            assert second.said.count(f"observed: {who}") == 1
            assert second.stop() == 0


REFUSING = """
import errno, os, sys
from dataclasses import replace
from topology_plugin.adapters.cluster_lock import ClusterLock
from topology_plugin.adapters.mounts import SystemMounts
from topology_plugin.app.wiring import Wiring
from topology_plugin.cli.main import Door, main

class Named:
    def answers_to(self, name, address=""):
        return name == os.environ["THIS_HOST"]

def refuses(fd, operation):
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

plain = Door.wiring
def wiring(door):
    made = plain(door)
    lock = ClusterLock(made.shared_directory, made.places.state_dir / "pass.lock", SystemMounts(), refuses)
    return replace(made, given_lock=lock, given_host=Named())

class Injected(Door):
    wiring = wiring

import topology_plugin.cli.main as entry
entry.Door = Injected
main()
"""


def test_on_a_file_system_without_locks_the_active_controller_writes(room: NewRoom, tmp_path: Path) -> None:
    """Two real processes; flock refuses as an NFS server without lockd does. `scontrol ping` names the active one."""
    host = socket.gethostname()
    # Listening on every address, slurmctld would take itself for the backup, and wait for it.
    hosts = f"SlurmctldHost={host}(127.0.0.1)\nSlurmctldHost=backup(127.0.0.9)"
    here = room(extra=f"{hosts}\nCommunicationParameters=NoCtldInAddrAny")
    here.boot(of(8))
    here.registry.mkdir(parents=True)
    assert f"Slurmctld(primary) at {host} is UP" in here.ctld.scontrol("ping", check=False).stdout
    script = tmp_path / "refusing.py"
    script.write_text(REFUSING)
    command = [sys.executable, str(script)]
    backup = {"state_dir": str(here.directory / "backup-state"), "log": "backup.log"}
    with (
        Watching(here, command=command, environment={"THIS_HOST": "backup"}, **backup) as second,
        Watching(here, command=command, environment={"THIS_HOST": host}) as first,
    ):
        second.until_said(f"observed: {host} is the active controller, and it alone writes: the file system of")
        first.until(placed(here, 8), "the active one writes")
        here.change(of(12))
        first.until(placed(here, 12), "again")
        assert "is in force" not in second.said
        assert (first.stop(), second.stop()) == (0, 0)
    assert not Path(backup["state_dir"], "state.json").exists()
