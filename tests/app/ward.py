"""Where the doctor is called to: a controller's root, a fake slurmctld that reads its files, a pass that has run."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.clusters import record_of
from tests.fakes import FakeClock, FakeSlurmctld
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.probe import Tried
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.app.doctor import examine, gather
from topology_plugin.app.machine_room import DMI_TAG, MachineRoom
from topology_plugin.app.reconcile import Wish
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.checkup import Check, Patient
from topology_plugin.jobs.simulated_cluster import SimulatedCluster, mixed


class FakeProbe:
    """`tried`: what a directory answers; `word`: systemd's about every service, None: no systemd."""

    def __init__(self, tried: Tried | None = None, word: str | None = None) -> None:
        self.tried, self.word = tried or Tried("", os.geteuid(), True), word

    def directory(self, path: Path) -> Tried:
        return self.tried

    def service(self, name: str) -> str | None:
        return self.word


class Ward:
    """A controller's root with a fake slurmctld that reads its files; every node has registered, one pass has run."""

    def __init__(self, directory: Path, cluster: SimulatedCluster | None = None, made: bool = False) -> None:
        self.cluster = cluster or mixed(16, (18, 18), 1)
        self.room = MachineRoom(directory, None)
        self.settings: dict[str, Any] = {}
        self.clock = FakeClock()
        if not made:
            self._make()
        self.ctld = FakeSlurmctld(LiveFiles(RealFiles(), str(self.room.conf)))

    def _make(self) -> None:
        self.room.write(self.cluster)
        tag = self.room.controller / DMI_TAG
        tag.parent.mkdir(parents=True)
        tag.write_text(self.cluster.controller.instance_id)
        conf = self.room.conf
        conf.write_text("SlurmctldParameters=enable_configless\n" + conf.read_text())
        registry = RegistryDirectory(self.room.registry, RealFiles(), self.clock)
        for machine in self.cluster.nodes:
            registry.write(record_of(machine))

    @property
    def wiring(self) -> Wiring:
        flags = {"registry": str(self.room.registry), "slurm_conf": str(self.room.conf), "rehearse": "never"}
        plain = Wiring.of(str(self.room.controller), {**flags, **self.settings}, {})
        return replace(plain, clock=self.clock, given_slurm=self.ctld, given_controller=self.ctld)

    def merge(self) -> Ward:
        self.wiring.reconciler().run(Wish())
        return self

    def patient(self, probe: FakeProbe | None = None) -> Patient:
        return gather(self.wiring, ask_aws=False, probe=probe or FakeProbe())

    def checks(self, probe: FakeProbe | None = None) -> dict[str, Check]:
        return {check.id: check for check in examine(self.patient(probe))}

    @property
    def yaml(self) -> Path:
        return self.room.conf.parent / "topology.yaml"

    def edit(self, old: str, new: str, path: Path | None = None) -> None:
        file = path or self.room.conf
        text = file.read_text()
        assert old in text, f"{file.name} has no {old!r}"
        file.write_text(text.replace(old, new))
