"""Required and preferred levels, in the words that sbatch has for them.

Slurm itself can only prefer few leaves for a while (`--switches`, in a tree) or give a small job one block. What it
cannot say is made of what it can: a job that must stay in one domain excludes every node outside the one that fits
best. That choice is made once, at submission; `again` makes it anew for a job that still waits.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from topology_plugin.core import job_sizes
from topology_plugin.core.hostlists import expand, fold
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.job_explanation import REQUIRED
from topology_plugin.core.live import FREE, OUT, Live
from topology_plugin.core.topology import Blocks, Topology
from topology_plugin.jobs.distance import Network
from topology_plugin.jobs.levels import Level, fewest, short, shown
from topology_plugin.jobs.segments import widest

# Slurm's max_switch_wait where SchedulerParameters doesn't set it (slurm.conf(5)).
MAX_SWITCH_WAIT = 300
# Linux passes no longer argument (MAX_ARG_STRLEN).
_LONGEST_ARGUMENT = 131_071


@dataclass(frozen=True)
class Wish:
    """What a job asks for: `least` to `most` nodes, named (`-w`), excluded (`-x`); `segment`: it has a --segment."""

    least: int
    most: int
    named: tuple[str, ...] = ()
    excluded: tuple[str, ...] = ()
    segment: bool = False


@dataclass(frozen=True)
class Plan:
    """`options` for sbatch; `excluded`: every node that the job excludes now; `domain`: fixed until chosen again (None:
    Slurm picks one); `notes`: what the user should know."""

    options: tuple[str, ...]
    notes: tuple[str, ...]
    domain: str | None = None
    excluded: tuple[str, ...] = ()


def required(
    level: Level, wish: Wish, network: Network, topology: Topology | None, live: Live | None, partition: str
) -> Plan:
    """One domain of the level, or the job waits. Raises InputError if no domain can ever hold it."""
    if _slurm_keeps_it_together(level, wish, network, topology) and _holds(level, wish, network):
        base = topology.body.sizes[0] if topology is not None and isinstance(topology.body, Blocks) else 0
        return Plan((), (f"Slurm gives a job of up to {base} nodes one UltraServer here, whichever has room first",))
    domain, inside, notes = _best(level, wish, network, topology, live, partition)
    allowed = set(inside) - set(wish.excluded)
    outside = [node for node in network.nodes if node not in allowed]
    excluded = tuple(dict.fromkeys([*outside, *wish.excluded]))
    if not outside:
        return Plan((), (f"the whole partition {partition} is one domain of {shown(level)}",), domain, excluded)
    listed = fold(excluded)
    if len(listed) > _LONGEST_ARGUMENT - len("--exclude="):
        raise InputError(
            Issue("submit", f"the list of {len(excluded)} nodes to exclude is too long for a command line",
                  "choose a wider level or a smaller partition")
        )  # fmt: skip
    fixed = (
        f"the domain is fixed now: {short(domain)} ({len(inside)} nodes of {partition}); it waits for that one, also "
        "when another gets room: `submit --again JOB` chooses anew"
    )
    return Plan((f"--exclude={listed}",), (*notes, fixed), domain, excluded)


def preferred(
    level: Level,
    wish: Wish,
    network: Network,
    topology: Topology | None,
    live: Live | None,
    wait: int,
    max_wait: int = MAX_SWITCH_WAIT,
) -> Plan:
    """The level if it can be had within `wait` seconds, then wider; never pending for its sake for longer.

    `max_wait`: the cluster's max_switch_wait, which caps it.
    """
    kind = topology.kind if topology is not None else "flat"
    if wish.least < 2:
        return Plan((), ("one node is always near to itself",))
    if kind == "tree":
        return _few_leaves(level, wish, network, live, wait, max_wait)
    if kind == "block" and level.layer is None and not level.leaf and isinstance(topology.body, Blocks):  # type: ignore[union-attr]
        return _segmented(wish, network, topology.body)  # type: ignore[union-attr]
    why = (
        "blocks know UltraServers only; they stand in the network's order, so that neighbours are near"
        if kind == "block"
        else "the partition is flat for Slurm"
    )
    return Plan((), (f"Slurm has no word for {shown(level)} here ({why}): submitted as it is",))


def _few_leaves(level: Level, wish: Wish, network: Network, live: Live | None, wait: int, max_wait: int) -> Plan:
    size = wish.least
    left_out = set(wish.excluded)
    usable = [node for node in network.nodes if node not in left_out]
    leaves = Counter(network.leaf(node) for node in usable)
    least = fewest(list(leaves.values()), size)
    domains = [
        Counter(network.leaf(node) for node in nodes if node not in left_out)
        for nodes in level.domains(network).values()
    ]
    holding = [domain for domain in domains if sum(domain.values()) >= size]
    notes = []
    if not holding:
        largest = max((sum(domain.values()) for domain in domains), default=0)
        notes.append(
            f"no domain of {shown(level)} holds {size} nodes (the largest has {largest}): fewest leaves instead"
        )
        count = least
    else:
        count = least if level.leaf else max(len(domain) for domain in holding)
        now = _leaves_now(usable, network, live, size)
        if now is not None and not _room_now(holding, network, live, size, level):
            # Slurm counts leaves, not spines: ask for fewer than it could have right now over several domains.
            fits = min(fewest(list(domain.values()), size) for domain in holding)
            if now <= fits:
                notes.append(f"Slurm counts leaves, not wider domains: it may take {now} leaves of several right away")
            count = min(count, max(fits, now - 1))
    seconds = min(wait, max_wait)
    if wait > max_wait:
        notes.append(f"this cluster waits at most {max_wait} s for switches (SchedulerParameters=max_switch_wait)")
    few = "1 leaf" if count == 1 else f"{count} leaves"
    notes.append(f"at most {few} within {seconds} s, then as many as it takes")
    return Plan((f"--switches={count}@{_clock(seconds)}",), tuple(notes))


def _leaves_now(usable: Sequence[str], network: Network, live: Live | None, size: int) -> int | None:
    """The fewest leaves that idle nodes offer right now, anywhere; None: not so many are idle, or unknown."""
    if live is None:
        return None
    idle = Counter(network.leaf(node) for node in usable if live.states.get(node) in FREE)
    return fewest(list(idle.values()), size) if sum(idle.values()) >= size else None


def _room_now(holding: Sequence[Counter[str]], network: Network, live: Live | None, size: int, level: Level) -> bool:
    if live is None:
        return False
    idle = Counter(
        domain
        for node in network.nodes
        if live.states.get(node) in FREE and (domain := level.domain(network, node)) is not None
    )
    return bool(holding) and max(idle.values(), default=0) >= size


def _segmented(wish: Wish, network: Network, body: Blocks) -> Plan:
    known = set(network.nodes) - set(wish.excluded)
    counts = [len(known.intersection(block.nodes)) for block in body.blocks]
    if wish.segment:
        return Plan((), ("the line has a --segment of its own: submitted as it is",))
    if wish.least != wish.most:
        return Plan((), ("segments need one size, not a range of nodes: submitted as it is",))
    limit = min(body.sizes[0], wish.least - 1) if wish.least <= body.sizes[0] else body.sizes[0]
    segment = widest(counts, wish.least, limit)
    if segment is None:
        return Plan((), (f"no segment of {wish.least} nodes fits these UltraServers: submitted as it is",))
    pieces = wish.least // segment
    return Plan(
        (f"--segment={segment}",),
        (f"{pieces} segments of {segment}: in one UltraServer where one has room, else each in one",),
    )


def _slurm_keeps_it_together(level: Level, wish: Wish, network: Network, topology: Topology | None) -> bool:
    """A job never takes more blocks than full ones would need (docs/safety-rules.md), so up to the base size it takes
    one."""
    if level.layer is not None or level.leaf or topology is None or not isinstance(topology.body, Blocks):
        return False
    if wish.segment or wish.named or wish.most > topology.body.sizes[0]:
        return False
    ours = set(network.nodes)
    if not ours <= set(topology.body.nodes()):
        return False  # on nodes in no block Slurm runs jobs without any block constraint (run)
    return all(
        len({network.block(node) for node in block.nodes if node in ours}) <= 1 for block in topology.body.blocks
    )


def _holds(level: Level, wish: Wish, network: Network) -> bool:
    """Whether some domain has as many nodes of this partition: an UltraServer may belong to several."""
    left_out = set(wish.excluded)
    return any(len(set(nodes) - left_out) >= wish.least for nodes in level.domains(network).values())


def _best(
    level: Level, wish: Wish, network: Network, topology: Topology | None, live: Live | None, partition: str
) -> tuple[str, tuple[str, ...], list[str]]:
    """The domain that fits best: with room now the fullest of those, else the one that has most idle nodes."""
    left_out = set(wish.excluded)
    domains = {
        name: tuple(node for node in nodes if node not in left_out) for name, nodes in level.domains(network).items()
    }
    if wish.named:
        holding = {name: nodes for name, nodes in domains.items() if set(wish.named) <= set(nodes)}
        if not holding:
            raise InputError(
                Issue("sbatch -w", f"the named nodes are not in one domain of {shown(level)}", "name others, or none")
            )
        domains = holding
    fitting = {name: nodes for name, nodes in domains.items() if _can_hold(nodes, wish.least, topology)}
    if not fitting:
        largest = max((len(nodes) for nodes in domains.values()), default=0)
        raise InputError(
            Issue(
                "submit",
                f"no domain of {shown(level)} in partition {partition} can hold {wish.least} nodes (most: {largest})",
                "ask for fewer nodes or a wider level",
            )
        )
    states: Mapping[str, str] = live.states if live is not None else {}

    def count(nodes: Sequence[str], wanted: frozenset[str]) -> int:
        return sum(1 for node in nodes if states.get(node) in wanted)

    ranked = sorted(
        fitting,
        key=lambda name: (
            # room now: the tightest; else the most idle, of those the one with most nodes that are not out
            (0, count(fitting[name], FREE), len(fitting[name]))
            if count(fitting[name], FREE) >= wish.least
            else (1, -count(fitting[name], FREE), count(fitting[name], OUT) - len(fitting[name])),
            name,
        ),
    )
    chosen = ranked[0]
    idle = count(fitting[chosen], FREE)
    notes = []
    if live is None:
        notes.append("Slurm could not be asked for node states: the domain is chosen by size only")
    elif idle < wish.least:
        notes.append(f"no domain has room for {wish.least} nodes now; {short(chosen)} has {idle} idle")
    return chosen, fitting[chosen], notes


def _can_hold(nodes: Sequence[str], size: int, topology: Topology | None) -> bool:
    if len(nodes) < size:
        return False
    return topology is None or job_sizes.accepts(job_sizes.refused(topology, nodes), size)


def _clock(seconds: int) -> str:
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes:02d}:{seconds:02d}"


@dataclass(frozen=True)
class Remark:
    """What `submit` leaves in a job's comment, so that `--again` knows what was asked for."""

    level: str
    excluded: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        own = f" exclude={fold(self.excluded)}" if self.excluded else ""
        return f"{REQUIRED}{self.level}{own}"

    @classmethod
    def parse(cls, comment: str) -> Remark | None:
        if not comment.startswith(REQUIRED):
            return None
        level, *words = comment.removeprefix(REQUIRED).split(" ")
        excluded = next((word for word in words if word.startswith("exclude=")), "")
        return cls(level, tuple(expand(excluded.removeprefix("exclude="))))
