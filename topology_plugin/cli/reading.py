"""Where the commands that show the cluster begin: its state, what runs on it, and what is to be said about both."""

from __future__ import annotations

from topology_plugin.app.observe_state import Seen, load_live, see
from topology_plugin.app.wiring import Wiring
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import busy
from topology_plugin.core.live import Live


def look(wiring: Wiring, given: str | None = None, *, jobs: bool = False) -> tuple[Seen, Live | None]:
    """`given`: the file that a user names. `jobs`: Slurm is asked for them even then, as no file tells of them."""
    with busy("reading the cluster"):
        seen = see(wiring, given)
        live = load_live(wiring, seen) if given is None or jobs else seen.live
    for warning in seen.warnings:
        say(warning)
    if given is None and live is None and seen.fresh and seen.state.in_force is not None:
        say("slurmctld does not answer: taken as in force is what the last generation put there")
    return seen, live
