"""Takes everything of ours out of a node. Slurm's configuration first: while our words are in it, the guard stays."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from node_setup.install import COMMANDS, HOME
from node_setup.processes import Background, our_command
from node_setup.units import CONTROLLER_UNITS, UNITS, Units
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.issues import InputError

SLURM_SECONDS = 400.0  # a reconfigure is polled for up to 300 s
LEFT_FILES = (
    "etc/hyperpod-topology.json",
    "etc/hyperpod-topology.json.former",
)


def uninstall(root: Path, version: Path, units: Units, log: Callable[[str], None], force: bool = False) -> int:
    """0; 1 if Slurm's configuration could not be cleaned: then everything stays as it is. Watch runs until then: it
    keeps the right to write, and once all is cleaned it puts nothing back."""
    controller = (root / UNITS / CONTROLLER_UNITS[0]).exists()
    state = state_directory(root)
    if controller:
        code = Background(our_command(version, "uninstall"), sys.stdout).wait(SLURM_SECONDS)
        if code != 0 and not force:
            log(f"ERROR: Slurm's configuration is not cleaned (exit code {code}); nothing is removed")
            return 1
        units.stop_watch()
    units.remove()
    for name in COMMANDS:
        link = root / "usr/local/bin" / name
        if link.is_symlink() and f"{HOME}/" in str(link.readlink()):
            link.unlink()
    for name in LEFT_FILES:
        (root / name).unlink(missing_ok=True)
    shutil.rmtree(state, ignore_errors=True)
    # Last: it is what runs.
    shutil.rmtree(root / HOME, ignore_errors=True)
    log("uninstalled; the registry on the shared filesystem stays until it is removed by hand")
    return 0


def state_directory(root: Path) -> Path:
    """Where the settings put it, as long as they can be read."""
    try:
        return Wiring.of(str(root), {}, os.environ).places.state_dir
    except InputError:
        return root / "var/lib/hyperpod-topology"
