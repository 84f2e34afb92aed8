"""What the shell offers for names: partitions and nodes as the last pass saw them. Silent where it can't know."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import click


def partitions(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    return [name for name in _inventory().get("partitions", {}) if name.startswith(typed)]


def targets(ctx: click.Context, parameter: click.Parameter, typed: str) -> list[str]:
    """Nodes only once their beginning is typed: thousands of names help nobody."""
    inventory = _inventory()
    found = [name for name in inventory.get("partitions", {}) if name.startswith(typed)]
    if typed:
        found += [name for name in inventory.get("nodes", {}) if name.startswith(typed)]
    return found + (["job:"] if "job:".startswith(typed) else [])


def _inventory() -> Mapping[str, Any]:
    from topology_plugin.app.observe_state import state_files
    from topology_plugin.app.wiring import Wiring
    from topology_plugin.core.issues import InputError
    from topology_plugin.core.json_document import json_object, part

    try:
        for path in state_files(Wiring.of(os.environ.get("HYPERPOD_TOPOLOGY_ROOT"), {}, os.environ)):
            if path.is_file():
                return part(json_object(path.read_bytes(), str(path)).get("inventory"))
    except (OSError, InputError):
        pass
    return {}
