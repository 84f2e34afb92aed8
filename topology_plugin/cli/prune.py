"""`prune`: records of instances that are gone."""

from __future__ import annotations

import click

from topology_plugin.cli.endings import EXIT_PENDING
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say


@click.command()
@click.option("--apply", is_flag=True, help="Remove them; without it they are only listed (exit 3 if there are any).")
@click.pass_obj
def prune(door: Door, apply: bool) -> int:
    """Remove records of instances that neither slurm.conf nor resource_config has known for an hour.

    \b
    Examples:
      hyperpod-topology prune            what would be removed
      hyperpod-topology prune --apply    remove it

    Run it on the controller. The hour counts from the first run that found an instance absent, on this machine's own
    clock. A record does no harm; a registry without the old ones is only easier to read.
    """
    wiring = door.wiring()
    done = wiring.pruner().run(apply)
    if done is None:
        click.echo("nothing to prune: the registry is switched off (registry: null)")
        return 0
    for note in done.notes:
        say(note)
    for instance_id, record in done.gone.items():
        name = f"{instance_id} ({record.instance_name or 'no name'}, group {record.group})"
        did = "removed" if instance_id in done.removed else "stays" if apply else "would be removed"
        click.echo(f"{name}: absent for an hour, {did}")
    for instance_id, seconds in done.waiting.items():
        click.echo(f"{instance_id}: absent for {seconds / 60:.0f} min, kept until it is an hour")
    click.echo(f"{done.kept} records of instances that are here")
    return EXIT_PENDING if done.gone and not apply else 0
