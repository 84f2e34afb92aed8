"""`ranks`: a hostfile in which near nodes stand next to each other."""

from __future__ import annotations

from typing import cast

import click

from topology_plugin.cli.job_view import JobView
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import put_text
from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.live import Job
from topology_plugin.jobs import ranks as ranking


@click.command()
@click.argument("job", required=False)
@click.option("-o", "--output", "target", default="-", metavar="HOSTFILE", help="Where to write it; - is stdout.")
@click.option("--form", type=click.Choice(ranking.FORMS), default="slurm", show_default=True, help="Whose hostfile.")
@click.option("--tasks-per-node", "tasks", type=click.IntRange(min=1), default=1, show_default=True)
@click.option("--nodes", "nodelist", metavar="LIST", help="Instead of a job's nodes (needs -p).")
@click.option("-p", "--partition", help="The nodes' partition, where the job does not tell.")
@click.option("--from", "given", metavar="FILE", help="A state.json; - is stdin.")
@click.pass_obj
def ranks(
    door: Door, job: str | None, target: str, form: str, tasks: int, nodelist: str | None, partition: str | None,
    given: str | None,
) -> None:  # fmt: skip
    """Write a hostfile for JOB (default: the one this runs in) that puts the nodes of an UltraServer, a leaf and a
    spine next to each other.

    \b
    Examples:
      hyperpod-topology ranks 4711 -o hosts
      hyperpod-topology ranks -o hosts && SLURM_HOSTFILE=hosts srun -n8 --distribution=arbitrary ./train
      hyperpod-topology ranks 4711 --form openmpi --tasks-per-node 8
    """
    wiring = door.wiring()
    view = JobView(wiring, given)
    nodes, where = _nodes(view, job, nodelist, partition)
    network = view.network(where)
    ordered = ranking.order(nodes, network)
    chosen = cast(ranking.Form, form)
    put_text(ranking.hostfile(ordered, chosen, tasks), target)
    before, after = ranking.borders(nodes, network), ranking.borders(ordered, network)
    say(f"switches between neighbouring nodes: {after:.2f} on average, {before:.2f} in Slurm's order")
    lost = [node for node in ordered if not network.placed(node)]
    if lost:
        say(f"{len(lost)} nodes have no known place and stand last")
    param = view.parameter("TopologyParam") if given is None else ""
    for note in ranking.notes(chosen, tasks, len(ordered), view.configuration, param):
        say(note)


def _nodes(
    view: JobView, label: str | None, nodelist: str | None, partition: str | None
) -> tuple[tuple[str, ...], str]:
    if nodelist is not None:
        chosen = view.chosen(partition)
        return view.named(nodelist, chosen), chosen
    environment = view.wiring.places.environment
    own = environment.get("SLURM_JOB_ID")
    if label is None or label == own:
        listed = environment.get("SLURM_JOB_NODELIST")
        if listed:
            return tuple(expand(listed)), view.chosen(partition or environment.get("SLURM_JOB_PARTITION"))
        if label is None:
            raise InputError(Issue("ranks", "names no job and runs in none", "name a job, or --nodes and -p"))
    if view.live is None or not view.live.jobs_known:
        raise InputError(Issue(f"job {label}", view.silence, "name its nodes: --nodes LIST -p PARTITION"))
    found: Job | None = next((row for row in view.live.jobs if label in (row.label, str(row.id))), None)
    if found is None or not found.nodes:
        raise InputError(Issue(f"job {label}", "has no nodes" if found else "is not in squeue", "name a running job"))
    return found.nodes, view.chosen(partition or found.partition)
