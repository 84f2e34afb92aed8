"""Second stage on a node, and what takes it back: `hyperpod-topology-setup`.

on-create | stock | on-init-complete   set this node up (called by the first stage)
uninstall [--force]                    take everything of ours out of this node
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from node_setup.install import WAYS, Log, node_root
from node_setup.processes import Systemd
from node_setup.setup import Setup
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
    removal = commands.add_parser("uninstall", help="take everything of ours out of this node")
    removal.add_argument("--force", action="store_true", help="also if Slurm's configuration cannot be cleaned")
    return found


def main(arguments: list[str] | None = None) -> int:
    options = parser().parse_args(arguments)
    root = node_root(os.environ)
    version = Path(__file__).resolve().parents[2]
    log = Log(root, also_file=options.command != "stock")
    systemd = Systemd(root, log)
    units = Units(root, version, systemd, log)
    if options.command == "uninstall":
        return uninstall(root, version, units, log, force=options.force)
    setup = Setup(root, version, options.bundle, units, systemd, log, os.environ)
    return setup.run(options.command, options.role, options.install_failed)


if __name__ == "__main__":
    sys.exit(main())
