"""`diff`: what a pass would change, in words."""

from __future__ import annotations

from dataclasses import replace

import click

from topology_plugin.app.observe_state import facts_in_force
from topology_plugin.cli.endings import EXIT_PENDING
from topology_plugin.cli.main import Door
from topology_plugin.cli.reading import look
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import put, put_json
from topology_plugin.core.diff import compare
from topology_plugin.views.words import document, told


@click.command()
@click.option("-o", "--output", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--from", "given", metavar="FILE", help="A state.json; - is stdin.")
@click.pass_obj
def diff(door: Door, form: str, given: str | None) -> int:
    """Compare what is in force with what is desired: who moves, joins and leaves, from where to where, and why;
    which job sizes become possible or impossible; which jobs are concerned.

    Exit code 3 if something is pending, 0 if nothing is.

    \b
    Examples:
      hyperpod-topology diff
      hyperpod-topology diff -o json | jq '.nodes[] | select(.change == "moves")'
    """
    wiring = door.wiring()
    seen, live = look(wiring, given)
    if door.verbose or not seen.fresh:
        say(f"compared from {seen.origin}")
    if given is None and (live is None or not live.jobs_known):
        say("squeue gives no answer, so jobs that are concerned cannot be listed")
    facts = {} if given is not None else facts_in_force(wiring, seen.state)
    found = compare(seen.state, live.jobs if live else (), facts)
    if seen.files:
        stale = "the files on disk do not say what slurmctld runs and is desired"
        who = "a pass mends them" if seen.state.owner.writes else "no pass mends them now"
        found = replace(found, other=(*found.other, f"{stale}; {who}: {'; '.join(seen.files)}"))
    if form == "json":
        put_json(document(found, seen.state))
    else:
        put(told(found, seen.state))
    return EXIT_PENDING if found.pending else 0
