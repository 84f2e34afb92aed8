"""`history`, `rollback`, `hold`, `resume`: the generations that were in force, and stopping where one is."""

from __future__ import annotations

import click

from topology_plugin.cli.endings import EXIT_PENDING
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import put, put_json
from topology_plugin.core.issues import InputError


@click.command()
@click.option("-o", "--output", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
@click.pass_obj
def history(door: Door, form: str) -> None:
    """The generations that are kept, newest first.

    \b
    Examples:
      hyperpod-topology history
      hyperpod-topology history -o json | jq '.generations[0].words'
    """
    from topology_plugin.core.history import entries
    from topology_plugin.views.history import table

    doors = door.wiring().doors()
    found = list(entries(doors.generations.all(), doors.generations.current()))
    if doors.generations.issues and not found:
        raise InputError(doors.generations.issues)  # none that can be read is not none
    for issue in doors.generations.issues:
        say(str(issue))
    if form == "json":
        put_json({"generations": [entry.to_json() for entry in found]})
    else:
        put(table(found))


@click.command()
@click.argument("number", type=int, required=False)
@click.option("--dry-run", is_flag=True, help="Only say what would be done; exit 3 when something would change.")
@click.pass_obj
def rollback(door: Door, number: int | None, dry_run: bool) -> int:
    """Put generation NUMBER in force again (default: the one before), and hold.

    \b
    Examples:
      hyperpod-topology rollback            the generation before
      hyperpod-topology rollback 12         that one (see history)
      hyperpod-topology resume              end the hold that a rollback begins

    It is validated, rehearsed, read back and undone like any other change. Nodes that joined since are added as
    unplaced. Until `resume` passes only add joiners as unplaced.
    """
    from topology_plugin.app.rollback import Rollback
    from topology_plugin.core.plan import sentences

    done = Rollback.of(door.wiring(), say if door.verbose else lambda sentence: None).run(number, dry_run=dry_run)
    for note in done.notes:
        say(note)
    unheard = "slurmctld does not answer, so what it has loaded is not known"
    if done.applied is None:
        nothing = "nothing to do" if done.answered else f"{unheard}; nothing to do in the files"
        click.echo("\n".join(sentences(done.plan)) or nothing)
        return EXIT_PENDING if done.plan else 0
    again = f" as generation {done.applied.number}" if done.applied.number is not None else ""
    where = "in force" if done.answered or done.applied.reconfigured else f"on disk ({unheard})"
    click.echo(f"generation {done.of} is {where}{again}; on hold until `hyperpod-topology resume`")
    return 0


@click.command()
@click.argument("reason", required=False, default="")
@click.pass_obj
def hold(door: Door, reason: str) -> None:
    """Until `resume`, passes only add joiners as unplaced and change nothing else. REASON is shown to others.

    \b
    Examples:
      hyperpod-topology hold "no change before the run ends on Friday"
      hyperpod-topology show            says since when and why it holds
      hyperpod-topology resume
    """
    from topology_plugin.adapters.pass_lock import PassLock
    from topology_plugin.app import ownership

    doors = door.wiring().doors()
    with PassLock(doors.generations.state_dir):
        ownership.hold(doors, reason.encode(errors="replace").decode())  # an argument may be any bytes
    click.echo("on hold until `hyperpod-topology resume`")


@click.command()
@click.pass_obj
def resume(door: Door) -> None:
    """End a hold, a standing back after too many reverts, or an uninstall; the next pass acts again.

    \b
    Examples:
      hyperpod-topology resume
      hyperpod-topology resume && hyperpod-topology merge      act now
    """
    from topology_plugin.adapters.pass_lock import PassLock
    from topology_plugin.app import ownership

    doors = door.wiring().doors()
    with PassLock(doors.generations.state_dir):
        ended = ownership.resume(doors)
    click.echo("; ".join(ended) or "nothing was on hold")
