"""Upkeep on a stage: a controller's root on disk, a fake slurmctld that reads its files, a clock that tests move."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.clusters import P5, record_of
from tests.fakes import FakeClock, FakeSlurmctld, Quick
from topology_plugin.adapters.cluster_lock import ClusterLock
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.adapters.this_host import Host
from topology_plugin.app.machine_room import MachineRoom
from topology_plugin.app.watch import Watch
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.plan import digest
from topology_plugin.core.topology import Blocks, Configuration, Tree
from topology_plugin.jobs.simulated_cluster import (
    Machine,
    SimulatedCluster,
    cluster,
    in_tree,
)


class Stage:
    """`settings` as flags. `host` and `lock`: see Wiring. `head`: first lines of slurm.conf. `beside`: another
    controller's stage, whose slurm.conf, registry, slurmctld and clock this one shares."""

    def __init__(
        self,
        directory: Path,
        simulated: SimulatedCluster,
        *,
        host: Host | None = None,
        lock: ClusterLock | None = None,
        head: str = "",
        beside: Stage | None = None,
        **settings: Any,
    ) -> None:
        self.room: MachineRoom = beside.room if beside else MachineRoom(directory, None)
        if beside is None:
            if head:
                self.room.conf.parent.mkdir(parents=True)
                self.room.conf.write_text(head)
            self.room.write(simulated)
        self.clock: FakeClock = beside.clock if beside else FakeClock()
        self.ctld: FakeSlurmctld = beside.ctld if beside else FakeSlurmctld(LiveFiles(RealFiles(), str(self.room.conf)))
        self._flags = {
            "registry": str(self.room.registry),
            "slurm_conf": str(self.room.conf),
            "rehearse": "never",
            "sources": "resource-config,records",
            **settings,
        }
        self._host, self._lock = host, lock
        self.wiring = self.fresh_wiring()
        self.said: list[str] = []
        self.results: list[str] = []
        self.watch: Watch = self.wiring.watcher(self.said.append, self.fresh_wiring)
        self.registry = RegistryDirectory(self.room.registry, RealFiles(Quick()), self.clock)

    def fresh_wiring(self) -> Wiring:
        plain = Wiring.of(str(self.room.controller), self._flags, {})
        return replace(
            plain,
            clock=self.clock,
            given_slurm=self.ctld,
            given_controller=self.ctld,
            given_host=self._host,
            given_lock=self._lock,
        )

    # --- what happens ---

    def record(self, machine: Machine) -> bool:
        return self.registry.write(record_of(machine))

    def document(self, name: str, content: object) -> None:
        """One of the controller's files in /opt/ml/config. Text is written as it is."""
        path = self.room.controller / "opt/ml/config" / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))

    def agent(self, simulated: SimulatedCluster) -> None:
        """The agent's files for this cluster; slurm.conf without our words."""
        self.room.write(simulated)

    def lists(self, simulated: SimulatedCluster) -> None:
        """resource_config.json says this; slurm.conf stays."""
        self.document("resource_config.json", simulated.resource_config())

    def go(self, seconds: float, each: Callable[[float], object] = lambda now: None) -> list[str]:
        """Time passes, a poll every poll_seconds; results of the passes that ran ("failed" for those that raised)."""
        results = []
        end = self.clock.time + seconds
        while self.clock.time < end:
            self.clock.time += self.watch.ground.settings.poll_seconds
            each(self.clock.time)
            failures = self.watch.failures
            outcome = self.watch.poll()
            if outcome is not None:
                results.append(outcome.state.last.result)
            elif self.watch.failures != failures:
                results.append("failed")
        self.results += results
        return results

    # --- what came of it ---

    @property
    def yaml(self) -> Path:
        return self.room.conf.parent / "topology.yaml"

    def hash(self) -> str:
        return digest(self.yaml.read_bytes())

    def state(self) -> Mapping[str, Any]:
        found: dict[str, Any] = json.loads((self.wiring.places.state_dir / "state.json").read_text())
        return found

    def loaded(self) -> Configuration:
        assert self.ctld.loaded is not None
        return Configuration(self.ctld.loaded.topologies, self.ctld.words)

    def leaves(self, topology: str) -> dict[str, tuple[str, ...]]:
        """Leaf switch or block → nodes, as slurmctld has loaded it."""
        found = self.loaded().topology(topology)
        assert found is not None
        if isinstance(found.body, Tree):
            return {s.name: s.nodes for s in found.body.switches if s.nodes}
        assert isinstance(found.body, Blocks)
        return {b.name: b.nodes for b in found.body.blocks}

    def leaf_of(self, node: str, topology: str = "tree") -> str | None:
        return next((leaf for leaf, nodes in self.leaves(topology).items() if node in nodes), None)


def small(count: int = 16) -> SimulatedCluster:
    return cluster(P5).with_machines(in_tree("worker-p5", "ml.p5.48xlarge", count))


def labelled(simulated: SimulatedCluster) -> list[Machine]:
    return [machine for machine in simulated.machines if machine.label]
