"""What the simulator compares: one cluster under flat, under what a merge would put in force, under other blocks."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from topology_plugin.core.decision import Memory
from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.merge import merge
from topology_plugin.core.position import Position
from topology_plugin.core.settings import Settings, parse
from topology_plugin.core.topology import FLAT_ONLY, Configuration
from topology_plugin.jobs.distance import Network, of_positions
from topology_plugin.jobs.simulated_cluster import in_tree, in_ultraservers

PARTITION = "sim"


@dataclass(frozen=True)
class Place:
    """The cluster that is played on: node → its real position, whatever a policy tells Slurm of it."""

    name: str
    positions: dict[str, Position]
    instance_type: str

    @property
    def nodes(self) -> tuple[str, ...]:
        return tuple(self.positions)

    def network(self, configuration: Configuration) -> Network:
        return of_positions(self.nodes, self.positions, configuration.of_partition(PARTITION))

    def moved(self, node: str, position: Position) -> Place:
        return replace(self, positions={**self.positions, node: position})

    def inventory(self) -> Inventory:
        nodes = {
            name: Node(name, instance_id=f"i-{at:017x}", group="sim", instance_type=self.instance_type,
                       answers={"resource-config": position} if position else {})
            for at, (name, position) in enumerate(self.positions.items())
        }  # fmt: skip
        group = Group("sim", self.instance_type, "compute", (PARTITION,))
        return Inventory(nodes, {"sim": group}, {PARTITION: Partition(PARTITION, self.nodes)}, roles_known=True)


def place_of(text: str, seed: int) -> Place:
    """`p5:256`, `p5:256x16` (nodes a leaf) or `gb200:72`, `gb200:72x18` (nodes an UltraServer); names shuffled, as
    addresses say nothing of places. Raises InputError."""
    kind, _, shape = text.partition(":")
    count, _, each = shape.partition("x")
    try:
        nodes = int(count)
        size = int(each) if each else 18 if kind == "gb200" else 16
        if nodes < 1 or size < 1 or nodes > 62_500 or kind not in ("p5", "gb200"):
            raise ValueError
    except ValueError:
        remedy = "write p5:256x16 (256 nodes, 16 a leaf) or gb200:72x18 (18 an UltraServer)"
        raise InputError(Issue("cluster", f"{text!r} is no cluster", remedy)) from None
    if kind == "p5":
        machines = in_tree("sim", "ml.p5.48xlarge", nodes, per_leaf=size, leaves_per_spine=4, seed=seed)
    else:
        servers = [size] * (nodes // size) + ([nodes % size] if nodes % size else [])
        machines = in_ultraservers("sim", servers)
    names = [machine.name for machine in machines]
    if kind == "gb200":
        random.Random(seed).shuffle(names)  # noqa: S311 (a reproducible arrangement, not a secret)
    places = {name: machine.label or Position() for name, machine in zip(names, machines, strict=True)}
    # Slurm takes nodes in the order of slurm.conf where it knows nothing better: that of their names.
    ordered = sorted(places, key=lambda name: [int(part) for part in name.split("-")[1:]])
    return Place(text, {name: places[name] for name in ordered}, machines[0].instance_type)


@dataclass(frozen=True)
class Policy:
    """`settings` None: flat, whatever the network is like. `wait`: jobs in a tree wait so many seconds for the fewest
    leaves that can hold them (`--switches`), as the policy plugin makes them; None: they ask for nothing."""

    name: str
    settings: Settings | None
    wait: float | None = None

    def configuration(self, place: Place) -> Configuration:
        if self.settings is None:
            return FLAT_ONLY
        return merge(place.inventory(), self.settings, Memory()).configuration


def policy(name: str) -> Policy:
    """`flat`, `ours` (every setting at its default), `ours+MINUTES` (and jobs wait so long for few leaves) or `block-N`
    (`block_sizes` N; `block-9,18` for levels).

    Raises InputError.
    """
    if name == "flat":
        return Policy(name, None)
    if name == "ours":
        return Policy(name, Settings())
    try:
        if patient := re.fullmatch(r"ours\+([0-9]{1,6})", name):
            return Policy(name, Settings(), 60.0 * int(patient[1]))
        if not name.startswith("block-"):
            raise ValueError("write flat, ours, ours+MINUTES or block-SIZE")
        return Policy(name, Settings(block_sizes=parse("block_sizes", name.removeprefix("block-"))))
    except ValueError as error:
        raise InputError(Issue("policy", f"{name!r} is no policy", str(error))) from None


def policies(names: Iterable[str]) -> tuple[Policy, ...]:
    return tuple(policy(name) for name in names)
