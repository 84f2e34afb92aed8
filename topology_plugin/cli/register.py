"""`register`: the provisioning hook."""

from __future__ import annotations

import click

from topology_plugin.cli import hook
from topology_plugin.cli.main import Door


@click.command()
@click.option(
    "--instance-id",
    envvar=hook.INSTANCE_ID,
    metavar="ID",
    help="Who this node is, instead of finding out (DMI asset tag, IMDS, address).",
)
@click.pass_obj
def register(door: Door, instance_id: str | None) -> None:
    """Say what this node is and where it lies, in a file of its own in the registry.

    Runs on every node at boot, as often as you like: the same facts again write nothing. Takes at most
    register_timeout_seconds and calls no AWS API. Exit codes: 0 registered (also without a position), 1 not
    registered, 2 unusable input.

    \b
    Examples:
      hyperpod-topology register
      hyperpod-topology register --instance-id i-0123456789abcdef0
    """
    hook.register(door.wiring(), instance_id, bool(door.verbose))
