"""Reading back on Slurm up to 24.11: `scontrol show topology` against the topology that topology.conf states."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from topology_plugin.core import hostlists
from topology_plugin.core.issues import InputError
from topology_plugin.core.topology import Blocks, Topology, Tree

_PAIR = re.compile(r"(\w+)=(\S*)")


def differences(topology: Topology, shown: str, expand: Callable[[str], list[str]] = hostlists.expand) -> list[str]:
    """How what slurmctld shows differs from `topology`, a sentence each. Flat shows nothing (run: 24.11.5)."""
    try:
        found = dict(_units(shown, expand))
    except InputError as error:
        return [str(error)]
    wanted: dict[str, tuple[set[str], set[str]]] = {}
    if isinstance(topology.body, Tree):
        wanted = {s.name: (set(s.nodes), set(s.children)) for s in topology.body.switches}
        # Of a switch above others slurmctld shows all the nodes below it: only its children are stated.
        found = {name: (set() if children else nodes, children) for name, (nodes, children) in found.items()}
    elif isinstance(topology.body, Blocks):
        wanted = {b.name: (set(b.nodes), set()) for b in topology.body.blocks}
    result = [f"{name} is not loaded" for name in wanted if name not in found]
    result += [f"{name} is loaded but not wanted" for name in found if name not in wanted]
    result += [
        f"{name} is loaded with other members" for name in wanted if name in found and wanted[name] != found[name]
    ]
    return sorted(result)


def _units(shown: str, expand: Callable[[str], list[str]]) -> Iterator[tuple[str, tuple[set[str], set[str]]]]:
    for line in shown.splitlines():
        pairs = {key.lower(): value for key, value in _PAIR.findall(line)}
        name = pairs.get("switchname") or pairs.get("blockname")
        if name:
            nodes, children = (set(expand(pairs.get(key, ""))) - {""} for key in ("nodes", "switches"))
            yield name, (nodes, children)
