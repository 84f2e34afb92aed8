"""Explanations in words and as data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import Any

from topology_plugin.core import job_sizes
from topology_plugin.core.diff import Way
from topology_plugin.core.explanation import NodeWhy, PartitionWhy, Seat
from topology_plugin.core.hostlists import fold
from topology_plugin.core.job_explanation import JobWhy
from topology_plugin.core.job_sizes import Ranges
from topology_plugin.core.live import Live
from topology_plugin.core.position import Position
from topology_plugin.views.text import Line, Style, counted, line


def node_lines(why: NodeWhy, live: Live | None) -> list[Line]:
    return list(_node(why, live))


def partition_lines(why: PartitionWhy, live: Live | None) -> list[Line]:
    return list(_partition(why, live))


def job_lines(why: JobWhy) -> list[Line]:
    return list(_job(why))


def node_document(why: NodeWhy, live: Live | None) -> dict[str, Any]:
    """Stable keys: those of NodeWhy, with `explains`: "node", `state` and `jobs` (null: not known)."""
    made = {"explains": "node", **asdict(why)}
    made["state"] = live.states.get(why.name, "unknown") if live else None
    made["jobs"] = [job.label for job in live.jobs_on().get(why.name, ())] if live and live.jobs_known else None
    return made


def partition_document(why: PartitionWhy) -> dict[str, Any]:
    """Stable keys: those of PartitionWhy, with `explains`: "partition" (`kind` is the topology's)."""
    return {"explains": "partition", **asdict(why)}


def job_document(why: JobWhy) -> dict[str, Any]:
    """Stable keys: those of JobWhy, with `explains`: "job" and the job's `label`."""
    return {"explains": "job", "label": why.job.label, **asdict(why)}


def _pair(term: str, *value: Any) -> Line:
    return line((f"  {term:<12}", "dim"), *value)


def _node(why: NodeWhy, live: Live | None) -> Iterator[Line]:
    yield line((why.name, "title"))
    node = why.node
    if live is not None:
        reason = live.reasons.get(why.name)
        yield _pair("state", live.states.get(why.name, "unknown") + (f" ({reason})" if reason else ""))
        jobs = live.jobs_on().get(why.name, ())
        if jobs:
            yield _pair("jobs", ", ".join(f"{job.label} {job.name}" for job in jobs))
    if node is None:
        yield _pair("instance", ("none known", "warn"))
    else:
        name = f"  {node.instance_name}" if node.instance_name else ""
        yield _pair("instance", (node.instance_id or "none known", "" if node.instance_id else "warn"), name)
        told = [part for part in (node.instance_type, node.group and f"group {node.group}", node.zone) if part]
        if told:
            yield _pair("is", ", ".join(told))
        if node.addresses:
            yield _pair("addresses", ", ".join(node.addresses))
        if node.dynamic:
            yield _pair("dynamic", "only slurmctld knows it, slurm.conf does not")
    yield _pair("partitions", ", ".join(why.partitions) or "none")
    if why.said:
        yield line()
        yield line(("What the sources say", "title"))
        for said in why.said:
            won = f"  ← believed for {', '.join(said.fits)}" if said.fits else ""
            if said.position is None:
                yield line((f"  {said.source:<17}", ""), (said.silent or "nothing", "dim"))
            else:
                yield line((f"  {said.source:<17}", ""), _position(said.position), (won, "ok"))
    for seat in why.seats:
        yield line()
        yield from _seat(seat)
    yield from _closing(why.issues, why.advice)


def _seat(seat: Seat) -> Iterator[Line]:
    serves = f" for {', '.join(seat.partitions)}" if seat.partitions else ""
    yield line((f"In topology {seat.topology}", "title"), f" ({seat.kind}{serves})")
    if seat.kind == "flat":
        yield line("  flat has no structure: every node is as near as any other")
        return
    same = seat.in_force == seat.desired
    yield _pair("in force", _way(seat.in_force))
    if not same:
        yield _pair("desired", (_way(seat.desired), "warn"))
    if seat.unplaced:
        yield _pair("unplaced", (seat.unplaced, "warn"))
    elif seat.source:
        yield _pair("because", f"{seat.source} says so")
    if seat.won:
        yield _pair("id space", seat.won)


def _position(position: Position) -> str:
    parts = [" / ".join(position.path)] if position.path else []
    parts += [f"UltraServer {position.ultraserver}"] if position.ultraserver else []
    return ", ".join(parts) or "no position"


def _way(way: Way | None) -> str:
    return " / ".join(way) if way else "nowhere"


def _partition(why: PartitionWhy, live: Live | None) -> Iterator[Line]:
    yield line(("partition ", ""), (why.name, "title"), f"  {why.kind}")
    yield _pair("why", why.rule or "not known")
    if why.setting:
        yield _pair("setting", why.setting)
    word = f"Topology={why.word}" if why.word else f"no word: the cluster default ({why.default_rule or 'flat'})"
    yield _pair("topology", why.topology, f"  {word}")
    if why.in_force is None:
        yield _pair("in force", ("not known", "warn"))
    elif why.in_force != (why.topology, why.kind):
        yield _pair("in force", (f"{why.in_force[0]} ({why.in_force[1]}): a change is pending, see `diff`", "warn"))
    placed = f", {len(why.unplaced)} unplaced" if why.unplaced else ""
    unit = {"switches": "switch", "blocks": "block"}[why.unit] if why.units == 1 else why.unit
    units = f", {why.units} {unit}" if why.units else ""
    yield _pair("nodes", f"{why.nodes}{placed}{units}")
    if why.sizes:
        yield _pair("block size", ", ".join(map(str, why.sizes)))
    yield from _sizes(why)
    if why.groups:
        yield line()
        yield line(("Its instance groups", "title"))
        width = max(len(group.name) for group in why.groups)
        for group in why.groups:
            data = {"tree": "network layers", "block": "UltraServers"}.get(group.ability or "", "no network data")
            data += " (seen on its nodes)" if group.evidence else " (by its type)" if group.instance_type else ""
            kind = group.instance_type or "type not known"
            yield line(f"  {group.name:<{width}}  {kind}, {counted(group.nodes, 'node')}: ", data)
    if why.unplaced:
        yield line()
        yield line(("Unplaced", "title"))
        reasons: dict[str, list[str]] = {}
        for node, reason in why.unplaced.items():
            reasons.setdefault(reason, []).append(node)
        for reason, nodes in reasons.items():
            yield line("  ", (fold(nodes), "warn"), f"  {reason}")
    if why.uncovered:
        yield line()
        yield line((f"In no switch or block: {fold(why.uncovered)}", "bad"))
    yield from _closing(why.notes, ())


def _sizes(why: PartitionWhy) -> Iterator[Line]:
    """Job sizes refused in force and, where that is not the same, after the pending change."""
    if why.kind == "flat" and not why.refused_in_force:
        return
    now, then = why.refused_in_force, why.refused
    if now == then:
        yield _pair("job sizes", _refused(then))
        return
    yield _pair("job sizes", ("in force: not known", "warn") if now is None else _refused(now, "in force: "))
    yield _pair("", _refused(then, "desired: "))


def _refused(found: Ranges, which: str = "") -> tuple[str, Style]:
    return (f"{which}refused: {job_sizes.told(found)}", "bad") if found else (f"{which}none is refused", "ok")


def _job(why: JobWhy) -> Iterator[Line]:
    job = why.job
    yield line(("job ", ""), (job.label, "title"), f"  {job.name}, {job.user}, {job.partition}, {job.state}")
    if job.pending:
        asks = [f"{counted(job.nodes_wanted, 'node')}"]
        asks += [f"--switches={job.switches}"] if job.switches else []
        asks += [f"--segment={job.segment}"] if job.segment else []
        asks += [f"-w {fold(job.required)}"] if job.required else []
        asks += [f"-x {fold(job.excluded)}"] if job.excluded else []
        yield _pair("asks for", ", ".join(asks))
        yield _pair("Slurm says", job.reason or "nothing", f": {job.description}" if job.description else "")
    else:
        yield _pair("nodes", fold(job.nodes) if job.nodes else "none")
    yield _pair("topology", ", ".join(why.topologies) or "not known")
    for lies in why.lies:
        noun = {"leaf": "leaves", "block": "blocks"}[lies.unit]
        many = f"{len(lies.units)} {lies.unit if len(lies.units) == 1 else noun}"
        close = (
            "as close as it can be" if len(lies.units) <= lies.least else f"{lies.least} would do on an idle cluster"
        )
        yield _pair("lies in", many, (f" ({close})", "dim"))
        for name, count in lies.units[:12]:
            yield line(f"                {name}  {counted(count, 'node')}")
        if len(lies.units) > 12:
            yield line(f"                and {len(lies.units) - 12} more")
    if job.pending and not why.holds:
        yield line("  The topology does not hold it: what Slurm says is the reason.")
    for hold in why.holds:
        style: Style = "bad" if hold.for_good else "warn"
        yield line("  ", ("never runs: " if hold.for_good else "waits: ", style), hold.what)
        if hold.remedy:
            yield line("    ", (f"→ {hold.remedy}", "ok"))
    yield from _closing(why.notes, ())


def _closing(issues: tuple[str, ...], advice: tuple[str, ...]) -> Iterator[Line]:
    if issues or advice:
        yield line()
    for issue in issues:
        yield line("  note: ", (issue, "warn"))
    for sentence in advice:
        yield line("  ", (f"→ {sentence}", "ok"))
