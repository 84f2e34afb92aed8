"""The machine room of a test: a simulated cluster's files, a real slurmctld, passes in this process or as a real one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.slurm.cluster import Cluster
from topology_plugin.app.machine_room import MachineRoom
from topology_plugin.app.reconcile import Outcome, Wish
from topology_plugin.app.wiring import Wiring
from topology_plugin.core import topology_yaml
from topology_plugin.core.plan import digest
from topology_plugin.core.topology import Blocks, Body, Configuration, Tree
from topology_plugin.jobs.simulated_cluster import SimulatedCluster


def shape(configuration: Configuration) -> object:
    """Which node lies on which switch or block, and which word each partition has; without the order of topologies,
    switches and nodes. The product's own comparison is not used."""

    def units(body: Body) -> object:
        if isinstance(body, Tree):
            return {s.name: (set(s.nodes), set(s.children)) for s in body.switches}
        return (body.sizes, [(b.name, set(b.nodes)) for b in body.blocks]) if isinstance(body, Blocks) else None

    topologies = {t.name: (t.default, t.kind, units(t.body)) for t in configuration.topologies}
    return topologies, dict(configuration.words)


def same(loaded: Configuration, wanted: Configuration) -> bool:
    return shape(loaded) == shape(wanted)


class Room(MachineRoom):
    def __init__(self, directory: Path, slurm_bin: Path, *, extra: str = "") -> None:
        super().__init__(directory, slurm_bin, extra=extra)
        self.ctld = Cluster(directory / "slurm", slurm_bin, conf=self.conf)
        self.slurmctld = self.ctld

    def boot(self, cluster: SimulatedCluster) -> None:
        """The files of the cluster, and slurmctld running as HyperPod starts it: without any topology."""
        self.write(cluster)
        self.ctld.start()

    def change(self, cluster: SimulatedCluster) -> None:
        """The cluster becomes this one: the agent rewrites its files and reconfigures, losing our words."""
        self.write(cluster)
        assert self.ctld.reconfigure()

    def wiring(self, **settings: Any) -> Wiring:
        flags = {"slurm_bin": str(self.slurm_bin), "rehearse": "never", **settings}
        return Wiring.of(str(self.controller), flags, self.environment())

    def merge(self, *, adopt: bool = False, dry_run: bool = False, **settings: Any) -> Outcome:
        """One pass in this process. Rehearsals have tests of their own."""
        return self.wiring(**settings).reconciler().run(Wish(adopt=adopt, dry_run=dry_run))

    @property
    def yaml(self) -> Path:
        return self.conf.parent / "topology.yaml"

    def in_force(self) -> Configuration:
        """What slurmctld says it has loaded."""
        return Configuration(topology_yaml.parse(self.ctld.topoconf()).topologies, self.ctld.partitions())

    def leaves(self, topology: str) -> dict[str, tuple[str, ...]]:
        """Leaf switch or block → nodes, as slurmctld has loaded it."""
        found = self.in_force().topology(topology)
        assert found is not None
        if isinstance(found.body, Tree):
            return {s.name: s.nodes for s in found.body.switches if s.nodes}
        assert isinstance(found.body, Blocks)
        return {b.name: b.nodes for b in found.body.blocks}

    def runs_on(self, *arguments: str) -> list[str]:
        """Where such a job gets its nodes; it is cancelled again."""
        job = self.ctld.submit(*arguments)
        try:
            return self.ctld.wait_running(job)
        finally:
            self.ctld.cancel(job)


def assert_second_pass_does_nothing(here: Room) -> None:
    """Bytes, modification times, and no call of Slurm's that changes something."""

    def files() -> dict[str, tuple[str, int, int]]:
        return {p.name: (digest(p.read_bytes()), p.stat().st_mtime_ns, p.stat().st_ino) for p in (here.conf, here.yaml)}

    before, restarts = files(), here.ctld.log.count("Running as primary controller")
    outcome = here.merge()
    assert outcome.state.last.result == "unchanged"
    assert not outcome.plan
    assert not outcome.state.drift
    assert files() == before
    assert here.ctld.log.count("Running as primary controller") == restarts
