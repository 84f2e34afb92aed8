"""What to pass to sbatch for a job of N nodes, whether it can start now, and what it costs in switches."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from topology_plugin.core import job_sizes
from topology_plugin.core.live import Live
from topology_plugin.core.topology import Blocks, Kind, Topology, Tree
from topology_plugin.jobs.distance import Network, Spread
from topology_plugin.jobs.levels import fewest
from topology_plugin.jobs.room import idle_nodes
from topology_plugin.jobs.segments import divisors, fits


@dataclass(frozen=True)
class Option:
    """One thing to pass to sbatch. `now`: can start now with it (None: Slurm gave no answer). `why`: what it is for."""

    option: str
    why: str
    now: bool | None = None


@dataclass(frozen=True)
class Advice:
    """`options`: best first. `refused`: Slurm refuses this size here although the partition has the nodes;
    `next_size`: the next one that it takes. `now`: a plain job of this size can start now. `best`: the nearest that
    the partition can ever offer; `likely`: about what a job gets that starts now (None: it can't, or unknown).
    """

    partition: str
    size: int
    kind: Kind
    options: tuple[Option, ...]
    refused: bool = False
    next_size: int | None = None
    refused_sizes: str = ""
    now: bool | None = None
    best: Spread | None = None
    likely: Spread | None = None
    notes: tuple[str, ...] = field(default=())

    def to_json(self) -> dict[str, Any]:
        """Stable keys, documented in docs/placement.md."""
        shown = {
            key: None if spread is None else {"mean_hops": round(spread.mean_hops, 3), "worst_hops": spread.worst_hops,
                                              "one_leaf_share": round(spread.one_leaf, 4)}
            for key, spread in (("best", self.best), ("likely", self.likely))
        }  # fmt: skip
        return {
            "partition": self.partition,
            "nodes": self.size,
            "kind": self.kind,
            "options": [vars(option) for option in self.options],
            "refused": self.refused,
            "next_size": self.next_size,
            "refused_sizes": self.refused_sizes,
            "startable_now": self.now,
            **shown,
            "notes": list(self.notes),
        }


def advise(
    partition: str,
    size: int,
    network: Network,
    topology: Topology | None,
    live: Live | None,
    max_wait: int,
    topo_optional: bool = False,
) -> Advice:
    """`max_wait`: the cluster's max_switch_wait in seconds. `topo_optional`: its TopologyParam holds TopoOptional."""
    kind: Kind = topology.kind if topology is not None else "flat"
    total = len(network.nodes)
    ranges = job_sizes.refused(topology, network.nodes, topo_optional) if topology is not None else ()
    refused = size > total or not job_sizes.accepts(ranges, size)
    idle = idle_nodes(network, live) if live is not None else None
    now = None if idle is None else not refused and _starts(topology, idle, size, topo_optional)
    notes: list[str] = []
    if size > total:
        notes.append(f"the partition has {total} nodes")
    if idle is not None and not now and not refused:
        notes.append(f"{len(idle)} of {total} nodes are idle: it would wait")
    options: tuple[Option, ...] = ()
    if size > 1 and size <= total:
        if isinstance(topology.body if topology else None, Tree):
            options = _tree_options(size, network, idle, max_wait)
        elif topology is not None and isinstance(topology.body, Blocks):
            options = _block_options(size, network, topology.body, idle, refused)
        else:
            notes.append("the partition is flat for Slurm: no option brings nodes nearer, only -w or -x by hand")
    best = network.spread(_nearest(network.nodes, network, size)) if size <= total else None
    likely = None
    if now and idle is not None:
        likely = network.spread(_nearest(idle, network, size) if kind != "flat" else _in_runs(idle, live, size))
    unplaced = len(network.unplaced)
    if unplaced and kind != "flat":
        have = "node of the partition has" if unplaced == 1 else "nodes of the partition have"
        notes.append(f"{unplaced} {have} no known place: far from everything")
    return Advice(
        partition, size, kind, options, refused, job_sizes.next_accepted(ranges, size, total) if refused else None,
        job_sizes.told(ranges), now, best, likely, tuple(notes),
    )  # fmt: skip


def _starts(topology: Topology | None, idle: Sequence[str], size: int, optional: bool = False) -> bool:
    """Slurm's rules on the idle nodes alone: what it refuses of them it would not start on them."""
    if size > len(idle):
        return False
    return topology is None or job_sizes.accepts(job_sizes.refused(topology, idle, optional), size)


def _tree_options(size: int, network: Network, idle: Sequence[str] | None, max_wait: int) -> tuple[Option, ...]:
    least = fewest(network.leaf_sizes, size)
    now = None
    if idle is not None:
        free = Counter(network.leaf(node) for node in idle)
        now = sum(free.values()) >= size and fewest(list(free.values()), size) <= least
    wait = f"{max_wait // 60:02d}:{max_wait % 60:02d}"
    leaves = "one leaf" if least == 1 else f"{least} leaves, the fewest for {size} nodes"
    return (Option(f"--switches={least}@{wait}", f"waits up to {wait} for {leaves}, then takes more", now),)


def _block_options(
    size: int, network: Network, body: Blocks, idle: Sequence[str] | None, refused: bool
) -> tuple[Option, ...]:
    ours = set(network.nodes)
    counts = [len(ours.intersection(block.nodes)) for block in body.blocks]
    free = None if idle is None else [len(set(idle).intersection(block.nodes)) for block in body.blocks]
    base = body.sizes[0]
    found: list[Option] = []
    for segment in divisors(size, min(base, size)):
        if not fits(counts, size, segment):
            continue
        pieces = size // segment
        if segment == size:
            why = "one UltraServer, as Slurm does for this size anyway" if size <= base else "one UltraServer"
        elif segment == 1:
            why = "any nodes, as near as there are; the only one that works here" if not found else "any nodes"
        else:
            why = f"{pieces} segments, each inside one UltraServer"
        found.append(Option(f"--segment={segment}", why, None if free is None else fits(free, size, segment)))
    kept = _useful(found)
    if not refused:
        alone = "nobody else gets nodes of its UltraServers; their idle ones are lost to others"
        whole = None if idle is None else _empty_blocks(body, ours, set(idle), size, base)
        kept.append(Option("--exclusive=topo", alone, whole))
    return tuple(kept)


def _useful(options: list[Option]) -> list[Option]:
    """The widest segment that works, the widest that can start now, and the smallest."""
    if not options:
        return []
    startable = next((option for option in options if option.now), None)
    wanted = [options[0], startable, options[-1]]
    return [option for i, option in enumerate(wanted) if option is not None and option not in wanted[:i]]


def _empty_blocks(body: Blocks, ours: set[str], idle: set[str], size: int, base: int) -> bool:
    """Whether blocks in which nothing runs hold the job."""
    empty = [len(nodes) for block in body.blocks if (nodes := ours.intersection(block.nodes)) and nodes <= idle]
    return sum(sorted(empty, reverse=True)[: -(-size // base)]) >= size


def _nearest(nodes: Sequence[str], network: Network, size: int) -> tuple[str, ...]:
    """About the nearest `size` of `nodes`: the smallest domain that holds them, its fullest parts first."""
    pool = [node for node in nodes if network.placed(node)]
    if len(pool) < size:
        pool = list(nodes)
    while True:
        parts = _parts(pool, network)
        holding = [part for part in parts if len(part) >= size]
        if not holding or len(parts) == 1:
            break
        pool = min(holding, key=len)
    chosen: list[str] = []
    for part in sorted(_parts(pool, network), key=len, reverse=True):
        chosen.extend(part)
    return tuple(chosen[:size])


def _in_runs(idle: Sequence[str], live: Live | None, size: int) -> tuple[str, ...]:
    """What Slurm takes where it knows no structure: of the runs of neighbours in its node table the shortest that
    holds what is still missing, else the longest (run: equal for nodes of one kind; `live.states` has its order)."""
    free = set(idle)
    table = live.states if live is not None else idle
    runs = [tuple(group) for inside, group in groupby(table, free.__contains__) if inside]
    chosen: list[str] = []
    while runs and len(chosen) < size:
        missing = size - len(chosen)
        best = min(runs, key=lambda run: (len(run) < missing, len(run) if len(run) >= missing else -len(run)))
        runs.remove(best)
        chosen.extend(best[:missing])
    return tuple(chosen)


def _parts(pool: Sequence[str], network: Network) -> list[list[str]]:
    """The pool split at the first layer that tells its nodes apart, else by UltraServer."""
    depth = max((len(network.paths.get(node, ())) for node in pool), default=0)
    for layer in range(1, depth + 1):
        groups: dict[object, list[str]] = {}
        for node in pool:
            groups.setdefault(network.paths.get(node, (f"?{node}",))[:layer], []).append(node)
        if len(groups) > 1:
            return list(groups.values())
    blocks: dict[object, list[str]] = {}
    for node in pool:
        blocks.setdefault(network.block(node) or (None if depth else f"?{node}"), []).append(node)
    return list(blocks.values())
