"""Registering as every node does at boot; where the installed command begins."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING

from topology_plugin.cli.endings import exit_code
from topology_plugin.cli.talk import say

if TYPE_CHECKING:
    from topology_plugin.app.wiring import Wiring

ROOT, INSTANCE_ID = "HYPERPOD_TOPOLOGY_ROOT", "HYPERPOD_TOPOLOGY_INSTANCE_ID"


def main() -> None:
    """`register` without an option, as the hook calls it, starts without the library that reads the others' options:
    that would be a quarter of what a node spends at boot."""
    sys.exit(exit_code(_at_boot if sys.argv[1:] == ["register"] else _by_options))


def _by_options() -> None:
    from topology_plugin.cli.main import main as command_line

    command_line()


def _at_boot() -> None:
    from topology_plugin.app.wiring import Wiring

    environment = os.environ
    register(Wiring.of(environment.get(ROOT) or None, {}, environment), environment.get(INSTANCE_ID) or None)


def register(wiring: Wiring, instance_id: str | None, verbose: bool = False) -> None:
    """Result to stdout, talk to stderr. Raises InputError and PassError as `Registrar.register`."""
    done = wiring.registrar(instance_id, say).register()
    if done is None:
        print("nothing to register: the registry is switched off (registry: null)")
        return
    for note in done.notes:
        say(note)
    with contextlib.suppress(OSError):  # it is registered, whether anybody can read that or not
        print(done.sentence())
    if verbose:
        say(f"known by {done.how}")
