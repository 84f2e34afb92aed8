"""topology.conf, all that Slurm up to 24.11 knows: one kind for the whole cluster, chosen by `TopologyPlugin`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from topology_plugin.core import hostlists
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.topology import Block, Blocks, Body, Flat, Switch, Topology, Tree
from topology_plugin.core.topology_yaml import HEADER

# What Slurm 24.11 calls them; `topology/flat` is another name that older releases don't know (BR-16), so never used.
PLUGINS = {"tree": "topology/tree", "block": "topology/block", "flat": "topology/default"}

_PAIR = re.compile(r"([A-Za-z]+)[ \t]*=[ \t]*(\"[^\"]*\"|[^\s\"]*)")
_KEYS = {"switchname", "nodes", "switches", "linkspeed", "blockname", "blocksizes"}


def render(topology: Topology) -> str:
    """The text of topology.conf. Flat has none: raises InputError (an empty file under tree or block makes slurmctld
    refuse every job: run, BR-15)."""
    body = topology.body
    lines = [HEADER]
    if isinstance(body, Tree) and body.switches:
        for switch in body.switches:
            what = f"Switches={','.join(switch.children)}" if switch.children else f"Nodes={_nodes(switch.nodes)}"
            lines.append(f"SwitchName={switch.name} {what}\n")
    elif isinstance(body, Blocks) and body.blocks:
        lines.extend(f"BlockName={block.name} Nodes={_nodes(block.nodes)}\n" for block in body.blocks)
        lines.append(f"BlockSizes={','.join(map(str, body.sizes))}\n")
    else:
        what = "a flat topology has no topology.conf" if isinstance(body, Flat) else "has no switches or blocks"
        raise InputError(Issue(f"topology {topology.name}", what, "set TopologyPlugin=topology/default instead"))
    return "".join(lines)


def _nodes(nodes: tuple[str, ...]) -> str:
    return hostlists.fold(nodes)


def of_cluster(text: str) -> Topology:
    """As parse(), by the name that the topology of its kind has everywhere: Slurm itself gives it none."""
    found = parse(text)
    return replace(found, name=found.kind)


def parse(
    text: str,
    expand: Callable[[str], list[str]] = hostlists.expand,
    where: str = "topology.conf",
    name: str = "default",
) -> Topology:
    """The topology in `text`, tree or block by what its lines say; Flat for a text without any line.

    Raises InputError with every line that Slurm would not take.
    """
    issues: list[Issue] = []
    switches: list[Switch] = []
    blocks: list[Block] = []
    sizes: tuple[int, ...] = ()
    for place, line in _logical_lines(text, where):
        pairs = {key.lower(): value.strip('"') for key, value in _PAIR.findall(line)}
        rest = _PAIR.sub("", line).strip()
        unknown = sorted(pairs.keys() - _KEYS)
        if rest or unknown:
            issues.append(Issue(place, f"not understood: {rest or ', '.join(unknown)}", "see topology.conf(5)"))
            continue
        try:
            nodes = tuple(expand(pairs.get("nodes", "")))
            if "switchname" in pairs:
                children = tuple(expand(pairs.get("switches", "")))
                switches.extend(Switch(n, nodes, () if nodes else children) for n in expand(pairs["switchname"]))
            elif "blockname" in pairs:
                blocks.extend(Block(n, nodes) for n in expand(pairs["blockname"]))
            elif "blocksizes" in pairs:
                sizes = tuple(int(size) for size in pairs["blocksizes"].split(","))
        except InputError as error:
            issues.extend(Issue(place, issue.what, issue.remedy) for issue in error.issues)
        except ValueError:
            issues.append(Issue(place, f"BlockSizes={pairs['blocksizes']} are not whole numbers", "base size first"))
    if switches and blocks:
        issues.append(Issue(where, "has switches and blocks", "keep one kind"))
    if issues:
        raise InputError(issues)
    return Topology(name, _body(switches, blocks, sizes), default=True)


def _body(switches: list[Switch], blocks: list[Block], sizes: tuple[int, ...]) -> Body:
    if switches:
        return Tree(tuple(switches))
    if blocks:
        return Blocks(sizes or (len(blocks[0].nodes),), tuple(blocks))
    return Flat()


def _logical_lines(text: str, where: str) -> list[tuple[str, str]]:
    """(position, line) without comments, a backslash at the end of a line joins the next."""
    lines: list[tuple[str, str]] = []
    joined = ""
    for number, line in enumerate(text.lstrip("\ufeff").splitlines(), 1):
        line = re.sub(r"(?<!\\)#.*", "", line).rstrip()
        if line.endswith("\\"):
            joined += line[:-1] + " "
            continue
        line = (joined + line).strip()
        joined = ""
        if line:
            lines.append((f"{where}:{number}", line))
    if joined.strip():
        lines.append((where, joined.strip()))
    return lines
