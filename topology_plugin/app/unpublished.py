"""How what nobody has published about HyperPod looks on this machine."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from importlib.util import find_spec
from typing import Any

from topology_plugin.app.wiring import Wiring
from topology_plugin.core.checkup import Patient


def unpublished(wiring: Wiring, patient: Patient) -> Iterable[tuple[str, str]]:
    """Facts about HyperPod that AWS does not document, as they are on this machine."""
    raw: Any = None
    with contextlib.suppress(OSError, ValueError, RecursionError):
        raw = json.loads(wiring.places.resource_config.read_bytes().decode("utf-8-sig"))
    if isinstance(raw, Mapping):
        nested = raw.get("ClusterConfig")
        inside: Mapping[str, Any] = nested if isinstance(nested, Mapping) else {}
        places = [name for name, where in (("ClusterConfig", inside), ("the top level", raw)) if "ClusterType" in where]
        yield "ClusterType stands in", " and ".join(places) or "no place"
        yield "InstanceLabel is", _label_forms(raw)
    tag = wiring.places.root.path("/sys/devices/virtual/dmi/id/board_asset_tag")
    with contextlib.suppress(OSError):
        told = tag.read_text(errors="replace").strip()
        yield "board_asset_tag holds", "an instance id" if told.startswith("i-") else "something else"
    if patient.agent is not None:
        yield "cluster_agent.json says EnableTopology", str(patient.agent.enable_topology)
        yield "UseInstanceNames", str(patient.agent.use_instance_names)
    if patient.slurm.running:
        yield "slurmctld runs under", "plain -D" if patient.slurm.foreground else "systemd or as a daemon"
    yield "boto3 is", "installed" if find_spec("boto3") else "not installed"


def _label_forms(raw: Mapping[str, Any]) -> str:
    forms: dict[str, int] = {}
    groups = raw.get("InstanceGroups")
    for group in groups if isinstance(groups, list) else []:
        instances = group.get("Instances") if isinstance(group, Mapping) else None
        for instance in instances if isinstance(instances, list) else []:
            if isinstance(instance, Mapping):
                form = _label_form(instance)
                forms[form] = forms.get(form, 0) + 1
    return ", ".join(f"{form} ({count})" for form, count in sorted(forms.items(), key=lambda f: -f[1])) or "nowhere"


def _label_form(instance: Mapping[str, Any]) -> str:
    if "InstanceLabel" not in instance:
        return "absent"
    label = instance["InstanceLabel"]
    if isinstance(label, Mapping):
        return f"a map of {', '.join(sorted(map(str, label)))}" if label else "an empty map"
    if isinstance(label, list):
        keys = sorted({key for entry in label if isinstance(entry, Mapping) for key in map(str, entry)})
        return f"a list of objects with {', '.join(keys)}" if label else "an empty list"
    return "null" if label is None else f"a {type(label).__name__}"
