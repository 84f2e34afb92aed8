"""`explain`: why a node, a partition or a job is as it is."""

from __future__ import annotations

from dataclasses import replace

import click

from topology_plugin.app.explain import faults, subject
from topology_plugin.cli.completion import targets
from topology_plugin.cli.main import Door
from topology_plugin.cli.reading import look
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import put, put_json
from topology_plugin.core.explanation import explain_node, explain_partition
from topology_plugin.core.job_explanation import explain_job
from topology_plugin.views import explained


@click.command()
@click.argument("target", metavar="NODE|PARTITION|job:ID", shell_complete=targets)
@click.option("-o", "--output", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--from", "given", metavar="FILE", help="A state.json, or `kubectl get nodes -o json`; - is stdin.")
@click.pass_obj
def explain(door: Door, target: str, form: str, given: str | None) -> None:
    """Say why a node, a partition or a job is as it is.

    A NODE is named by its Slurm name, instance id, instance name or address: what every source answers, which one is
    believed and why. A PARTITION: its kind with the rule or setting behind it, sizes, unplaced nodes with the reason.
    job:ID: how a running job lies; which constraint of the topology holds a pending one, and what would let it run.

    \b
    Examples:
      hyperpod-topology explain ip-10-1-1-11
      hyperpod-topology explain train
      hyperpod-topology explain job:4711
    """
    wiring = door.wiring()
    seen, live = look(wiring, given, jobs=target.startswith("job:"))
    if door.verbose or not seen.fresh:
        say(f"explained from {seen.origin}")
    found = subject(seen.state, live, target)
    wrong = () if given is not None or found.kind == "job" else faults(wiring, found)
    if found.kind == "node":
        node = explain_node(seen.state, found.name)
        node = replace(node, issues=(*node.issues, *wrong))
        if form == "json":
            put_json(explained.node_document(node, live))
        else:
            put(explained.node_lines(node, live))
    elif found.kind == "partition":
        partition = explain_partition(seen.state, found.name, None if given is not None else wiring.settings)
        partition = replace(partition, notes=(*partition.notes, *wrong))
        if form == "json":
            put_json(explained.partition_document(partition))
        else:
            put(explained.partition_lines(partition, live))
    elif live is not None and found.job is not None:
        job = explain_job(seen.state, live, found.job)
        if form == "json":
            put_json(explained.job_document(job))
        else:
            put(explained.job_lines(job))
