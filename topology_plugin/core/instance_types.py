"""Which instance types have network data, as HyperPod's own manager sees them (docs). Evidence wins over this table."""

from __future__ import annotations

from typing import Literal

Capability = Literal["tree", "block"]

# Type or whole family ("g6e.*") → number of network layers DescribeInstanceTopology documents for it.
LAYERS: dict[str, int] = {
    "p4d.24xlarge": 3,
    "p4de.24xlarge": 3,
    "p5.48xlarge": 3,
    "p5e.48xlarge": 3,
    "p5en.48xlarge": 3,
    "trn1.32xlarge": 3,
    "trn1n.32xlarge": 3,
    "trn2.48xlarge": 3,
    "g6e.*": 3,
    "g7e.*": 3,
    "p6-b200.48xlarge": 4,
    "p6-b300.48xlarge": 4,
}

# Types that come in UltraServers: HyperPod gives a partition made of them only a block topology.
ULTRASERVER_TYPES = frozenset({"p6e-gb200.36xlarge"})


def bare(instance_type: str) -> str:
    """`p5.48xlarge` for `ml.p5.48xlarge`."""
    return instance_type.removeprefix("ml.")


def capability(instance_type: str | None) -> Capability | None:
    """What the table says of a type, with or without `ml.`; None: no network data, or not in the table."""
    if not instance_type:
        return None
    if bare(instance_type) in ULTRASERVER_TYPES:
        return "block"
    return "tree" if layers(instance_type) else None


def layers(instance_type: str) -> int | None:
    """Network layers of a tree-capable type; None where the table names none."""
    name = bare(instance_type)
    return LAYERS.get(name) or LAYERS.get(name.split(".", 1)[0] + ".*")
