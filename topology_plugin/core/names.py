"""Names of switches and blocks: the network's own ids where Slurm can take them, else a hash of them."""

from __future__ import annotations

import hashlib
import re

# Scalars that Slurm's YAML reader converts even when quoted, up to 25.11 (src; rule `name-converted`).
CONVERTED = {"nan", "inf", "infinity", "null", "true", "false", "yes", "no", "on", "off", "y", "n", "t", "f"}
_SAFE = re.compile(r"[a-z][a-z0-9_-]{0,62}")
_LONG_TAIL = re.compile(r"[0-9]{16,}$")

# Names that we give ourselves: an id of the network's that looks like one is hashed, so that it can never be mistaken.
_OURS = re.compile(r"root(-.*)?|unplaced(-.*)?|pad-[0-9]+|(sw|us)-[0-9a-f]{10}|.*-l[0-9]+")


def is_safe(name: str) -> bool:
    """True if Slurm takes the name as it is, in every version and through its hostlist parser."""
    plain = _SAFE.fullmatch(name) and not _LONG_TAIL.search(name)
    return bool(plain) and name not in CONVERTED and name != "default"


def digest(text: str) -> str:
    """10 hex digits of the text's sha256: the same on every machine and in every run."""
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def switch_name(network_id: str) -> str:
    return network_id if is_safe(network_id) and not _OURS.fullmatch(network_id) else f"sw-{digest(network_id)}"


def block_name(ultraserver_id: str) -> str:
    safe = is_safe(ultraserver_id) and not _OURS.fullmatch(ultraserver_id)
    return ultraserver_id if safe else f"us-{digest(ultraserver_id)}"


def unplaced_name(node: str) -> str:
    """`unplaced-<node>`, hashed where that is no safe name or one with another meaning."""
    name = f"unplaced-{node}"
    plain = is_safe(name) and node != "all" and not re.fullmatch(r"l[0-9]+|.*-l[0-9]+", node)
    return name if plain else f"unplaced-{digest(node)}"


def is_unplaced(name: str) -> bool:
    """Whether it names a switch or block of nodes without a position: only we name one so."""
    return name == "unplaced" or name.startswith("unplaced-")


def partition_topology_name(kind: str, partition: str) -> str:
    """Name of the topology of a partition with options of its own."""
    name = f"{kind}-{partition}"
    return name if is_safe(name) else f"{kind}-{digest(partition)}"
