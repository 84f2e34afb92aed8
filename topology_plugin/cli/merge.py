"""`merge`: one pass on the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from topology_plugin.cli.endings import EXIT_PENDING
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say

if TYPE_CHECKING:
    from topology_plugin.app.reconcile import Outcome

MOST_NOTES = 10  # beyond what is lost, which is said in full


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done; exit 3 when something would change.")
@click.option(
    "--offline", is_flag=True, help="From the files alone, before slurmctld first starts: Slurm is not called."
)
@click.option(
    "--adopt", is_flag=True, help="Take over a topology.yaml or Topology= words that are not ours (remembered)."
)
@click.pass_obj
def merge(door: Door, dry_run: bool, offline: bool, adopt: bool) -> int:
    """One pass: everything known into one configuration of all partitions, put in force and read back.

    \b
    Examples:
      hyperpod-topology merge --dry-run     what would change, step by step
      hyperpod-topology merge               do it
      hyperpod-topology merge --adopt       also where someone else's topology stands

    On failure the former configuration stays in force and on disk, and the exit code is 1.
    """
    from topology_plugin.app.reconcile import Wish
    from topology_plugin.core.plan import sentences
    from topology_plugin.views.words import losses, unplaced

    reconciler = door.wiring().reconciler(say if door.verbose else None)
    outcome = reconciler.run(Wish(dry_run, offline, adopt))
    state = outcome.state
    lost = losses(outcome.diff) if outcome.plan else ()
    notes = list(dict.fromkeys((*outcome.notes, *lost, *unplaced(state), *state.notes)))
    shown = notes if door.verbose else notes[: len(outcome.notes) + len(lost) + MOST_NOTES]
    for note in shown:
        say(note)
    if len(notes) > len(shown):
        say(f"and {len(notes) - len(shown)} more notes: -v says them")
    if dry_run:
        if not state.owner.writes or not outcome.plan:
            observing = f"observing, nothing would be written: {state.owner.reason}"
            click.echo(outcome.nothing_to_do if state.owner.writes else observing)
            return 0
        click.echo("\n".join(sentences(outcome.plan)))
        return EXIT_PENDING
    click.echo(_told(outcome))
    return 0


def _told(outcome: Outcome) -> str:
    state, result = outcome.state, outcome.state.last.result
    if result == "observed":
        return f"observing, nothing written: {state.owner.reason}"
    if result == "unchanged":
        return outcome.nothing_to_do
    if result == "pending":
        return state.last.error
    names = ", ".join(t.name if t.name == t.kind else f"{t.name} ({t.kind})" for t in state.desired.topologies)
    how = "in force and read back" if outcome.applied and outcome.applied.reconfigured else "written"
    return f"{how}: {names}, generation {state.generation}"
