"""HyperPod's agent, or an operator, writes the same files: who owns what, and no loop of two writers."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.slurm.change import EMPTY, gb, p5
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import leftovers
from tests.slurm.room import Room, same
from topology_plugin.adapters.clock import SystemClock
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.app.reconcile import Outcome, Wish

CLUSTER = EMPTY.with_machines([*p5[:8], *gb])
THEIRS = """# written by the agent
- topology: theirs
  cluster_default: true
  tree:
    switches:
    - switch: everything
      nodes: {nodes}
"""


class Shifted(SystemClock):
    """The time of day can be moved on; waiting takes as long as it takes."""

    def __init__(self) -> None:
        self.shift = 0.0

    def now(self) -> float:
        return super().now() + self.shift


class Agent:
    """Restores its own slurm.conf, without our words, and its topology.yaml (None: removes it), whenever it likes."""

    def __init__(self, room: Room, topology: str | None = None) -> None:
        self.room, self.topology = room, topology
        self.conf = room.conf.read_text() + "# the agent's own line\n"
        self.rewrites = 0

    def rewrite(self) -> None:
        self.rewrites += 1
        self.put(self.room.conf, self.conf)
        if self.topology is None:
            self.room.yaml.unlink(missing_ok=True)
        else:
            self.put(self.room.yaml, self.topology)

    def put(self, path: Path, text: str) -> None:
        fresh = path.with_name(f".agent-{path.name}")
        fresh.write_text(text)
        fresh.replace(path)

    def enable_topology(self, enabled: bool) -> None:
        path = self.room.controller / "opt/ml/config/cluster_agent.json"
        path.write_text(json.dumps({"SlurmConfiguration": {"EnableTopology": enabled, "UseInstanceNames": False}}))


@pytest.fixture
def here(room: NewRoom) -> Room:
    made = room()
    made.registry.mkdir(parents=True)
    made.boot(CLUSTER)
    return made


def a_pass(room: Room, clock: Any = None, adopt: bool = False, **settings: Any) -> Outcome:
    wiring = room.wiring(**settings)
    return replace(wiring, clock=clock or SystemClock()).reconciler().run(Wish(adopt=adopt))


def files(room: Room) -> dict[str, tuple[int, int, bytes]]:
    return {p.name: (p.stat().st_ino, p.stat().st_mtime_ns, p.read_bytes()) for p in room.conf.parent.iterdir()}


@pytest.mark.parametrize("topology", [None, "[]\n"], ids=["removed", "empty-list"])
def test_br_24_an_agent_that_rewrites_every_minute_is_answered_six_times_then_left_alone(
    here: Room, topology: str | None
) -> None:
    """Ten times in ten minutes; after each, two passes: the second must find nothing to do."""
    agent, clock = Agent(here, topology), Shifted()
    agent.enable_topology(topology is not None)
    wanted = a_pass(here, clock).state.desired
    reconfigures = []
    for number in range(1, 11):
        clock.shift += 60
        agent.rewrite()
        first, second = a_pass(here, clock), a_pass(here, clock)
        reconfigures.append(sum(bool(o.applied and o.applied.reconfigured) for o in (first, second)))
        assert first.state.counters.agent_reverts == min(number, 7)
        if number <= 6:
            assert same(here.in_force(), wanted)
            assert "# the agent's own line" in here.conf.read_text()
        else:
            assert not second.state.owner.writes and "resume" in second.state.owner.reason
            assert here.conf.read_text() == agent.conf
    assert reconfigures == [1] * 6 + [0] * 4
    # An hour later, and without being told, it still stands back; `resume` ends it.
    clock.shift += 7200
    assert not a_pass(here, clock).state.owner.writes
    assert here.on_controller("resume", check=True).stdout.strip() == "no longer standing back"
    assert a_pass(here, clock).state.last.result == "applied"
    assert same(here.in_force(), wanted)


def test_reverts_that_come_seldom_are_answered_for_ever(here: Room) -> None:
    agent, clock = Agent(here), Shifted()
    wanted = a_pass(here, clock).state.desired
    for _ in range(9):
        clock.shift += 601
        agent.rewrite()
        assert a_pass(here, clock).state.last.result == "applied"
    assert same(here.in_force(), wanted)


def test_an_agent_that_writes_all_the_time_and_then_lets_go(here: Room) -> None:
    """Passes and rewrites race for some seconds: whatever a pass says, slurmctld lives, and in the end it converges."""
    agent = Agent(here, "- topology: flat\n  cluster_default: true\n  flat: true\n")
    wanted = a_pass(here, mode="manage").state.desired
    stop = threading.Event()

    def work() -> None:
        while not stop.wait(0.25):
            agent.rewrite()
            here.ctld.scontrol("reconfigure", check=False)

    worker = threading.Thread(target=work)
    worker.start()
    results: list[str] = []
    deadline = time.monotonic() + 8
    try:
        while time.monotonic() < deadline or agent.rewrites < 4:
            try:
                results.append(a_pass(here, mode="manage").state.last.result)
            except ApplyFailed as failed:
                results.append(failed.code)
            assert here.ctld.alive()
    finally:
        stop.set()
        worker.join()
    assert agent.rewrites >= 4 and results
    here.on_controller("resume", check=True)
    assert a_pass(here, mode="manage").state.last.result in ("applied", "unchanged")
    assert same(here.in_force(), wanted) and leftovers(here) == []
    assert "# the agent's own line" in here.conf.read_text()
    here.ctld.restart()
    assert same(here.in_force(), wanted)


def agent_managed(here: Room) -> Agent:
    """A cluster that the agent manages well: its topology.yaml, its word."""
    agent = Agent(here, THEIRS.format(nodes=",".join(m.name for m in CLUSTER.nodes)))
    agent.conf = agent.conf.replace("PartitionName=train ", "PartitionName=train Topology=theirs ")
    agent.rewrite()
    assert here.ctld.reconfigure()
    return agent


def test_br_24_a_healthy_cluster_of_the_agents_is_only_looked_at(here: Room) -> None:
    agent_managed(here).enable_topology(True)
    before = files(here)
    for adopt in (False, True):
        outcome = a_pass(here, adopt=adopt)
        assert (outcome.state.last.result, outcome.state.owner.owner) == ("observed", "agent")
        assert "EnableTopology is true" in outcome.state.owner.reason
    assert files(here) == before
    assert here.ctld.partitions()["train"] == "theirs"
    node = p5[0].name
    for command, codes in (
        (["show"], (0,)),
        (["show", "--desired", "-o", "json"], (0,)),
        (["diff"], (0, 3)),
        (["explain", node], (0,)),
        (["doctor"], (0, 4)),
        (["history"], (0,)),
        (["merge", "--dry-run"], (0,)),
        (["merge"], (0,)),
    ):
        done = here.on_controller(*command)
        assert done.returncode in codes and "Traceback" not in done.stderr, (command, done.stdout, done.stderr)
        assert done.stdout, command
    assert files(here) == before


@pytest.mark.parametrize("enabled", [None, False], ids=["no-agent-file", "br-24-not-enabled"])
def test_what_an_operator_wrote_stays_until_it_is_adopted_once(here: Room, enabled: bool | None) -> None:
    agent = agent_managed(here)
    if enabled is not None:
        agent.enable_topology(enabled)
    before = files(here)
    outcome = a_pass(here)
    assert (outcome.state.last.result, outcome.state.owner.owner) == ("observed", "operator")
    assert "--adopt" in outcome.state.owner.reason and "topology.yaml" in outcome.state.owner.reason
    assert files(here) == before
    outcome = a_pass(here, adopt=True)
    assert outcome.state.last.result == "applied" and same(here.in_force(), outcome.state.desired)
    assert "# the agent's own line" in here.conf.read_text()
    agent.rewrite()
    assert a_pass(here).state.last.result == "applied", "remembered"
    assert same(here.in_force(), outcome.state.desired)


def test_a_single_foreign_word_stays_too(here: Room) -> None:
    a_pass(here)
    text = here.conf.read_text()
    assert "PartitionName=cpu " in text
    here.conf.write_text(text.replace("PartitionName=cpu ", "PartitionName=cpu Topology=flat "))
    before = files(here)
    outcome = a_pass(here)
    assert (outcome.state.owner.owner, outcome.state.owner.writes) == ("operator", False)
    assert "cpu has Topology=flat" in outcome.state.owner.reason
    assert files(here) == before


def test_manage_takes_over_at_once(here: Room) -> None:
    agent_managed(here).enable_topology(True)
    outcome = a_pass(here, mode="manage")
    assert outcome.state.last.result == "applied" and same(here.in_force(), outcome.state.desired)


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_observe_and_off_write_nothing_even_where_nobody_else_does(here: Room, mode: str) -> None:
    before = files(here)
    outcome = a_pass(here, mode=mode)
    assert outcome.state.last.result == "observed" and mode in outcome.state.owner.reason
    assert files(here) == before


def test_br_15_the_agents_empty_list_is_mended_although_it_is_enabled(here: Room) -> None:
    agent = Agent(here, "[]\n")
    agent.enable_topology(True)
    agent.rewrite()
    outcome = a_pass(here)
    assert outcome.state.last.result == "applied" and same(here.in_force(), outcome.state.desired)
    here.ctld.restart()
