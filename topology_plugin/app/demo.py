"""The demo: a cluster's life on a real slurmctld, told step by step. Whoever shows it decides how."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from topology_plugin.adapters.private_slurmctld import PrivateSlurmctld
from topology_plugin.app.machine_room import LOCAL_SOURCES, MachineRoom
from topology_plugin.app.reconcile import Outcome, Wish
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.hostlists import expand
from topology_plugin.core.live import Job
from topology_plugin.core.position import Position
from topology_plugin.core.state import State
from topology_plugin.jobs.distance import of_state
from topology_plugin.jobs.placement import Placed, place
from topology_plugin.jobs.simulated_cluster import Machine, in_tree, mixed

PER_LEAF = 8
ALL_FLAT = '{"train": {"kind": "flat"}, "gb200": {"kind": "flat"}}'
JOBS = (
    ("8 nodes, tree", ("-p", "train", "-N8")),
    ("18 nodes, block", ("-p", "gb200", "-N18")),
    ("16 nodes in segments of 8, block", ("-p", "gb200", "-N16", "--segment=8")),
    ("2 CPU nodes", ("-p", "cpu", "-N2")),
)


@dataclass(frozen=True)
class Step:
    """`registered`: hooks that ran; `outcome`: of the pass; `lines`: lines of topology.yaml that changed."""

    title: str
    sentence: str
    registered: int
    outcome: Outcome
    hooks_seconds: float
    pass_seconds: float
    lines: int


@dataclass(frozen=True)
class JobStory:
    """The same job under ours and under flat. None: Slurm gave it no nodes in time."""

    title: str
    arguments: tuple[str, ...]
    ours: Placed | None
    flat: Placed | None


@dataclass
class Demo:
    """`progress(done, all)` is called while hooks run. Without `slurm_bin` nothing is applied: passes work offline."""

    directory: Path
    slurm_bin: Path | None
    nodes: int = 64
    progress: Callable[[int, int], None] = field(default=lambda done, all_: None)

    def __post_init__(self) -> None:
        self.cluster = mixed(p5=self.nodes)
        self.room = MachineRoom(self.directory, self.slurm_bin)
        self._known: set[str] = set()

    def steps(self) -> Iterator[Step]:
        """The cluster's life. slurmctld runs from the first step on; `close()` ends it."""
        yield self._step(
            "Boot", "Every node registers through the hook, one pass puts a topology per partition in force."
        )
        more = in_tree(
            "worker-p5", "ml.p5.48xlarge", PER_LEAF, per_leaf=PER_LEAF, first=self._next_leaf() * PER_LEAF + 1
        )
        self.cluster = self.cluster.with_machines(more)
        rewrites = "HyperPod's agent rewrites slurm.conf, here and below, which takes our words out: they come back."
        yield self._step("A leaf more", f"{len(more)} p5 nodes join on a leaf that nobody knew. {rewrites}")
        gone = [m.name for m in self.cluster.members("worker-p5")[1 : 1 + 3]]
        self.cluster = self.cluster.without(gone)
        yield self._step("Three nodes fewer", f"{', '.join(gone)} are scaled away.")
        yield self._step("Three replaced", self._replace_three())
        late = self._late()
        yield self._step("A node without a label", f"{late.name} joins before AWS says where it lies: it is unplaced.")
        self.cluster = self.cluster.with_changed(late.name, label=late.label)
        self._known.discard(late.instance_id)
        yield self._step("Its label arrives", "The node registers again, and moves to its leaf.")

    def jobs(self) -> Iterator[JobStory]:
        """Each job alone in the idle cluster: first under ours, then, after a pass with everything flat, under flat."""
        slurmctld = self.room.slurmctld
        if slurmctld is None:
            return
        state = self._pass().state
        ours = {title: self._placed(slurmctld, arguments, state) for title, arguments in JOBS}
        self._pass(partitions=ALL_FLAT)
        for title, arguments in JOBS:
            plain = tuple(a for a in arguments if not a.startswith("--segment"))
            yield JobStory(title, arguments, ours[title], self._placed(slurmctld, plain, state))
        self._pass()

    def close(self) -> None:
        if self.room.slurmctld is not None:
            self.room.slurmctld.stop()

    # --- what happens to the cluster ---

    def _next_leaf(self) -> int:
        return -(-self.nodes // PER_LEAF)

    def _replace_three(self) -> str:
        """Same names, new instances; the first on another leaf."""
        victims = self.cluster.members("worker-p5")[4:7]
        away = self.cluster.members("worker-p5")[-1].label
        for i, victim in enumerate(victims):
            label = away if i == 0 else victim.label
            fresh = f"{victim.instance_id[:-4]}{i:04d}"
            self.cluster = self.cluster.with_changed(victim.name, instance_id=fresh, label=label)
        names = ", ".join(v.name for v in victims)
        return f"{names} get new instances at their addresses, the first of them on another leaf."

    def _late(self) -> Machine:
        """A new node whose label is not there yet; returned as it will be."""
        [machine] = in_tree(
            "worker-p5", "ml.p5.48xlarge", 1, per_leaf=PER_LEAF, first=(self._next_leaf() + 1) * PER_LEAF + 1
        )
        neighbour = self.cluster.members("worker-p5")[0].label or Position()
        self.cluster = self.cluster.with_machines([replace(machine, label=None)])
        return replace(machine, label=neighbour)

    # --- hooks, passes, jobs ---

    def _step(self, title: str, sentence: str) -> Step:
        # The controller's copy lists the instances; where they lie it learns from the nodes themselves.
        self.room.write(replace(self.cluster, machines=tuple(replace(m, label=None) for m in self.cluster.machines)))
        slurmctld = self.room.slurmctld
        if slurmctld is not None:
            slurmctld.scontrol("reconfigure") if slurmctld.alive() else slurmctld.start()
        begin = time.monotonic()
        registered = self._register()
        hooks = time.monotonic() - begin
        before = self._yaml()
        begin = time.monotonic()
        outcome = self._pass()
        seconds = time.monotonic() - begin
        lines = len(set(before) ^ set(self._yaml()))
        return Step(title, sentence, registered, outcome, hooks, seconds, lines)

    def _register(self) -> int:
        fresh = [m for m in self.cluster.nodes if m.instance_id not in self._known]
        done = 0
        for chunk in _chunks(fresh, 8):
            self.room.register(chunk, self.cluster)
            done += len(chunk)
            self.progress(done, len(fresh))
        self._known.update(m.instance_id for m in fresh)
        return len(fresh)

    def _yaml(self) -> list[str]:
        path = self.room.conf.parent / "topology.yaml"
        return path.read_text().splitlines() if path.is_file() else []

    def wiring(self, **settings: str) -> Wiring:
        """The controller's doors."""
        flags: dict[str, str] = {"slurm_conf": str(self.room.conf), "registry": str(self.room.registry), **settings}
        if self.slurm_bin is not None:
            flags["slurm_bin"] = str(self.slurm_bin)
        return Wiring.of(str(self.room.controller), {"sources": LOCAL_SOURCES, **flags}, {})

    def _pass(self, **settings: str) -> Outcome:
        return self.wiring(**settings).reconciler().run(Wish(offline=self.slurm_bin is None))

    def _placed(self, slurmctld: PrivateSlurmctld, arguments: Sequence[str], state: State) -> Placed | None:
        done = slurmctld.run("sbatch", "--parsable", *arguments, "--wrap", "sleep 3600", check=False)
        if done.returncode != 0:
            return None
        job = done.stdout.strip().split(";")[0]
        nodes = _nodes_of(slurmctld, job)
        slurmctld.run("scancel", job, check=False)
        _gone(slurmctld, job)
        if not nodes:
            return None
        partition = arguments[arguments.index("-p") + 1]
        row = Job(int(job), state="RUNNING", nodes=tuple(nodes), partition=partition)
        return place(row, of_state(state, partition))


def _nodes_of(slurmctld: PrivateSlurmctld, job: str, patience: float = 20) -> list[str]:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        nodes = slurmctld.run("squeue", "-h", "-j", job, "-o", "%N", check=False).stdout.strip()
        if nodes:
            return expand(nodes)
        time.sleep(0.1)
    return []


def _gone(slurmctld: PrivateSlurmctld, job: str, patience: float = 20) -> None:
    until = time.monotonic() + patience
    while time.monotonic() < until:
        if not slurmctld.run("squeue", "-h", "-j", job, "-t", "PD,R,CF,CG", check=False).stdout.strip():
            return
        time.sleep(0.1)


def _chunks(machines: Sequence[Machine], size: int) -> Iterator[Sequence[Machine]]:
    for start in range(0, len(machines), size):
        yield machines[start : start + size]
