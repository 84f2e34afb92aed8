"""`advise`: what to ask Slurm for, and what it costs."""

from __future__ import annotations

import click

from topology_plugin.cli.job_view import JobView
from topology_plugin.cli.main import Door
from topology_plugin.cli.terminal import put_json
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.jobs import advice
from topology_plugin.jobs.advice import Advice
from topology_plugin.jobs.columns import columns
from topology_plugin.jobs.distance import Spread


@click.command()
@click.option("-p", "--partition", help="Default: the cluster's default partition.")
@click.option("-N", "--nodes", "size", type=click.IntRange(min=1), help="Nodes of the job.")
@click.option("-o", "--output", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--from", "given", metavar="FILE", help="A state.json; - is stdin.")
@click.option("--policy", is_flag=True, help="Instead: check whether this Slurm can load our job_submit.lua, and how.")
@click.option("--write", "directory", metavar="DIR", help="With --policy: write job_submit.lua and its policy there.")
@click.pass_obj
def advise(
    door: Door, partition: str | None, size: int | None, form: str, given: str | None, policy: bool,
    directory: str | None,
) -> int:  # fmt: skip
    """Options of sbatch that bring a job's nodes near each other, whether it can start now, how far apart its nodes
    would be, and which sizes Slurm refuses here.

    \b
    Examples:
      hyperpod-topology advise -p train -N 32
      hyperpod-topology advise -p ultra -N 36 -o json
      hyperpod-topology advise --policy --write /opt/slurm/etc
    """
    view = JobView(door.wiring(), given)
    if policy or directory is not None:
        from topology_plugin.cli.policy_check import check

        return check(view, directory)
    if size is None:
        raise InputError(Issue("advise", "the job's size is missing", "say it: -N 16"))
    chosen = view.chosen(partition)
    network, topology = view.network(chosen), view.topology(chosen)
    found = advice.advise(chosen, size, network, topology, view.live, view.max_switch_wait, view.topo_optional)
    if form == "json":
        put_json(found.to_json())
    else:
        click.echo(_told(found), nl=False)
    return 0


def _told(found: Advice) -> str:
    lines = [f"{found.size} nodes in partition {found.partition} ({found.kind})"]
    if found.refused:
        nearest = f"the next size that it takes is {found.next_size}" if found.next_size else "no larger one is taken"
        without = " without further options" if found.options else ""
        lines.append(f"  Slurm refuses this size here{without}: {nearest}")
    elif found.now is None:
        lines.append("  whether it can start now is unknown: Slurm gives no answer")
    else:
        lines.append("  can start now" if found.now else "  cannot start now")
    if found.refused_sizes:
        lines.append(f"  sizes that Slurm refuses here: {found.refused_sizes}")
    if found.likely is not None:
        lines.append(f"  if it starts now: about {_spread(found.likely)}")
    if found.best is not None and found.size > 1:
        lines.append(f"  the nearest possible here: {_spread(found.best)}")
    lines += [f"  {note}" for note in found.notes]
    if found.options:
        answers = {True: "yes", False: "no", None: "?"}
        rows = [[option.option, answers[option.now], option.why] for option in found.options]
        table = columns(["sbatch option", "starts now", "what it does"], rows)
        lines += ["", *table.splitlines()]
    return "\n".join(lines) + "\n"


def _spread(spread: Spread) -> str:
    return f"{spread.mean_hops:.2f} switches between two nodes on average, {spread.worst_hops} at worst"
