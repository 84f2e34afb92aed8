"""`show -o json`: the topology as plain data. Its keys are stable: added to, never renamed (docs/formats.md).

{"schema": 1, "cluster_arn", "slurm_version", "generation", "shown": "in force"|"desired", "drift": bool,
 "owner": {"owner", "reason", "writes"},
 "topologies": [{"name", "kind", "default", "partitions": […], "nodes": count, "block_sizes": […],
                 "unplaced": {node: why}, "uncovered": [node, …],
                 "units": [{"name", "role": "switch"|"leaf"|"block"|"pad", "size", "idle"|null, "unplaced": bool,
                            "nodes": […], "units": […]}]}],
 "partitions": {name: {"topology", "kind", "word"|null, "rule", "refused_sizes": [[low, high], …], "nodes": […]}},
 "nodes": {name: {"instance_id", "instance_type", "group", "zone", "state"|null, "jobs": [id, …],
                  "places": {topology: [unit, …]}, "answers": {source: {"path": […], "ultraserver"}}, "silent": {…}}},
 "jobs": [{"id", "name", "user", "state", "partition", "nodes": […], "nodes_wanted", "reason"}] | null,
 "notes": [sentence, …]}
"""

from __future__ import annotations

from typing import Any

from topology_plugin.core.live import Job
from topology_plugin.views.scene import Scene, Unit, View
from topology_plugin.views.text import ways

SCHEMA = 1


def document(scene: Scene) -> dict[str, Any]:
    state = scene.state
    shown = {node for view in scene.views for node in (*view.nodes, *view.uncovered)}
    served = {partition: view for view in scene.views for partition in view.partitions}
    return {
        "schema": SCHEMA,
        "cluster_arn": state.cluster_arn,
        "slurm_version": state.slurm_version,
        "generation": state.generation,
        "shown": scene.which,
        "drift": state.drift,
        "owner": {"owner": state.owner.owner, "reason": state.owner.reason, "writes": state.owner.writes},
        "topologies": [_topology(scene, view) for view in scene.views],
        "partitions": {
            name: _partition(scene, name, view)
            for name, view in served.items()
            if scene.partition is None or name == scene.partition
        },
        "nodes": _nodes(scene, shown),
        "jobs": None if scene.live is None or not scene.live.jobs_known else [_job(j) for j in scene.live.jobs],
        "notes": list(state.notes),
    }


def _topology(scene: Scene, view: View) -> dict[str, Any]:
    return {
        "name": view.name,
        "kind": view.kind,
        "default": view.default,
        "partitions": list(view.partitions),
        "nodes": len(view.nodes),
        "block_sizes": list(view.sizes),
        "unplaced": dict(view.unplaced),
        "uncovered": list(view.uncovered),
        "units": [_unit(scene, unit) for unit in view.units],
    }


def _unit(scene: Scene, unit: Unit) -> dict[str, Any]:
    return {
        "name": unit.name,
        "role": unit.role,
        "size": unit.size,
        "idle": scene.free(unit),
        "unplaced": unit.unplaced,
        "nodes": list(unit.nodes),
        "units": [_unit(scene, child) for child in unit.children],
    }


def _partition(scene: Scene, name: str, view: View) -> dict[str, Any]:
    decision = scene.state.decision.partitions.get(name)
    return {
        "topology": view.name,
        "kind": view.kind,
        "word": scene.configuration.words.get(name),
        "rule": decision.rule if decision else "",
        "refused_sizes": [list(pair) for pair in view.refused.get(name, ())],
        "nodes": list(scene.state.inventory.partitions[name].nodes),
    }


def _nodes(scene: Scene, shown: set[str]) -> dict[str, Any]:
    places: dict[str, dict[str, list[str]]] = {}
    for view in scene.views:
        for unit in view.units:
            for member, way in ways(unit):
                places.setdefault(member, {})[view.name] = list(way)
    on = scene.live.jobs_on() if scene.live else {}
    made: dict[str, Any] = {}
    for name in (*scene.state.inventory.nodes, *sorted(shown - set(scene.state.inventory.nodes))):
        if name not in shown:
            continue
        node = scene.state.inventory.nodes.get(name)
        made[name] = {
            "instance_id": node.instance_id if node else None,
            "instance_type": node.instance_type if node else None,
            "group": node.group if node else None,
            "zone": node.zone if node else None,
            "state": scene.live.states.get(name, "unknown") if scene.live else None,
            "jobs": [job.id for job in on.get(name, ())],
            "places": places.get(name, {}),
            "answers": {
                source: {"path": list(position.path), "ultraserver": position.ultraserver}
                for source, position in (node.answers if node else {}).items()
            },
            "silent": dict(node.silent) if node else {},
        }
    return made


def _job(job: Job) -> dict[str, Any]:
    return {
        "id": job.label,
        "name": job.name,
        "user": job.user,
        "state": job.state,
        "partition": job.partition,
        "nodes": list(job.nodes),
        "nodes_wanted": job.nodes_wanted,
        "reason": job.reason,
    }
