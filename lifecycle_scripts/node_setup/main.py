"""Second stage on a node, and what units call later: `hyperpod-topology-setup`.

on-create | stock | on-init-complete   set this node up (called by the first stage)
register                               the hook with a time limit that holds (systemd unit)
guard                                  the guard with a time limit that holds (before slurmctld starts); exit 0
uninstall [--force]                    take everything of ours out of this node
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from node_setup.install import WAYS, Log, node_root
from node_setup.processes import Background, Systemd, our_command
from node_setup.setup import GRACE_SECONDS, Setup
from node_setup.uninstall import uninstall
from node_setup.units import Units


def parser() -> argparse.ArgumentParser:
    found = argparse.ArgumentParser(prog="hyperpod-topology-setup", description="Set up a node, or uninstall it.")
    commands = found.add_subparsers(dest="command", required=True)
    for way in WAYS:
        command = commands.add_parser(way, help="set this node up, as the lifecycle script does")
        command.add_argument("--bundle", type=Path, help="where the bundle was unpacked (its settings and parameters)")
        command.add_argument("--install-failed", action="store_true", help=argparse.SUPPRESS)
        command.add_argument("--role", choices=("controller", "login", "compute"), help="instead of finding out")
    commands.add_parser("register", help="register within the time limit, whatever the file system does")
    removal = commands.add_parser("uninstall", help="take everything of ours out of this node")
    removal.add_argument("--force", action="store_true", help="also if Slurm's configuration cannot be cleaned")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    root = node_root(os.environ)
    version = Path(__file__).resolve().parents[2]
    if options.command == "register":
        return register(version)
    log = Log(root, also_file=options.command != "stock")
    systemd = Systemd(root, log)
    units = Units(root, version, systemd, log)
    if options.command == "uninstall":
        return uninstall(root, version, units, log, force=options.force)
    setup = Setup(root, version, options.bundle, units, systemd, log, os.environ)
    return setup.run(options.command, options.role, options.install_failed)


def register(version: Path) -> int:
    """For the unit: register's exit code, or 1 if it hangs."""
    from topology_plugin.app.wiring import Wiring

    root = node_root(os.environ)
    seconds = Wiring.of(str(root), {}, os.environ).settings.register_timeout_seconds + GRACE_SECONDS
    started = time.monotonic()
    code = Background(our_command(version, "register"), sys.stdout).wait(seconds)
    if code is None:
        print(f"register hangs after {time.monotonic() - started:.0f} s and is left: is the shared filesystem there?")
        return 1
    return code


if __name__ == "__main__":
    sys.exit(main())
