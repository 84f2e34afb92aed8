"""Rank order: near nodes next to each other, so that neighbouring ranks talk over few switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Literal, TypeAlias

from topology_plugin.core.hostlists import node_order
from topology_plugin.core.topology import Configuration
from topology_plugin.jobs.distance import Network

Form: TypeAlias = Literal["slurm", "openmpi", "mpich", "nodes"]
FORMS: tuple[Form, ...] = ("slurm", "openmpi", "mpich", "nodes")


def order(nodes: Sequence[str], network: Network) -> tuple[str, ...]:
    """The nodes with those of an UltraServer, a leaf, a spine together; the fullest first in each, so that large groups
    of ranks meet the fewest borders; unplaced ones last. Equal sets give equal orders."""
    prefixes: Counter[tuple[str, ...]] = Counter()
    for node in nodes:
        path = network.paths.get(node, ())
        prefixes.update(path[: depth + 1] for depth in range(len(path)))
    blocks = Counter(network.blocks.get(node) for node in nodes)

    members: dict[str, list[tuple[str, ...]]] = {}
    for node in nodes:
        if node in network.blocks:
            members.setdefault(network.blocks[node], []).append(network.paths.get(node, ()))
    # An UltraServer may have nodes under several leaves: it stays together where most of it lies.
    homes = {block: max(sorted(set(paths)), key=paths.count) for block, paths in members.items()}

    def key(node: str) -> tuple[object, ...]:
        own = network.paths.get(node, ())
        block = network.blocks.get(node)
        path = own if block is None else homes[block]
        steps = [(-prefixes[path[: depth + 1]], path[depth]) for depth in range(len(path))]
        return (not network.placed(node), steps, -blocks[block], block or "", own, node_order(node))

    return tuple(sorted(dict.fromkeys(nodes), key=key))


def borders(nodes: Sequence[str], network: Network) -> float:
    """Mean switches between neighbours in this order (a ring of ranks, without the last step back to the first)."""
    steps = [network.hops(a, b) for a, b in pairwise(nodes)]
    return sum(steps) / len(steps) if steps else 0.0


def hostfile(nodes: Sequence[str], form: Form, tasks: int) -> str:
    """`slurm`: a line for each task, as SLURM_HOSTFILE wants it; `openmpi`: `node slots=N`; `mpich`: `node:N`; `nodes`:
    a line for each node (torchrun, pdsh, parallel). `tasks`: of each node."""
    if form == "openmpi":
        lines = [f"{node} slots={tasks}" for node in nodes]
    elif form == "mpich":
        lines = [f"{node}:{tasks}" for node in nodes]
    else:
        lines = [node for node in nodes for _ in range(tasks if form == "slurm" else 1)]
    return "".join(line + "\n" for line in lines)


def notes(
    form: Form, tasks: int, count: int, configuration: Configuration | None, topology_param: str
) -> tuple[str, ...]:
    """How to use the file, where Slurm makes it needless, and where it refuses it (run: 26.05.5, real slurmds)."""
    found: list[str] = []
    params = {word.strip().lower() for word in topology_param.split(",")}
    rank = {"tree": "switchasnoderank", "block": "blockasnoderank"}
    default = configuration.default.kind if configuration else None
    if default and rank.get(default) in params:
        found.append(
            f"TopologyParam has {'Switch' if default == 'tree' else 'Block'}AsNodeRank and {default} is the cluster's "
            "default: Slurm orders tasks like this by itself"
        )
    else:
        found.append(
            "Slurm orders tasks by its node table, not by the topology, unless TopologyParam has SwitchAsNodeRank "
            "(BlockAsNodeRank) and a tree (blocks) is the cluster's default; the table then changes with every topology"
        )
    if form == "slurm":
        found.append(f"inside the job: export SLURM_HOSTFILE=FILE; srun -n{tasks * count} --distribution=arbitrary …")
        found.append("srun refuses it together with -N, with fewer lines than tasks, and with nodes outside the job")
    elif form == "openmpi":
        found.append(
            "inside the job: mpirun --hostfile FILE …; under Slurm the file filters the job's nodes, and whether their "
            "order counts depends on the MPI: look with `mpirun --hostfile FILE hostname`"
        )
    elif form == "mpich":
        found.append("inside the job: mpiexec -f FILE …")
    else:
        found.append("give node i the rank i: torchrun --node-rank, or NODE_RANK from the line's number less one")
    return tuple(found)
