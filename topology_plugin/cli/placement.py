"""`placement`: where jobs lie, and what room is left."""

from __future__ import annotations

import click

from topology_plugin.cli.job_view import JobView
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import put_json
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.live import Job, Live
from topology_plugin.jobs import history, room
from topology_plugin.jobs import placement as places
from topology_plugin.jobs.columns import columns


@click.command()
@click.argument("jobs", nargs=-1, metavar="[JOB…]")
@click.option("-p", "--partition", help="Only this partition.")
@click.option("--nodes", "nodelist", metavar="LIST", help="Judge these nodes as if a job had them (needs -p).")
@click.option(
    "-o", "--output", "form", type=click.Choice(("table", "json", "metrics")), default="table", show_default=True
)
@click.option("--from", "given", metavar="FILE", help="A state.json; - is stdin.")
@click.pass_obj
def placement(
    door: Door, jobs: tuple[str, ...], partition: str | None, nodelist: str | None, form: str, given: str | None
) -> None:
    """Leaves, spines and UltraServers of jobs against the fewest possible, switches between their nodes (mean and worst
    pair), and what fits now. JOB: running or finished ones (sacct); none: all that run.

    \b
    Examples:
      hyperpod-topology placement
      hyperpod-topology placement 4711 4712_3
      hyperpod-topology placement -p train --nodes ip-10-1-1-[11-18]
      hyperpod-topology placement -o metrics > /var/lib/node_exporter/jobs.prom
    """
    view = JobView(door.wiring(), given)
    if partition is not None:
        view.chosen(partition)
    if nodelist is not None:
        chosen = view.chosen(partition)
        asked: tuple[Job, ...] = (Job(0, "", "", "", view.named(nodelist, chosen), chosen),)
    else:
        asked = _jobs(view, jobs)
    placed = []
    for job in asked:
        where = partition or next((p for p in job.partitions if p in view.partitions), None)
        if where is None or (partition and partition not in job.partitions):
            continue
        placed.append(places.place(job, view.network(where)))
    rooms = {}
    if not jobs and nodelist is None and view.live is not None:
        names = [partition] if partition else view.partitions
        rooms = {name: room.room(view.network(name), view.live) for name in names}
    if form == "metrics":
        click.echo(_metrics(placed, rooms), nl=False)
    elif form == "json":
        summary = places.summary(placed).to_json()
        put_json({"jobs": [one.to_json() for one in placed], "summary": summary,
                  "room": {name: found.to_json() for name, found in rooms.items()}})  # fmt: skip
    else:
        _table(placed, rooms)


def _jobs(view: JobView, labels: tuple[str, ...]) -> tuple[Job, ...]:
    live = view.live
    if not labels:
        if live is None or not live.jobs_known:
            raise InputError(Issue("jobs", view.silence, "run this where Slurm can be asked, or name --nodes"))
        return live.running
    found: list[Job] = []
    missing: list[str] = []
    for label in labels:
        alive = (
            [] if live is None else [j for j in live.jobs if label in (j.label, str(j.id), str((j.array or [0])[0]))]
        )
        if waits := [job for job in alive if job.pending]:
            say(f"job {label} waits and has no nodes yet" + (f" ({waits[0].reason})" if waits[0].reason else ""))
        found.extend(job for job in alive if job.nodes)
        if not alive:
            missing.append(label)
    if missing:
        found.extend(_finished(view, missing))
    return tuple(found)


def _finished(view: JobView, labels: list[str]) -> tuple[Job, ...]:
    """From sacct, or from what slurmctld still remembers for some minutes."""
    slurm = view.wiring.slurm
    remembered = Live.parse((), slurm.jobs("-t", "all", "-j", ",".join(labels))).jobs
    found = [job for job in remembered if job.nodes and (job.label in labels or str(job.id) in labels)]
    left = [label for label in labels if not any(label in (job.label, str(job.id)) for job in found)]
    if not left:
        return tuple(found)
    answer = slurm.run("sacct", "-X", "--json", "-j", ",".join(left), timeout=60)
    told = history.jobs(answer.out) if answer.ok else ()
    if not told:
        why = answer.words if not answer.ok else "it never had nodes, or accounting has forgotten it"
        squeue = "squeue does not know it" if view.live is not None else view.silence
        raise InputError(Issue(f"job {', '.join(left)}", f"{squeue}, and sacct: {why}"))
    return (*found, *told)


def _table(placed: list[places.Placed], rooms: dict[str, room.Room]) -> None:
    if placed:
        click.echo(columns(places.HEAD, places.rows(placed)), nl=False)
        means = places.summary(placed)
        if means.jobs > 1 and means.leaf_ratio is not None:
            click.echo(
                f"\n{means.jobs} jobs of two nodes and more: leaves over the fewest possible {means.leaf_ratio:.2f}, "
                f"worst pair {means.worst_hops:.1f} switches apart on average"
            )
    elif not rooms:
        click.echo("no job with nodes")
    if rooms:
        click.echo("" if placed else "no job runs\n")
        click.echo("room now")
        click.echo(
            columns(room.HEAD, [row for name, found in rooms.items() for row in room.rows(name, found)]), nl=False
        )
        tables: dict[str, list[str]] = {}
        for name, found in rooms.items():  # partitions that share their UltraServers share the table
            if found.blocks:
                tables.setdefault(columns(room.BLOCK_HEAD, room.block_rows(found)), []).append(name)
        for table, names in tables.items():
            click.echo(f"\nblocks of {', '.join(names)}\n{table}", nl=False)


def _metrics(placed: list[places.Placed], rooms: dict[str, room.Room]) -> str:
    from topology_plugin.jobs.metrics import text

    return text(placed, rooms)
