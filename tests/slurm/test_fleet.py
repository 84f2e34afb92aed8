"""24 machines, each a directory with a bare Python, get the built bundle by the real entry script; one real slurmctld.

systemd does not run for a directory: where it would act, the command lines of the installed units are run (and the
entry scripts' systemctl and mount are stand-ins that record the calls). test_systemd.py has one machine with a systemd.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.bundle.conftest import bundle, sources  # noqa: F401  (fixtures)
from tests.bundle.installs import next_release, version_of
from tests.clusters import CPU, P5
from tests.slurm.fleet import Fleet, bare_python_has_nothing
from topology_plugin.core.position import Position
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    without_network_data,
)

GB200 = SimulatedGroup("worker-gb200", "ml.p6e-gb200.36xlarge", ("gb200",))
QUICK: dict[str, Any] = {
    "settle_seconds": 2,
    "poll_seconds": 0.2,
    "max_wait_seconds": 30,
    "min_reconfigure_interval": 0.5,
}


def mixed(p5: int, ultraservers: tuple[int, ...], cpu: int) -> SimulatedCluster:
    return cluster(P5, GB200, CPU).with_machines(
        [
            *in_tree("worker-p5", "ml.p5.48xlarge", p5, per_leaf=3, seed=1),
            *in_ultraservers("worker-gb200", ultraservers),
            *without_network_data("worker-cpu", "ml.c5.9xlarge", cpu),
        ]
    )


NewFleet = Callable[..., Fleet]


@pytest.fixture
def fleet(tmp_path: Path, bundle: Path, slurm_bin: Path) -> Iterator[NewFleet]:  # noqa: F811
    made: list[Fleet] = []
    settled = tmp_path / "bundle"
    shutil.copytree(bundle, settled)
    (settled / "hyperpod-topology/hyperpod_topology.json").write_text(json.dumps(QUICK))

    def new(cluster: SimulatedCluster, *, parameters: bool = True) -> Fleet:
        made.append(Fleet(tmp_path / f"fleet-{len(made) + 1}", settled, slurm_bin, cluster, parameters))
        return made[-1]

    try:
        yield new
    finally:
        for one in made:
            one.close()


@pytest.mark.slow
def test_br_31_24_machines_from_first_boot_to_uninstall(
    fleet: NewFleet,
    tmp_path: Path,
    bundle: Path,  # noqa: F811
    sources: Path,  # noqa: F811
) -> None:
    assert bare_python_has_nothing()
    whole = mixed(9, (5, 4), 4)
    assert len(whole.machines) == 24
    workers = [m for m in whole.machines if m is not whole.controller]
    late = whole.members("worker-p5")[-3:]  # one leaf
    first = whole.without([m.name for m in late])

    # First boot: the controller, then everybody else.
    one = fleet(first)
    one.become(first)
    one.script(first.controller)
    assert "systemctl start slurmctld" in one.controller.calls
    one.start_slurmctld()
    with one.watching():
        one.scripts([m for m in workers if m not in late])
        one.wait_for_facts()
        assert one.records == {m.instance_id for m in first.machines}
        booted = one.generation

        # Scale-up: scripts run on the new machines only; the agent rewrites slurm.conf, losing our words.
        one.become(whole)
        assert one.ctld.reconfigure()
        one.scripts(late)
        one.wait_for_facts()
        assert one.generation != booted

        # Replacement: same name and address, another instance on another leaf.
        gone = whole.members("worker-p5")[0]
        other_leaf = whole.members("worker-p5")[-1].label
        one.wipe(gone)
        replaced = whole.with_changed(gone.name, instance_id="i-0fe11ab1e00000001", label=other_leaf)
        one.become(replaced)
        assert one.ctld.reconfigure()
        one.script(replaced.node(gone.name))
        one.wait_for_facts()
        jobs = [one.ctld.submit("-p", "train", "-N", "4"), one.ctld.submit("-p", "gb200", "-N", "5")]
        leaves = [set(one.ctld.wait_running(job)) for job in jobs]
        assert leaves[0] in one.groups("tree")
        assert leaves[1] in one.groups("block")

        # UpdateClusterSoftware: root volumes wiped, scripts again, on one machine four times. Same facts, same bytes.
        before = one.generation
        rolling = [m for m in replaced.machines if m is not replaced.controller]
        for machine in rolling:
            one.wipe(machine)
        one.scripts(rolling)
        for _ in range(3):
            one.script(rolling[6])
        one.wait_for_facts()
        assert one.generation == before
        assert one.command("merge", "--dry-run").returncode == 0

    # The controller's own re-image: nothing local is left, and the agent's slurm.conf knows nothing of topologies.
    one.wipe(replaced.controller)
    one.ctld.kill()
    one.agent_writes_slurm_conf()
    one.script(replaced.controller)
    assert one.start_slurmctld() == ""  # startable as it is: the guard leaves it alone
    assert not (one.conf.parent / "topology.yaml").exists()
    with one.watching():
        one.wait_for_facts()
    assert one.generation[1] == before[1]
    assert one.records >= {m.instance_id for m in replaced.machines}

    # A newer bundle: one switch, nothing to reconfigure.
    applied = one.generation
    newer = next_release(sources, tmp_path)
    (newer / "hyperpod-topology/hyperpod_topology.json").write_text(json.dumps(QUICK))
    upgraded = [replaced.controller, *rolling[:5]]
    one.scripts(upgraded, bundle=newer)
    assert all(version_of(one.machines[machine.name].root).startswith("9.") for machine in upgraded)
    with one.watching():
        one.wait_for_facts()
        assert one.command("merge", "--dry-run").returncode == 0
    assert one.generation == applied

    # What breaks slurmctld between two lives is mended before it starts.
    one.ctld.kill()
    (one.conf.parent / "topology.yaml").write_text("[]\n")
    assert "mended with" in one.start_slurmctld()
    one.wait_for_facts()

    # Uninstall: Slurm's files as the agent would have them, nothing of ours on the machines.
    ended = one.controller.run(one.controller.root / "usr/local/bin/hyperpod-topology-setup", "uninstall")
    assert ended.returncode == 0, ended.stdout
    assert not (one.conf.parent / "topology.yaml").exists()
    assert "Topology=" not in one.conf.read_text()
    assert one.ctld.alive()
    assert set(one.ctld.partitions().values()) == {None}
    one.ctld.restart()
    assert one.ctld.wait_running(one.ctld.submit("-p", "train", "-N", "2"))
    worker = one.machines[rolling[0].name]
    assert worker.run(worker.root / "usr/local/bin/hyperpod-topology-setup", "uninstall").returncode == 0
    for node in (one.controller, worker):
        assert node.units == []
        left = [p for p in node.root.rglob("*hyperpod*") if "fsx" not in p.parts and "lifecycle" not in p.parts]
        assert left == []


@pytest.mark.slow
def test_an_api_driven_cluster_has_no_parameters_file_and_needs_none(fleet: NewFleet) -> None:
    """OnInitComplete: HyperPod mounted and started everything before; roles come by address, partitions from Slurm."""
    small = mixed(6, (3,), 1)
    one = fleet(small, parameters=False)
    one.become(small)
    one.describe(small.controller)
    one.ctld.start()
    one.scripts(small.machines, script="on_init_complete.sh")
    assert not list((one.directory / "machines").rglob("provisioning_parameters.json"))
    with one.watching():
        one.wait_for_facts()
    assert one.records == {m.instance_id for m in small.machines}
    units = {name: node.units for name, node in one.machines.items()}
    assert [name for name, found in units.items() if any("watch" in unit for unit in found)] == [small.controller.name]


@pytest.mark.slow
def test_late_labels_reach_the_topology_by_the_units_that_watch_for_them(fleet: NewFleet) -> None:
    """A node boots before its label is there; the agent then rewrites the node's file, which starts the unit again."""
    small = mixed(6, (3,), 1)
    someone = small.members("worker-p5")[0]
    one = fleet(small.with_changed(someone.name, label=None))
    one.become(one.cluster)
    one.script(small.controller)
    one.start_slurmctld()
    with one.watching():
        one.scripts(m for m in one.cluster.machines if m is not one.cluster.controller)
        one.become(small)
        node = one.describe(someone)
        from tests.slurm.fleet import REGISTER

        assert node.run(*one.unit_command(node, REGISTER, "ExecStart")).returncode == 0
        one.wait_for_facts()


def test_br_19_br_31_what_the_installed_slurm_cannot_do_is_refused_or_said(fleet: NewFleet, tmp_path: Path) -> None:
    """A configless cluster, with Slurm's commands wrapped so that they tell another version."""
    small = mixed(4, (2,), 1)
    one = fleet(small)
    one.become(small)
    one.script(small.controller)
    for worker in small.machines:  # where they lie, only they know
        assert one.describe(worker).run(one.controller_command, "register").returncode == 0
    one.start_slurmctld()
    before = one.conf.read_bytes()
    yaml = one.conf.parent / "topology.yaml"

    for old in ("25.05.0", "25.05.1"):
        one.controller.environment["HYPERPOD_TOPOLOGY_SLURM_BIN"] = str(telling(old, one.slurm_bin, tmp_path))
        ended = one.command("merge")
        assert ended.returncode == 2, ended.stdout
        assert f"{old} does not send topology.yaml to configless nodes" in ended.stdout
        assert (one.conf.read_bytes(), yaml.exists()) == (before, False)

    one.controller.environment["HYPERPOD_TOPOLOGY_SLURM_BIN"] = str(telling("25.05.2", one.slurm_bin, tmp_path))
    ended = one.command("merge")
    assert ended.returncode == 0, ended.stdout
    assert "Slurm 25.05.2 works, with known faults" in ended.stdout
    assert yaml.is_file()  # beside slurm.conf, under its plain name: what configless nodes are sent
    one.wait_for_facts(0)  # loaded by the running slurmctld, not only written

    one.controller.environment["HYPERPOD_TOPOLOGY_SLURM_BIN"] = str(telling("25.11.1", one.slurm_bin, tmp_path))
    assert "Slurm 25.11.1 drops powered-down CLOUD nodes from blocks" in one.command("merge").stdout


def telling(version_text: str, slurm_bin: Path, directory: Path) -> Path:
    """Slurm's commands as they are, but for a scontrol that tells this version."""
    pretend = directory / version_text
    pretend.mkdir()
    for program in slurm_bin.iterdir():
        (pretend / program.name).symlink_to(program)
    (pretend / "scontrol").unlink()
    (pretend / "scontrol").write_text(
        "#!/bin/sh\n"
        f'case "$*" in *-V*|*--version*) echo "slurm {version_text}" ;;\n'
        f'*) exec "{slurm_bin}/scontrol" "$@" ;; esac\n'
    )
    (pretend / "scontrol").chmod(0o755)
    return pretend


def test_the_fleet_is_of_all_kinds() -> None:
    found = mixed(9, (5, 4), 4)
    assert {type(m.label) for m in found.members("worker-p5")} == {Position}
    assert replace(found).controller.label is None
