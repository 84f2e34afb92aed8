"""A configuration kept as it is, but complete: what a pass may do during a hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from topology_plugin.core.hostlists import node_order
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.names import unplaced_name
from topology_plugin.core.topology import Block, Blocks, Configuration, Switch, Topology, Tree
from topology_plugin.core.tree import ROOT, UNPLACED, UNPLACED_ALL


def told(note: str) -> str:
    """A hold for people; `note`: since when and by what, if that is known."""
    return f"on hold{f' {note}' if note else ''}: passes only add joiners as unplaced, until `hyperpod-topology resume`"


def held(configuration: Configuration, inventory: Inventory, max_unplaced_leaves: int = 64) -> Configuration:
    """`configuration` with joiners added as unplaced and without the nodes that slurm.conf no longer lists."""
    words = {name: configuration.words.get(name) for name in inventory.partitions}
    kept = Configuration(configuration.topologies, words)
    wanted: dict[str, dict[str, None]] = {topology.name: {} for topology in configuration.topologies}
    for name, partition in inventory.partitions.items():
        serving = kept.of_partition(name)
        if serving is not None:
            wanted[serving.name].update(dict.fromkeys(partition.nodes))
    return Configuration(
        tuple(_with_members(t, list(wanted[t.name]), max_unplaced_leaves) for t in configuration.topologies), words
    )


def _with_members(topology: Topology, members: Iterable[str], most: int) -> Topology:
    body = topology.body
    present = set(body.nodes())
    members = set(members)
    joiners = sorted(members - present, key=node_order)
    if isinstance(body, Tree):
        if members.isdisjoint(present) or not body.roots():
            return topology  # nothing of it would be left, or it is a loop: validation judges that
        return replace(topology, body=_tree(body, members, joiners, most))
    if isinstance(body, Blocks):
        blocks = [replace(b, nodes=tuple(n for n in b.nodes if n in members)) for b in body.blocks]
        group = body.sizes[-1] // body.sizes[0]
        if group == 1:
            blocks = [b for b in blocks if b.nodes]
        padding = sum(b.name.startswith("pad-") for b in blocks)
        for joiner in joiners:
            blocks.append(Block(unplaced_name(joiner), (joiner,)))
            while len(blocks) % group:
                padding += 1
                blocks.append(Block(f"pad-{padding}"))
        return replace(topology, body=replace(body, blocks=tuple(blocks)))
    return topology


def _tree(tree: Tree, members: set[str], joiners: list[str], most: int) -> Tree:
    switches = {s.name: replace(s, nodes=tuple(n for n in s.nodes if n in members)) for s in tree.switches}
    if joiners:
        switches = _joined(switches, joiners, tree.roots(), most)
    alive = {name for name, switch in switches.items() if switch.nodes}
    while above := {n for n, switch in switches.items() if n not in alive and not alive.isdisjoint(switch.children)}:
        alive |= above
    left = (switch for name, switch in switches.items() if name in alive)
    return Tree(tuple(replace(switch, children=tuple(c for c in switch.children if c in alive)) for switch in left))


def _joined(switches: dict[str, Switch], joiners: list[str], roots: Sequence[Switch], most: int) -> dict[str, Switch]:
    """Joiners below `unplaced`, as deep as every other leaf. A root of a single level takes their leaves itself, what
    is leaf and root at once gets a root above it."""
    here = switches.get(UNPLACED)
    before = {n for name in (here.children if here else ()) for n in switches[name].nodes}
    nodes = sorted({*before, *joiners}, key=node_order)
    leaves = [Switch(unplaced_name(node), (node,)) for node in nodes]
    if len(nodes) > most:
        leaves = [Switch(UNPLACED_ALL, tuple(nodes))]
    for name in here.children if here else ():
        switches.pop(name)
    names = tuple(leaf.name for leaf in leaves)
    added = {leaf.name: leaf for leaf in leaves}
    if here is not None:
        return {**added, **switches, UNPLACED: replace(here, children=names)}
    root = next((switch for switch in roots if switch.name == ROOT), roots[-1])
    if not root.children:
        above = f"{root.name}-l1"
        return {**added, **switches, above: Switch(above, children=(root.name, *names))}
    depth, child = 0, root
    while child.children and depth < len(switches):  # a loop must not be walked for ever
        depth, child = depth + 1, switches.get(child.children[0], child)
    if depth >= 2:
        top = UNPLACED
        added[top] = Switch(UNPLACED, children=names)
        for level in range(1, depth - 1):
            added[f"{UNPLACED}-l{level}"] = Switch(f"{UNPLACED}-l{level}", children=(top,))
            top = f"{UNPLACED}-l{level}"
        names = (top,)
    return {**added, **switches, root.name: replace(root, children=tuple(sorted((*root.children, *names))))}
