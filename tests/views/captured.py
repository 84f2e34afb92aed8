"""A cluster of 108 nodes as it was captured (tests/captured/capture.py, with a slurmctld)."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

from tests.states import without
from topology_plugin.core import state_json
from topology_plugin.core.decision import Memory
from topology_plugin.core.live import Live
from topology_plugin.core.merge import merge
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import State

CAPTURED = Path(__file__).parents[1] / "captured"


@cache
def captured() -> tuple[State, Live]:
    read = {
        name: json.loads((CAPTURED / f"cluster-108-{name}.json").read_text()) for name in ("state", "nodes", "squeue")
    }
    return state_json.load(read["state"]), Live.parse(read["nodes"]["nodes"], read["squeue"]["jobs"])


def change() -> tuple[State, Live]:
    """Three nodes leave, the late label comes: what the next pass would do then."""
    state, live = captured()
    late = next(iter(state.decision.placements["tree"].unplaced))
    other = next(iter(state.decision.placements["tree"].placed))
    nodes = state.inventory.nodes
    told = {**nodes, late: replace(nodes[late], answers=nodes[other].answers, silent={})}
    seen = without(replace(state.inventory, nodes=told), "ip-10-2-1-2", "ip-10-2-1-3", "ip-10-1-1-7")
    return replace(state, inventory=seen, decision=merge(seen, Settings(), Memory())), live
