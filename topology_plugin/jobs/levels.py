"""Levels of the network by the words of HyperPod's EKS side, and which nodes share a domain of one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from topology_plugin.core.issues import InputError, Issue
from topology_plugin.jobs.distance import Network

PREFIX = "topology.k8s.aws/"
LAYER = "network-node-layer-"
ULTRASERVER = "ultraserver-id"

_SHORT_LAYER = re.compile(r"(?:network-node-)?layer-?([1-9][0-9]?)")


@dataclass(frozen=True)
class Level:
    """`layer`: 1 is the network's top, None: the UltraServer; `leaf`: the last layer of each node's path."""

    name: str
    layer: int | None = None
    leaf: bool = False

    def domain(self, network: Network, node: str) -> str | None:
        """The domain of this level that the node is in; None: in none."""
        if self.layer is None and not self.leaf:
            return network.block(node)
        path = network.paths.get(node)
        if not path:
            return network.blocks.get(node) if self.leaf else None
        if self.leaf:
            return "/".join(path)
        layer = self.layer or 0
        return "/".join(path[:layer]) if layer <= len(path) else None

    def domains(self, network: Network) -> dict[str, tuple[str, ...]]:
        """Domain → its nodes of the partition, in Slurm's order. Unplaced nodes are in none."""
        found: dict[str, list[str]] = {}
        for node in network.nodes:
            domain = self.domain(network, node)
            if domain is not None:
                found.setdefault(domain, []).append(node)
        return {domain: tuple(nodes) for domain, nodes in found.items()}


def known(network: Network) -> tuple[Level, ...]:
    """The levels that the partition has, widest first."""
    lengths = {len(path) for path in network.paths.values()}
    found: list[Level] = []
    if lengths and network.layers_known:
        found += [Level(f"{PREFIX}{LAYER}{n}", n, lengths == {n}) for n in range(1, max(lengths) + 1)]
    if lengths and not any(level.leaf for level in found):
        found.append(Level("leaf", None, True))
    if network.blocks:
        found.append(Level(PREFIX + ULTRASERVER))
    return tuple(found)


def parse(word: str, network: Network, partition: str) -> Level:
    """The level a user means: the full word, without its prefix, `layer-2`, `leaf`, `ultraserver`.

    Raises InputError that names the levels the partition has.
    """
    levels = known(network)
    text = word.strip().lower().removeprefix(PREFIX)
    match = _SHORT_LAYER.fullmatch(text)
    for level in levels:
        if text == "leaf" and level.leaf:
            return level
        if text in ("ultraserver", ULTRASERVER, "block") and level.layer is None and not level.leaf:
            return level
        if match and level.layer == int(match[1]):
            return level
    has = ", ".join(shown(level) for level in levels) or "none: nothing is known of where its nodes lie"
    remedy = f"levels of partition {partition}: {has}"
    if match and not network.layers_known and network.paths:
        remedy += " (layers have numbers only where the state of the last pass can be read)"
    raise InputError(Issue("level", f"{word!r} is no level of partition {partition}", remedy))


def shown(level: Level) -> str:
    """The level with its short form."""
    if level.layer is None:
        return level.name if level.leaf else f"{level.name} (ultraserver)"
    return f"{level.name} ({'leaf, ' if level.leaf else ''}layer-{level.layer})"


def short(domain: str) -> str:
    """A domain by its own id, for people."""
    return domain.rsplit("/", 1)[-1]


def fewest(capacities: Sequence[int], size: int) -> int:
    """How many of the largest capacities add up to `size` (all of them if they never do)."""
    left, used = size, 0
    for capacity in sorted(capacities, reverse=True):
        if left <= 0:
            break
        left -= capacity
        used += 1
    return used
