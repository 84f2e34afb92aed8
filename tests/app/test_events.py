"""Whatever happens in whatever order, what comes of it in the end is what the final facts say.

What earlier facts may still decide, and nothing else does: the last known position of an instance of which nobody tells
any more (so labels here come and change, but are not taken back); which of several id spaces with equally many nodes is
used (see `tied`); and how many nodes an UltraServer ever had, from which the block size
is inferred (so none here has more than 9; see the test at the end).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.app.stage import Stage
from tests.app.upkeep import asks
from tests.clusters import CPU, GB, P5, record_of
from tests.fake_aws import Failure
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.reconcile import Wish
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Blocks
from topology_plugin.jobs.simulated_cluster import (
    Machine,
    SimulatedCluster,
    cluster,
    in_tree,
    in_ultraservers,
    without_network_data,
)

LEAVES = ("nn-la0", "nn-la1", "nn-la7")
SPARE = in_tree("worker-p5", "ml.p5.48xlarge", 40, per_leaf=4)
START = cluster(P5, GB, CPU).with_machines(
    [*SPARE[:8], *in_ultraservers("worker-gb", [3, 2]), *without_network_data("worker-cpu", "ml.c5.9xlarge", 2)]
)


class World:
    """The facts: `truth` has every label; resource_config shows those of `told`; `registered`: who has a record."""

    def __init__(self, directory: Path) -> None:
        self.truth = START
        self.told: set[str] = {m.instance_id for m in START.machines[:7]}
        self.serial = 0
        self.silent = False
        self.stage = Stage(directory, self.shown(), sources="resource-config,records,ec2")
        self.stage.room.registry.mkdir(parents=True)
        (self.stage.room.registry / "nodes").mkdir()
        asks(self.stage, self.ec2)
        self.stage.go(100)

    def shown(self) -> SimulatedCluster:
        """As resource_config lists it."""
        machines = (m if m.instance_id in self.told else replace(m, label=None) for m in self.truth.machines)
        return replace(self.truth, machines=tuple(machines))

    def ec2(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """EC2 knows p5 nodes with an even number, and only those."""
        if self.silent:
            raise Failure("RequestLimitExceeded", "Request limit exceeded.", 503)
        known = [m for m in self.truth.members("worker-p5") if m.label and m.number % 2 == 0]
        return {
            "Instances": [
                {"InstanceId": m.instance_id, "InstanceType": "p5.48xlarge", "NetworkNodes": list(m.label.path)}
                for m in known
                if m.label and m.instance_id in parameters["InstanceIds"]
            ]
        }

    # --- events; `pick` chooses among the nodes ---

    def node(self, pick: int) -> Machine:
        nodes = [m for m in self.truth.nodes if m.group != "worker-cpu" and m.group != "login-group"]
        return nodes[pick % len(nodes)]

    def register(self, pick: int) -> None:
        self.stage.record(self.node(pick))

    def scale_up(self, pick: int) -> None:
        there = {m.name for m in self.truth.machines}
        fresh = [m for m in SPARE if m.name not in there][: 1 + pick % 3]
        self.truth = self.truth.with_machines(fresh)
        self.told |= {m.instance_id for m in fresh if pick % 2}
        self.agent(pick)

    def scale_down(self, pick: int) -> None:
        victims = {self.node(pick).name, self.node(pick + 1).name}
        if len(self.truth.nodes) > 6:
            self.truth = self.truth.without(victims)
        self.agent(pick)

    def replacement(self, pick: int) -> None:
        victim, self.serial = self.node(pick), self.serial + 1
        fresh = f"i-0fff{self.serial:012d}"
        self.truth = self.truth.with_changed(victim.name, instance_id=fresh, label=elsewhere(victim, pick))
        if pick % 3:
            self.told.add(fresh)
        self.list_instances()

    def late_label(self, pick: int) -> None:
        self.told.add(self.node(pick).instance_id)
        self.list_instances()

    def label_change(self, pick: int) -> None:
        victim = self.node(pick)
        self.truth = self.truth.with_changed(victim.name, label=elsewhere(victim, pick))
        self.told.add(victim.instance_id)
        self.list_instances()
        self.stage.record(self.node(pick))

    def agent(self, pick: int) -> None:
        """It rewrites slurm.conf, sometimes the topology too. Not more than six times an hour, or we stand back."""
        self.stage.agent(self.shown())
        if pick % 4 == 0:
            self.stage.yaml.write_text("[]\n")
        if pick % 4 == 1:
            self.stage.yaml.unlink(missing_ok=True)
        self.stage.clock.time += 700

    def list_instances(self) -> None:
        self.stage.lists(self.shown())

    def registry_unreadable(self, pick: int) -> None:
        nodes = self.stage.room.registry / "nodes"
        if nodes.is_dir() and not nodes.with_name("elsewhere").exists():
            nodes.rename(nodes.with_name("elsewhere"))

    def registry_back(self, pick: int) -> None:
        away, nodes = self.stage.room.registry / "elsewhere", self.stage.room.registry / "nodes"
        if away.is_dir():
            nodes.mkdir(exist_ok=True)  # somebody may have registered meanwhile
            for path in away.iterdir():
                if not (nodes / path.name).exists():
                    path.rename(nodes / path.name)
                else:
                    path.unlink()
            away.rmdir()

    def config_unusable(self, pick: int) -> None:
        texts = ("", "{", '{"InstanceGroups": []}', '{"InstanceGroups": null}', "\0\0", '{"ClusterType": "Kubernetes"}')
        self.stage.document("resource_config.json", texts[pick % len(texts)])

    def config_back(self, pick: int) -> None:
        self.list_instances()

    def api_silent(self, pick: int) -> None:
        self.silent = not self.silent

    def slurmctld_down(self, pick: int) -> None:
        self.stage.ctld.up = not self.stage.ctld.up
        if self.stage.ctld.up:
            if self.stage.yaml.is_file() and self.stage.yaml.read_text() == "[]\n":
                self.stage.yaml.unlink()  # guard's work, before slurmctld starts
            assert self.stage.ctld.load() is None, "it starts from whatever is on disk"

    def reconfigure_fails(self, pick: int) -> None:
        self.stage.ctld.answers = [Answer(1, "", "slurm_reconfigure error: Unspecified error")] * (1 + pick % 2)

    def everything_back(self) -> None:
        self.silent = False
        self.stage.ctld.answers = []
        if not self.stage.ctld.up:
            self.slurmctld_down(0)
        self.registry_back(0)
        self.config_back(0)


def elsewhere(machine: Machine, pick: int) -> Position:
    assert machine.label is not None
    if machine.label.ultraserver:
        return replace(machine.label, ultraserver=f"us-srv000{pick % 3}")
    return replace(machine.label, path=(*machine.label.path[:-1], LEAVES[pick % 3]))


EVENTS = (
    "register", "register", "scale_up", "scale_down", "replacement", "late_label", "label_change", "agent",
    "registry_unreadable", "registry_back", "config_unusable", "config_back", "api_silent", "slurmctld_down",
    "reconfigure_fails",
)  # fmt: skip
Event = tuple[str, int, int]
events = st.tuples(st.sampled_from(EVENTS), st.integers(0, 11), st.sampled_from((0, 20, 130, 400)))


def in_the_end(directory: Path, happened: list[Event]) -> tuple[World, Stage]:
    """Everything that happened, each followed by so many seconds; then all is readable again, and it is quiet."""
    world = World(directory / "lived")
    for name, pick, seconds in happened:
        getattr(world, name)(pick)
        world.stage.go(seconds)
    world.everything_back()
    world.stage.go(1300)  # every back-off and every pause of an API ends within this
    fresh = Stage(directory / "fresh", world.shown(), sources="resource-config,records,ec2")
    (fresh.room.registry / "nodes").mkdir(parents=True)
    for path in (world.stage.room.registry / "nodes").iterdir():
        (fresh.room.registry / "nodes" / path.name).write_bytes(path.read_bytes())
    asks(fresh, world.ec2)
    fresh.go(60)
    fresh.go(700)
    return world, fresh


@given(happened=st.lists(events, max_size=9))
@settings(max_examples=settings().max_examples // 2, suppress_health_check=[HealthCheck.too_slow])
@example([("config_unusable", 1, 130), ("register", 3, 130), ("scale_up", 1, 130), ("registry_unreadable", 0, 400)])
@example([("scale_up", 0, 0), ("slurmctld_down", 0, 0), ("slurmctld_down", 0, 0)])
@example([("scale_down", 0, 0), ("slurmctld_down", 0, 0), ("scale_down", 0, 400), ("register", 1, 0)])
@example([("slurmctld_down", 0, 400), ("agent", 4, 400), ("reconfigure_fails", 1, 130), ("replacement", 2, 20)])
def test_the_end_depends_on_the_final_facts_alone_and_then_nothing_is_done(
    tmp_path_factory: pytest.TempPathFactory, happened: list[Event]
) -> None:
    world, fresh = in_the_end(tmp_path_factory.mktemp("events"), happened)
    lived = world.stage
    if not tied(lived, fresh):
        assert lived.yaml.read_bytes() == fresh.yaml.read_bytes()
        assert lived.loaded() == fresh.loaded()
    assert lived.room.conf.read_bytes() == fresh.room.conf.read_bytes()
    for topology in lived.loaded().topologies:
        if topology.kind != "flat":
            group = {"tree": "worker-p5", "block": "worker-gb"}[topology.kind]
            members = {m.name for m in world.truth.members(group)}
            assert set(topology.body.nodes()) == members, "nobody is left out, nobody who is gone stays"
    stamps = {path: stamp(path) for path in (lived.yaml, lived.room.conf)}
    reconfigures = lived.ctld.reconfigures
    assert set(lived.go(700)) == {"unchanged"}
    assert {path: stamp(path) for path in stamps} == stamps
    assert lived.ctld.reconfigures == reconfigures


def stamp(path: Path) -> tuple[int, int, int]:
    """All that writing changes (reading may move the access time)."""
    found = path.stat()
    return found.st_ino, found.st_mtime_ns, found.st_size


def tied(lived: Stage, fresh: Stage) -> bool:
    """Another id space is in use than a fresh cluster would choose: only where both place equally many nodes, as then
    the last choice sticks."""
    placed = []
    for stage in (lived, fresh):
        thought = stage.wiring.reconciler().think(Wish(dry_run=True, ask=False))
        placed.append(thought.state.decision.placements)
    apart = [n for n in placed[0].keys() & placed[1].keys() if placed[0][n].space != placed[1][n].space]
    assert all(len(placed[0][name].placed) == len(placed[1][name].placed) for name in apart)
    return bool(apart)


@pytest.mark.parametrize("blind", ["registry_unreadable", "config_unusable", "api_silent"])
@pytest.mark.parametrize("pick", range(6))
def test_no_data_moves_nobody(tmp_path: Path, blind: str, pick: int) -> None:
    world = World(tmp_path)
    for number in range(0, 12, 2):
        world.register(number)
    world.stage.go(400)
    before = world.stage.hash()
    getattr(world, blind)(pick)
    world.stage.go(700)
    assert world.stage.hash() == before


def test_a_record_that_was_overruled_moves_nobody_when_resource_config_cannot_be_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    told = world.node(0)
    assert told.label is not None
    world.stage.record(replace(told, label=elsewhere(told, 1)))
    world.stage.go(400)
    assert world.stage.leaf_of(told.name) == told.label.path[-1]
    before = world.stage.hash()
    world.config_unusable(1)
    world.stage.go(700)
    assert world.stage.hash() == before


def test_records_help_where_resource_config_cannot_be_read(tmp_path: Path) -> None:
    world = World(tmp_path)
    world.config_unusable(1)
    world.stage.go(100)
    late = next(m for m in world.truth.members("worker-p5") if m.instance_id not in world.told and m.number % 2)
    assert world.stage.leaf_of(late.name) == f"unplaced-{late.name}"
    world.stage.record(late)
    world.stage.go(200)
    assert late.label is not None
    assert world.stage.leaf_of(late.name) == late.label.path[-1]


def test_the_block_size_may_depend_on_the_past_as_a_broken_node_must_not_change_it(tmp_path: Path) -> None:
    simulated = cluster(GB).with_machines(in_ultraservers("worker-gb", [10, 9]))
    lived = Stage(tmp_path / "lived", simulated)
    lived.go(200)
    fewer = simulated.without([simulated.members("worker-gb")[0].name])
    lived.agent(fewer)
    lived.go(300)
    fresh = Stage(tmp_path / "fresh", fewer)
    fresh.go(300)
    assert (sizes(lived), sizes(fresh)) == ((18,), (9,))


def sizes(stage: Stage) -> tuple[int, ...]:
    found = stage.loaded().topology("block")
    assert found is not None
    assert isinstance(found.body, Blocks)
    return found.body.sizes


def test_records_written_meanwhile_count(tmp_path: Path) -> None:
    """The measure itself: a record more is another result."""
    world = World(tmp_path)
    world.stage.go(100)
    before = world.stage.hash()
    late = next(m for m in world.truth.members("worker-p5") if m.instance_id not in world.told and m.number % 2)
    world.stage.registry.write(record_of(late))
    world.stage.go(200)
    assert world.stage.hash() != before
