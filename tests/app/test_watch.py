"""Upkeep that settles: storms, quiet hours, late labels, faults; an hour passes in a second."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.fakes import FakeClock, FakeSlurmctld
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.machine_room import MachineRoom
from topology_plugin.app.watch import DRIFT_SECONDS, Watch
from topology_plugin.app.wiring import Wiring
from topology_plugin.core import records
from topology_plugin.core.plan import digest
from topology_plugin.jobs.simulated_cluster import (
    CLUSTER_ARN,
    Machine,
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
)

P5 = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train",))


class Stage:
    """A controller's root on disk, a fake slurmctld that reads its files, and a watch on a clock that tests move."""

    def __init__(self, directory: Path, simulated: SimulatedCluster, **settings: Any) -> None:
        self.room = MachineRoom(directory, None)
        self.room.write(simulated)
        self.clock = FakeClock()
        live = LiveFiles(RealFiles(), str(self.room.conf))
        self.ctld = FakeSlurmctld(live)
        flags = {
            "registry": str(self.room.registry),
            "slurm_conf": str(self.room.conf),
            "rehearse": "never",
            **settings,
        }
        plain = Wiring.of(str(self.room.controller), flags, {})
        self.wiring = replace(plain, clock=self.clock, given_slurm=self.ctld, given_controller=self.ctld)
        self.said: list[str] = []
        self.watch: Watch = self.wiring.watcher(self.said.append)
        self.registry = RegistryDirectory(self.room.registry, RealFiles(), self.clock)

    def record(self, machine: Machine) -> bool:
        position = machine.label
        answers = {} if position is None else {"resource-config": position}
        return self.registry.write(
            records.Record(
                CLUSTER_ARN,
                machine.instance_id,
                f"{machine.group}-{machine.number}",
                machine.address,
                machine.agent_address,
                machine.group,
                machine.instance_type,
                None,
                None,
                answers,
                {},
            )
        )

    def go(self, seconds: float, each: Callable[[float], None] = lambda now: None) -> list[str]:
        """Time passes, a poll every poll_seconds; results of the passes that ran."""
        results = []
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.clock.time += self.wiring.settings.poll_seconds
            each(self.clock.time)
            outcome = self.watch.poll()
            if outcome is not None:
                results.append(outcome.state.last.result)
        return results

    @property
    def yaml(self) -> Path:
        return self.room.conf.parent / "topology.yaml"

    def hash(self) -> str:
        return digest(self.yaml.read_bytes())


def unlabelled(simulated: SimulatedCluster) -> SimulatedCluster:
    """As the controller's copy may be while labels come by records only."""
    return replace(simulated, machines=tuple(replace(m, label=None) for m in simulated.machines))


def small() -> SimulatedCluster:
    return cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 16))


def storm(directory: Path, order: int, count: int = 1000) -> tuple[int, int, str]:
    """`count` nodes register in random order within 120 s, then an hour of heartbeats (the record rewritten as it is):
    (reconfigures until settled, reconfigures in the quiet hour, hash of topology.yaml)."""
    simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", count, per_leaf=16))
    stage = Stage(directory, unlabelled(simulated))
    arrivals = [m for m in simulated.machines if m.label]
    rng = random.Random(order)
    rng.shuffle(arrivals)
    start = stage.clock.time
    due = sorted((start + rng.uniform(0, 120), i) for i in range(len(arrivals)))
    pending = [(when, arrivals[i]) for when, i in due]

    def arrive(now: float) -> None:
        while pending and pending[0][0] <= now:
            stage.record(pending.pop(0)[1])

    stage.go(120 + 240, arrive)
    boot = stage.ctld.reconfigures
    beating = arrivals[:20]

    def beat(now: float) -> None:
        if int(now) % 30 == 0:
            for machine in beating:
                assert not stage.record(machine), "same facts: no rewrite"

    results = stage.go(3600, beat)
    assert set(results) <= {"unchanged"}
    return boot, stage.ctld.reconfigures - boot, stage.hash()


def test_br_30_a_storm_of_1000_nodes_takes_at_most_4_reconfigures_and_a_quiet_hour_none(tmp_path: Path) -> None:
    boot, quiet, _ = storm(tmp_path, 0)
    assert 1 <= boot <= 4
    assert quiet == 0


def test_br_30_the_output_is_the_same_for_20_orders(tmp_path: Path) -> None:
    hashes = set()
    for order in range(20):
        boot, quiet, text = storm(tmp_path / str(order), order, count=120)
        assert (boot <= 4, quiet) == (True, 0)
        hashes.add(text)
    assert len(hashes) == 1


@pytest.mark.parametrize("seed", ["0", "1"])
def test_br_30_the_output_does_not_depend_on_pythons_hash_seed(tmp_path: Path, seed: str) -> None:
    code = (
        "import sys, hashlib, pathlib; from tests.app.test_watch import storm;"
        "print(storm(pathlib.Path(sys.argv[1]), 1, count=60)[2])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": seed}
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path)], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == storm(tmp_path / "here", 1, count=60)[2]


def test_an_idle_watch_asks_slurm_for_drift_every_300_s_and_otherwise_never(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.go(300)
    calls: list[float] = []
    nodes = stage.ctld.nodes

    def counted() -> list[dict[str, Any]] | None:
        calls.append(stage.clock.time)
        return nodes()

    stage.ctld.nodes = counted  # type: ignore[method-assign]
    stage.go(1800)
    assert len(calls) in (5, 6)


def test_br_24_words_that_the_agent_takes_out_come_back_once_per_settled_change(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(200)
    assert "Topology=tree" in stage.room.conf.read_text()
    before = stage.ctld.reconfigures
    stage.room.write(simulated)  # the agent rewrites slurm.conf, without our words
    assert "Topology=" not in stage.room.conf.read_text()
    results = stage.go(400)
    assert "Topology=tree" in stage.room.conf.read_text()
    assert stage.ctld.reconfigures - before == 1
    assert results.count("applied") == 1


def test_a_change_that_goes_on_is_not_waited_for_longer_than_max_wait(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated, max_wait_seconds="100")
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 60)
    counter = iter(range(17, 60))
    stage.go(150, lambda now: stage.room.write(cluster(P5).with_machines(machines[: next(counter)])))
    assert stage.ctld.reconfigures >= 1


def test_reconfigures_keep_their_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="0", min_reconfigure_interval="120")
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 90)
    counter = iter(range(17, 90))
    stage.go(600, lambda now: stage.room.write(cluster(P5).with_machines(machines[: next(counter)])))
    assert 4 <= stage.ctld.reconfigures <= 6


def test_br_29_a_failed_apply_is_tried_again_without_any_new_change(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.answers = [Answer(1, "", "slurm_reconfigure error: Unspecified error")]
    stage.go(60)
    assert not stage.yaml.exists()
    state = json.loads((stage.wiring.state_dir / "state.json").read_text())
    assert state["last"]["result"] == "failed"
    assert state["last"]["next_try"] > state["last"]["time"]
    assert state["generation"] is None
    stage.go(400)
    assert "Topology=tree" in stage.room.conf.read_text()
    state = json.loads((stage.wiring.state_dir / "state.json").read_text())
    assert (state["last"]["result"], state["generation"]) == ("unchanged", 1) or state["last"]["result"] == "applied"


def test_failures_in_a_row_back_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.answers = [Answer(1, "", "slurm_reconfigure error: Unspecified error")] * 100
    stage.go(3600)
    assert 5 <= stage.ctld.reconfigures <= 14


def test_an_unreachable_slurmctld_changes_nothing_and_is_waited_for(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.ctld.up = False
    stage.go(900)
    assert "Topology=" not in stage.room.conf.read_text()
    stage.ctld.up = True
    stage.go(1000)
    assert "Topology=tree" in stage.room.conf.read_text()


def test_a_vanished_slurm_conf_is_never_made_up(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(200)
    text = stage.room.conf.read_text()
    stage.room.conf.unlink()
    stage.go(900)
    assert not stage.room.conf.exists()
    stage.room.conf.write_text(text)
    assert "unchanged" in stage.go(1000)


def test_a_registry_that_goes_missing_keeps_every_position(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, unlabelled(simulated))
    for machine in simulated.machines:
        if machine.label:
            stage.record(machine)
    stage.go(200)
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    (stage.room.registry / "nodes").rename(stage.room.registry / "elsewhere")
    stage.go(900)
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)


def test_br_23_a_listing_that_lags_removes_nobody_and_ends_in_one_update(tmp_path: Path) -> None:
    """The reader's directory is a copy refreshed every 30 s."""
    simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 8))
    stage = Stage(tmp_path, unlabelled(simulated))
    arrivals = [m for m in simulated.machines if m.label]
    start = stage.clock.time

    def refresh(now: float) -> None:
        if int(now - start) % 30 == 0:
            for machine in arrivals[: int(now - start) // 10]:
                stage.record(machine)

    stage.go(300, refresh)
    assert stage.ctld.reconfigures <= 2
    assert "unplaced-" not in stage.yaml.read_text().replace("unplaced-ip-10-1-0-8", "")


def test_br_26_stamps_of_other_clocks_decide_nothing(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, unlabelled(simulated))
    for skew, machine in zip([-646, 646] * 8, [m for m in simulated.machines if m.label], strict=True):
        stage.record(machine)
        path = stage.room.registry / "nodes" / f"{machine.instance_id}.json"
        os.utime(path, (stage.clock.time + skew, stage.clock.time + skew))
    stage.go(200)
    plain = Stage(tmp_path / "plain", simulated)
    plain.go(200)
    assert stage.hash() == plain.hash()


def test_br_27_a_replacement_costs_one_reconfigure_and_on_the_same_leaf_none(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(300)
    before = stage.ctld.reconfigures
    victim = next(m for m in simulated.machines if m.label)
    same = simulated.with_changed(victim.name, instance_id="i-0fff0000000000001")
    stage.room.write(same)
    stage.go(300)
    assert stage.ctld.reconfigures - before == 1, "the agent's rewrite took our words; nothing else changed"
    (stage.room.controller / "opt/ml/config/resource_config.json").write_text(
        json.dumps(same.with_changed(victim.name, instance_id="i-0fff0000000000002").resource_config())
    )
    stage.go(300)
    assert stage.ctld.reconfigures - before == 1
    assert victim.label is not None
    other = replace(victim.label, path=(*victim.label.path[:-1], "nn-la1"))
    moved = same.with_changed(victim.name, instance_id="i-0fff0000000000003", label=other)
    (stage.room.controller / "opt/ml/config/resource_config.json").write_text(json.dumps(moved.resource_config()))
    stage.go(300)
    assert stage.ctld.reconfigures - before == 2


def test_br_31_a_rolling_software_update_and_a_re_imaged_controller_stay_bounded(tmp_path: Path) -> None:
    """64 nodes register again (one of them four times), the controller's own disk is new in the middle."""
    simulated = cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", 64))
    stage = Stage(tmp_path, unlabelled(simulated))
    nodes = [m for m in simulated.machines if m.label]
    for machine in nodes:
        stage.record(machine)
    stage.go(300)
    before, text = stage.ctld.reconfigures, stage.hash()
    again = iter([*nodes[:7], *[nodes[6]] * 3, *nodes[7:]])
    stage.go(670, lambda now: stage.record(next(again, nodes[0])) and None)
    assert stage.ctld.reconfigures == before, "same facts, nothing to do"
    for name in ("state.json",):
        (stage.wiring.state_dir / name).unlink()
    stage.yaml.unlink()
    stage.room.conf.unlink()
    stage.room.write(unlabelled(simulated))
    stage.go(400)
    assert stage.hash() == text
    assert stage.ctld.reconfigures - before <= 2
