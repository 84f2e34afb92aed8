"""A diff in words: what changes place and why, then what that means for sizes and jobs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from topology_plugin.core import job_sizes
from topology_plugin.core.diff import Change, Diff
from topology_plugin.core.hostlists import fold
from topology_plugin.core.state import State
from topology_plugin.views.text import Line, Style, counted, line

_STYLES: dict[str, Style] = {"moves": "name", "joins": "ok", "leaves": "warn"}


def told(diff: Diff, state: State) -> list[Line]:
    """`diff` for a terminal; one line each group of nodes that move the same way for the same reason."""
    return [line((_summary(diff, state), "title")), *_partitions(diff), *_nodes(diff), *_rest(diff)]


def brief(diff: Diff, most: int = 12) -> tuple[str, ...]:
    """The same without reasons, for a list of generations: those of the past are no longer known. Names stay whole."""
    lines = [
        f"partition {c.partition}: {c.before[0] if c.before else 'nothing'} → {c.after[0] if c.after else 'nothing'}"
        for c in diff.partitions
    ]
    groups: dict[tuple[str, str], list[str]] = {}
    for change in diff.nodes:
        groups.setdefault((change.verb, change.topology), []).append(change.node)
    lines += [f"{fold(nodes)} {_verb(verb, len(nodes))} ({name})" for (verb, name), nodes in groups.items()]
    lines += [str(row) for row in _rest(Diff(blocks=diff.blocks, other=diff.other))]
    if len(lines) > most:
        lines = [*lines[: most - 1], f"and {len(lines) - most + 1} more changes"]
    return tuple(lines) or ("nothing that concerns a node",)


def document(diff: Diff, state: State) -> dict[str, Any]:
    """`diff -o json`: stable keys. `before`/`after` of a node: names from the root to the leaf, or [block], or null."""
    return {
        "schema": 1,
        "pending": diff.pending,
        "known": diff.known,
        "generation": state.generation,
        "partitions": [
            {"partition": c.partition, "before": _kind(c.before), "after": _kind(c.after), "why": c.why}
            for c in diff.partitions
        ],
        "nodes": [
            {
                "node": c.node,
                "change": c.verb,
                "topology": c.topology,
                "before": None if c.before is None else list(c.before),
                "after": None if c.after is None else list(c.after),
                "why": c.why,
            }
            for c in diff.nodes
        ],
        "blocks": [
            {"topology": c.topology, "block": c.block, "before": c.before, "after": c.after} for c in diff.blocks
        ],
        "sizes": [
            {
                "partition": c.partition,
                "possible": [list(pair) for pair in c.possible],
                "impossible": [list(pair) for pair in c.impossible],
            }
            for c in diff.sizes
        ],
        "jobs": [
            {"id": c.job.label, "state": c.job.state, "partition": c.job.partition, "lost": c.lost, "what": c.what}
            for c in diff.jobs
        ],
        "other": list(diff.other),
    }


def losses(diff: Diff) -> tuple[str, ...]:
    """What a change takes away, a sentence each: job sizes, and pending jobs that Slurm would then hold for good."""
    sizes = (
        f"partition {size.partition}: job sizes that become impossible: {job_sizes.told(size.impossible)}"
        for size in diff.sizes
        if size.impossible
    )
    jobs = (f"job {one.job.label} ({one.job.name}, {one.job.user}): {one.what}" for one in diff.jobs if one.lost)
    return (*sizes, *jobs)


def unplaced(state: State) -> tuple[str, ...]:
    """Nodes without a known position in a tree or block topology that is desired, a sentence for each reason."""
    found = []
    for topology in state.desired.topologies:
        placement = state.decision.placements.get(topology.name)
        reasons: dict[str, list[str]] = {}
        for node, why in placement.unplaced.items() if placement and topology.kind != "flat" else ():
            reasons.setdefault(why, []).append(node)
        found += [f"{topology.name}: unplaced: {fold(nodes)}: {why}" for why, nodes in reasons.items()]
    return tuple(found)


def _summary(diff: Diff, state: State) -> str:
    if not diff.pending:
        number = "" if state.generation is None else f" (generation {state.generation})"
        return f"Nothing is pending: in force is what is desired{number}."
    if not diff.known:
        return "Nothing is known to be in force; a pass would put this in force:"
    counts = {verb: sum(1 for c in diff.nodes if c.verb == verb) for verb in ("moves", "joins", "leaves")}
    parts = [f"{counted(count, 'node')} {_verb(verb, count)}" for verb, count in counts.items() if count]
    if diff.partitions:
        parts.insert(0, f"{counted(len(diff.partitions), 'partition')} changed")
    what = ", ".join(parts) or "no node's place"
    if not state.owner.writes:
        return f"Desired differs: {what}; but no pass makes it so: {state.owner.reason}."
    return f"A pass would change this: {what}."


def _verb(verb: str, count: int) -> str:
    return verb if count == 1 else {"moves": "move", "joins": "join", "leaves": "leave"}[verb]


def _partitions(diff: Diff) -> Iterator[Line]:
    for change in diff.partitions:
        before = change.before[0] if change.before else "nothing"
        after = change.after[0] if change.after else "nothing"
        yield line("partition ", (change.partition, "name"), f"  {before} → {after}", ("  " + change.why, "dim"))


def _nodes(diff: Diff) -> Iterator[Line]:
    groups: dict[tuple[str, str, str, str], list[Change]] = {}
    for change in diff.nodes:
        key = (change.topology, change.verb, _way(change), change.why)
        groups.setdefault(key, []).append(change)
    order = {"moves": 0, "joins": 1, "leaves": 2}
    last = ""
    for (topology, verb, way, why), changes in sorted(groups.items(), key=lambda g: (g[0][0], order[g[0][1]])):
        if topology != last:
            yield line((topology, "title"))
            last = topology
        names = fold(change.node for change in changes)
        yield line("  ", (f"{verb:<6}", _STYLES[verb]), f"  {names}  {way}", ("  " + why, "dim"))


def _way(change: Change) -> str:
    before, after = ("/".join(way) if way else "" for way in (change.before, change.after))
    if change.before is None:
        return f"→ {after}"
    return f"from {before}" if change.after is None else f"{before} → {after}"


def _rest(diff: Diff) -> Iterator[Line]:
    for block in diff.blocks:
        if block.before is None or block.after is None:
            verb, sizes = ("appears", block.after) if block.before is None else ("disappears", block.before)
            yield line(f"block {block.block} {verb} ({sizes} nodes)")
        else:
            verb = "shrinks" if block.after < block.before else "grows"
            style: Style = "warn" if verb == "shrinks" else ""
            yield line(f"block {block.block} ", (verb, style), f" from {block.before} to {block.after} nodes")
    for sentence in diff.other:
        yield line(sentence)
    for size in diff.sizes:
        if size.impossible:
            words = f"job sizes that become impossible: {job_sizes.told(size.impossible)}"
            yield line("partition ", (size.partition, "name"), "  ", (words, "bad"))
        if size.possible:
            words = f"job sizes that become possible: {job_sizes.told(size.possible)}"
            yield line("partition ", (size.partition, "name"), "  ", (words, "ok"))
    for concern in diff.jobs:
        job = concern.job
        style = "bad" if concern.lost else "dim"
        yield line(f"job {job.label} ({job.name}, {job.user})  ", (concern.what, style))


def _kind(pair: tuple[str, str] | None) -> dict[str, str] | None:
    return None if pair is None else {"topology": pair[0], "kind": pair[1]}
