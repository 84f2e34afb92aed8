"""`show`: the topology as a tree, a table, JSON, Mermaid, SVG or a page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from topology_plugin.adapters.collector import paused
from topology_plugin.app.observe_state import facts_in_force, recent_generations
from topology_plugin.cli.completion import partitions
from topology_plugin.cli.main import Door
from topology_plugin.cli.reading import look
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import on_terminal, put, put_json
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.settings import unknown_partitions
from topology_plugin.views.scene import arrange

if TYPE_CHECKING:
    from topology_plugin.app.observe_state import Past, Seen
    from topology_plugin.app.wiring import Wiring
    from topology_plugin.views.page import GenerationNote
    from topology_plugin.views.scene import Scene

FORMATS = ("tree", "table", "json", "mermaid", "svg", "html")


@click.command()
@click.argument("partition", required=False, shell_complete=partitions)
@click.option("-o", "--output", "form", type=click.Choice(FORMATS), default="tree", show_default=True, help="The form.")
@click.option("--desired", is_flag=True, help="What a pass would put in force, not what is in force.")
@click.option("--from", "given", metavar="FILE", help="A state.json, or `kubectl get nodes -o json`; - is stdin.")
@click.pass_obj
@paused()
def show(door: Door, partition: str | None, form: str, desired: bool, given: str | None) -> None:
    """Show the topology of the cluster, or of one PARTITION.

    \b
    Examples:
      hyperpod-topology show
      hyperpod-topology show train --desired
      hyperpod-topology show -o table | grep unplaced
      hyperpod-topology show -o html > topology.html
      kubectl get nodes -o json | hyperpod-topology show --from -
    """
    wiring = door.wiring()
    seen, live = look(wiring, given)
    if door.verbose or seen.warnings:
        say(f"shown from {seen.origin}")
    for note in unknown_partitions(wiring.settings, seen.state.inventory.partitions) if given is None else ():
        say(note)
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
    else:
        click.echo(_drawn(form, wiring, seen, scene, given), nl=False)


def _drawn(form: str, wiring: Wiring, seen: Seen, scene: Scene, given: str | None) -> str:
    if form == "mermaid":
        from topology_plugin.views.mermaid import chart

        return chart(scene)
    if form == "svg":
        from topology_plugin.views.svg import picture

        return picture(scene)
    from topology_plugin.core.diff import compare
    from topology_plugin.views.page import page
    from topology_plugin.views.words import told

    if on_terminal():
        raise InputError(Issue("-o html", "a page is for a browser, not for a terminal", "write it to a file: > FILE"))
    state = seen.state
    jobs = scene.live.jobs if scene.live else ()
    pending = []
    if state.in_force and compare(state, jobs).pending:
        change = compare(state, jobs, {} if given else facts_in_force(wiring, state))
        pending = [str(row) for row in told(change, state)]
    generations = [] if given else [_note(past) for past in recent_generations(wiring, state)]
    return page(scene, generations=generations, pending=pending, origin=seen.origin)


def _note(past: Past) -> GenerationNote:
    from topology_plugin.views.page import GenerationNote
    from topology_plugin.views.words import brief

    if past.diff is not None:
        return GenerationNote(past.number, past.time, past.by, brief(past.diff))
    why = "the first one that is kept" if past.readable else "it cannot be read"
    return GenerationNote(past.number, past.time, past.by, (why,))
