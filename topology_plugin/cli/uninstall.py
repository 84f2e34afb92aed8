"""`uninstall`: Slurm's files as they were without us."""

from __future__ import annotations

import click

from topology_plugin.cli.endings import EXIT_PENDING
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say


@click.command()
@click.option("--dry-run", is_flag=True, help="Only say what would be done; exit 3 when something would change.")
@click.option("--offline", is_flag=True, help="Change the files only; slurmctld is not asked.")
@click.pass_obj
def uninstall(door: Door, dry_run: bool, offline: bool) -> int:
    """Take our words and files out of Slurm's configuration.

    \b
    Examples:
      hyperpod-topology uninstall --dry-run
      hyperpod-topology uninstall

    From then on `watch` and `merge` write nothing, on any controller, until `resume`. Words and files of others stay.
    Registry and state directory stay too: they say what is ours.
    """
    from topology_plugin.app.uninstall import uninstall as take_out
    from topology_plugin.core.plan import sentences

    done = take_out(door.wiring().doors(say if door.verbose else None), dry_run=dry_run, offline=offline)
    for sentence in done.stays:
        say(sentence)
    if done.applied is None:
        click.echo("\n".join(sentences(done.plan)) or "nothing to do")
        return EXIT_PENDING if done.plan else 0
    click.echo("nothing of ours is left in Slurm's files" if done.plan else "nothing to do")
    return 0
