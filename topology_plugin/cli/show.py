"""`show`: the topology as a tree, a table or JSON."""

from __future__ import annotations

import click

from topology_plugin.app.observe_state import load_live, see
from topology_plugin.cli.main import Door
from topology_plugin.cli.terminal import put, put_json, say
from topology_plugin.views.scene import arrange

FORMATS = ("tree", "table", "json")


@click.command()
@click.argument("partition", required=False)
@click.option("-o", "--output", "form", type=click.Choice(FORMATS), default="tree", show_default=True, help="The form.")
@click.option("--desired", is_flag=True, help="What a pass would put in force, not what is in force.")
@click.option("--from", "given", metavar="FILE", help="A state.json, or `kubectl get nodes -o json`; - is stdin.")
@click.pass_obj
def show(door: Door, partition: str | None, form: str, desired: bool, given: str | None) -> None:
    """Show the topology of the cluster, or of one PARTITION.

    \b
    Examples:
      hyperpod-topology show
      hyperpod-topology show train --desired
      hyperpod-topology show -o table | grep unplaced
      kubectl get nodes -o json | hyperpod-topology show --from -
    """
    wiring = door.wiring()
    seen = see(wiring, given)
    for warning in seen.warnings:
        say(warning)
    if door.verbose or seen.warnings:
        say(f"shown from {seen.origin}")
    live = seen.live if given is not None else load_live(wiring)
    scene = arrange(seen.state, live, desired=desired, partition=partition)
    if form == "json":
        from topology_plugin.views.document import document

        put_json(document(scene))
    elif form == "table":
        from topology_plugin.views.text import table

        put(table(scene))
    elif form == "tree":
        from topology_plugin.views.text import tree

        put(tree(scene))
