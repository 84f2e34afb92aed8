"""A cluster that lives on a real slurmctld: what can happen to it, and what must hold after each event."""

from __future__ import annotations

import errno
import itertools
import os
import random
from dataclasses import replace

from tests.clusters import CPU, GB, P5
from tests.slurm.interrupted import killed_at, leftovers, reconciler
from tests.slurm.room import Room, same
from topology_plugin.adapters.files import Operations
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app import ownership
from topology_plugin.app.reconcile import Wish
from topology_plugin.core.issues import PassError
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Configuration, Flat, Tree
from topology_plugin.jobs.simulated_cluster import (
    Machine,
    SimulatedCluster,
    cluster,
    in_tree,
    in_ultraservers,
    machine,
    without_network_data,
)

START = cluster(P5, GB, CPU).with_machines(
    [
        *in_tree("worker-p5", "ml.p5.48xlarge", 8, per_leaf=4, leaves_per_spine=2),
        *in_ultraservers("worker-gb", [3, 3]),
        *without_network_data("worker-cpu", "ml.c5.9xlarge", 1),
    ]
)


class NoSpace(Operations):
    """The disk is full after half of the n-th write."""

    def __init__(self, at: int) -> None:
        self.left = at

    def write(self, fd: int, data: memoryview) -> int:
        if self.left == 0:
            super().write(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self.left -= 1
        return super().write(fd, data)


class Refusing:
    """Slurm whose reconfigure fails."""

    def __init__(self, slurm: object) -> None:
        self._slurm = slurm

    def __getattr__(self, name: str) -> object:
        return getattr(self._slurm, name)

    def reconfigure(self, timeout: float = 60) -> Answer:
        return Answer(1, "", "slurm_reconfigure error: Unspecified error")


class Life:
    """The cluster as it really is (`now`), and what the product can know of each instance's place (`known`)."""

    def __init__(self, room: Room) -> None:
        self.room, self.rng = room, random.Random()
        self.now: SimulatedCluster = START
        self.known: dict[str, Position] = {}
        self.numbers = itertools.count(100)
        self.told: list[str] = []
        self.room.registry.mkdir(parents=True)
        self.room.boot(self.now)
        self.settle()

    # --- events ---

    def grow(self) -> None:
        """Some nodes on a leaf that may be new, in a spine that may be new."""
        spine, leaf = self.rng.randrange(3), self.rng.randrange(4)
        label = Position(("nn-1a0", f"nn-sa{spine}", f"nn-la{spine}{leaf}x"))
        self.become(self.now.with_machines(self.joiner("worker-p5", label) for _ in range(self.rng.randrange(1, 4))))

    def grow_block(self) -> None:
        server = self.rng.randrange(4)
        label = Position(("nn-1u0", "nn-2u0", f"nn-3u{server}"), f"us-srv{server:04d}")
        self.become(self.now.with_machines([self.joiner("worker-gb", label)]))

    def join_late(self) -> None:
        """A node before its label."""
        self.become(self.now.with_machines([self.joiner(self.rng.choice(["worker-p5", "worker-gb"]), None)]))

    def shrink(self) -> None:
        candidates = [m.name for group in ("worker-p5", "worker-gb") for m in self.now.members(group)[1:]]
        if candidates:
            self.become(self.now.without(self.rng.sample(candidates, min(len(candidates), self.rng.randrange(1, 4)))))

    def replace(self) -> None:
        """A new instance under the old name, on the same leaf or another, or with no label yet."""
        victim, other = self.pick(), self.pick()
        label = self.rng.choice([victim.label, other.label if other.group == victim.group else victim.label, None])
        self.become(self.now.with_changed(victim.name, instance_id=self.fresh_id(), label=label))

    def label_arrives(self) -> None:
        for late in self.now.machines:
            if late.label is None and late.group in ("worker-p5", "worker-gb"):
                like = next((m.label for m in self.now.members(late.group) if m.label), None)
                self.become(self.now.with_changed(late.name, label=like))

    def label_changes(self) -> None:
        one, other = self.pick(), self.pick()
        if one.group == other.group and other.label is not None:
            self.become(self.now.with_changed(one.name, label=other.label))

    def labels_vanish(self) -> None:
        """No data is not "no nodes": everyone keeps the last known place."""
        self.become(replace(self.now, machines=tuple(replace(m, label=None) for m in self.now.machines)))

    def agent_rewrites(self) -> None:
        self.become(self.now)

    def agent_breaks(self) -> None:
        """What the 25.11 images were seen to do: an empty list, and words that name what is no longer there."""
        self.room.yaml.write_text("[]\n")

    def killed(self) -> None:
        self.grow()
        killed_at(self.room, self.rng.randrange(60))

    def disk_full(self) -> None:
        self.grow()
        self.fails(NoSpace(self.rng.randrange(12)))

    def reconfigure_fails(self) -> None:
        self.grow()
        self.fails(Operations(), refuse=True)

    def restarted(self) -> None:
        self.room.ctld.kill()
        self.room.ctld.start()

    # --- means ---

    def pick(self) -> Machine:
        return self.rng.choice([*self.now.members("worker-p5"), *self.now.members("worker-gb")])

    def fresh_id(self) -> str:
        return f"i-0{next(self.numbers):016x}"

    def joiner(self, group: str, label: Position | None) -> Machine:
        number = next(self.numbers)
        kind = next(g.instance_type for g in self.now.groups if g.name == group)
        return replace(
            machine(group, kind, number, f"10.9.{number // 200}.{1 + number % 200}", label), instance_id=self.fresh_id()
        )

    def become(self, simulated: SimulatedCluster) -> None:
        """The agent's files, without our words, and its reconfigure (which a broken pair on disk may refuse)."""
        self.now = simulated
        self.room.write(simulated)
        self.room.ctld.reconfigure()

    def fails(self, operations: Operations, refuse: bool = False) -> None:
        """One pass that goes wrong; whether it raises depends on where."""
        made = reconciler(self.room, operations, (lambda slurm: Refusing(slurm)) if refuse else (lambda slurm: slurm))  # type: ignore[arg-type, return-value]
        try:
            made.run(Wish())
        except PassError:
            assert self.room.ctld.alive()

    # --- checks ---

    def settle(self) -> None:
        """A pass, then a second that does nothing."""
        last = self.room.merge().state.last
        if last.result == "observed":  # an hour passes in seconds here, so six reverts come soon: the operator resumes
            assert "more than 6 times within an hour" in last.error
            ownership.resume(self.room.wiring().reconciler().doors)
            last = self.room.merge().state.last
        assert last.result in ("applied", "unchanged"), last
        again = self.room.merge()
        assert again.state.last.result == "unchanged", again.state.last
        self.check()

    def check(self) -> None:
        here = self.room
        assert here.ctld.alive()
        assert leftovers(here) == []
        for m in self.now.nodes:
            if m.label is not None:
                self.known[m.instance_id] = m.label
        loaded = here.in_force()
        assert {
            "words": loaded.words,
            "tree": units(loaded, "tree"),
            "block": units(loaded, "block"),
        } == self.expected()
        self.distances_are_right(loaded)
        here.ctld.restart()
        assert same(here.in_force(), loaded), "a restart agrees"

    def distances_are_right(self, loaded: Configuration) -> None:
        """Below the tree's switches lie the nodes of each network node, and every unplaced one alone; what else there
        is, or what is folded, joins or parts all of them."""
        found = loaded.topology("tree")
        if found is None:
            return
        assert isinstance(found.body, Tree)
        names = {m.name for m in self.now.members("worker-p5")}
        places = {m.name: self.known.get(m.instance_id) for m in self.now.members("worker-p5")}
        paths = {name: place.path for name, place in places.items() if place}
        network = {
            frozenset(name for name, other in paths.items() if other[:layers] == path[:layers])
            for path in paths.values()
            for layers in range(1, len(path) + 1)
        }
        unplaced = names - paths.keys()
        below = {frozenset(found.body.nodes_below(switch)) for switch in found.body.switches}
        wanted = network | {frozenset([name]) for name in unplaced}
        assert below ^ wanted <= {frozenset(names), frozenset(paths), frozenset(unplaced)}

    def expected(self) -> dict[str, object]:
        """Worked out from the facts alone: who shares a leaf or a block, and which words there are."""
        units: dict[str, set[frozenset[str]]] = {}
        words: dict[str, str | None] = {"dev": None, "cpu": None}
        for group, partition, kind in (("worker-p5", "train", "tree"), ("worker-gb", "gb", "block")):
            together: dict[object, set[str]] = {}
            places = {m.name: self.known.get(m.instance_id) for m in self.now.members(group)}
            for name, place in places.items():
                key: object = name if place is None else (place.path if kind == "tree" else place.ultraserver)
                together.setdefault(key, set()).add(name)
            made = any(place is not None for place in places.values())
            units[kind] = {frozenset(names) for names in together.values()} if made else set()
            words[partition] = kind if made else None
        return {"words": words, **units}

    def everyone_works(self) -> None:
        """Every node gets a real job by -w, and one together with another by -N2 -w where its topology allows two."""
        blocks = units(self.room.in_force(), "block")
        for group, partition in (("worker-p5", "train"), ("worker-gb", "gb"), ("worker-cpu", "cpu")):
            names = [m.name for m in self.now.members(group)]
            self.all_run(partition, [[name] for name in names])
            for unit in map(sorted, blocks if partition == "gb" and blocks else [names]):
                self.all_run(partition, [unit[at : at + 2] for at in range(0, len(unit) - 1, 2)], "-N2")
                if len(unit) % 2 and len(unit) > 1:
                    self.all_run(partition, [[unit[0], unit[-1]]], "-N2")

    def all_run(self, partition: str, wanted: list[list[str]], *more: str) -> None:
        """A job on each of these sets of nodes, all at once (with both of a pair named neither may be left out)."""
        ctld = self.room.ctld
        jobs = [ctld.submit("-p", partition, *more, "-w", ",".join(names)) for names in wanted]
        for names, job in zip(wanted, jobs, strict=True):
            assert sorted(ctld.wait_running(job)) == sorted(names)
        if jobs:
            ctld.cancel(*jobs)


def units(loaded: Configuration, topology: str) -> set[frozenset[str]]:
    """Who shares a leaf or a block."""
    found = loaded.topology(topology)
    if found is None:
        return set()
    assert not isinstance(found.body, Flat)
    parts = [s for s in found.body.switches if s.nodes] if isinstance(found.body, Tree) else found.body.blocks
    return {frozenset(part.nodes) for part in parts}


KINDS = [
    "grow", "grow_block", "join_late", "shrink", "replace", "label_arrives", "label_changes", "labels_vanish",
    "agent_rewrites", "agent_breaks", "killed", "disk_full", "reconfigure_fails", "restarted",
]  # fmt: skip
