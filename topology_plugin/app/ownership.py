"""Whose the topology of this cluster is."""

from __future__ import annotations

from typing import TYPE_CHECKING

from topology_plugin.adapters.generations import OWNERSHIP
from topology_plugin.app.apply import Doors
from topology_plugin.core.cluster_agent import ClusterAgent
from topology_plugin.core.disk import Disk
from topology_plugin.core.state import Owner

if TYPE_CHECKING:
    from topology_plugin.app.wiring import Wiring


def owner(wiring: Wiring, doors: Doors, disk: Disk, agent: ClusterAgent | None, *, adopt: bool) -> Owner:
    if wiring.settings.mode in ("observe", "off"):
        return Owner("nobody", f"mode is {wiring.settings.mode} ({wiring.settings.origin('mode')})", writes=False)
    return Owner("us", "", writes=True)


def adopted(doors: Doors) -> bool:
    return bool((doors.generations.note(OWNERSHIP) or {}).get("adopted"))


def adopt(doors: Doors) -> None:
    doors.generations.save_note(OWNERSHIP, {**(doors.generations.note(OWNERSHIP) or {}), "adopted": True})
