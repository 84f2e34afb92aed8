"""`doctor`: checks everything this rests on."""

from __future__ import annotations

from pathlib import Path

import click

from topology_plugin import __version__
from topology_plugin.cli.endings import EXIT_WRONG
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import busy, put, put_json
from topology_plugin.core.checkup import Check, bad
from topology_plugin.core.issues import InputError
from topology_plugin.views.doctored import document, lines


@click.command()
@click.option("-o", "--output", "form", type=click.Choice(("text", "json")), default="text", show_default=True)
@click.option("--no-aws", is_flag=True, help="Ask no AWS API (each one in `sources` is asked once otherwise).")
@click.option("--bundle", metavar="FILE", help="Also collect what support needs into FILE (.tar.gz), redacted.")
@click.pass_obj
def doctor(door: Door, form: str, no_aws: bool, bundle: str | None) -> int:
    """Check inputs, registry, AWS permissions, Slurm, what is in force, passes and services; say what is wrong and
    what to do about it. Then every setting with its origin. Changes nothing.

    Exit code 4 if a check is bad. `unknown` means that it could not be found out from here.

    \b
    Examples:
      hyperpod-topology doctor
      hyperpod-topology doctor -o json | jq '.checks[] | select(.result != "ok")'
      hyperpod-topology doctor --bundle support.tar.gz
    """
    from topology_plugin.app.doctor import EXAMINATIONS, examine, gather

    try:
        wiring = door.wiring()
    except InputError as error:
        found: tuple[Check, ...] = tuple(
            Check("settings", "settings", bad(f"{i.where}: {i.what}", i.remedy)) for i in error.issues
        )
        put_json(document(found, None, __version__)) if form == "json" else put(lines(found, None))
        return EXIT_WRONG
    with busy("examining"):
        patient = gather(wiring, ask_aws=not no_aws)
    found = examine(patient)
    made = document(found, wiring.settings, __version__)
    if form == "json":
        put_json(made)
    else:
        put(lines(found, wiring.settings, len(EXAMINATIONS) - len(found)))
    if bundle is not None:
        from topology_plugin.app.support_bundle import collect

        names = collect(wiring, made, Path(bundle))
        say(f"{bundle} holds {len(names)} files; account ids, addresses and secrets are replaced. Look before you send")
    return EXIT_WRONG if any(check.verdict.result == "bad" for check in found) else 0
