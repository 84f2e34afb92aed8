"""Where an instance lies in the network, as one source tells it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # `register` must start fast
    from topology_plugin.core.topology import Kind


@dataclass(frozen=True, order=True)
class Position:
    """`path`: network node ids from the top to the leaf (may be empty); `ultraserver`: its id or None.

    Ids are opaque and only comparable within one id space (see `SPACES`).
    """

    path: tuple[str, ...] = ()
    ultraserver: str | None = None

    def __bool__(self) -> bool:
        return bool(self.path or self.ultraserver)

    def serves(self, kind: Kind) -> bool:
        """Whether a topology of that kind can be made of it: trees of network paths, blocks of UltraServers."""
        return bool(self.path if kind == "tree" else self.ultraserver)


SOURCES = ("resource-config", "records", "sagemaker", "ec2")
KUBERNETES = "kubernetes"  # not among the sources of a Slurm cluster: only to be looked at

# `resource-config` and `records` repeat the same labels, so their ids may be mixed; the others' may not.
SPACES = {
    "resource-config": "labels",
    "records": "labels",
    "sagemaker": "sagemaker",
    "ec2": "ec2",
    KUBERNETES: "labels",
}

# Before an id space's name: a source that stands for what was heard in it before.
LAST_KNOWN = "last-known:"


def space_of(source: str) -> str:
    """The id space of a source's ids."""
    return SPACES.get(source) or source.removeprefix(LAST_KNOWN)
