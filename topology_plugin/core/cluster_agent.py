"""cluster_agent.json (controller only, field): whether HyperPod's own agent writes topologies there."""

from __future__ import annotations

from dataclasses import dataclass

from topology_plugin.core.issues import Issue
from topology_plugin.core.json_document import json_object, printable, shown

FILE = "cluster_agent.json"


@dataclass(frozen=True)
class ClusterAgent:
    """None: the file does not say."""

    enable_topology: bool | None = None
    topology_label: str | None = None
    use_instance_names: bool | None = None
    issues: tuple[Issue, ...] = ()


def parse(text: str | bytes, file: str = FILE) -> ClusterAgent:
    """Reads the file. Raises InputError where it is no JSON object; unknown keys are the agent's business."""
    data = json_object(text, file)
    issues: list[Issue] = []
    slurm = data.get("SlurmConfiguration")
    if slurm is not None and not isinstance(slurm, dict):
        issues.append(Issue(f"{file}: SlurmConfiguration", f"is {shown(slurm)}, not an object"))
    settings = slurm if isinstance(slurm, dict) else {}

    def boolean(key: str) -> bool | None:
        value = settings.get(key)
        if isinstance(value, str) and value.lower() in ("true", "false"):
            return value.lower() == "true"
        if value is None or isinstance(value, bool):
            return value
        issues.append(Issue(f"{file}: SlurmConfiguration.{key}", f"{shown(value)} is neither true nor false"))
        return None

    label = settings.get("TopologyLabel")
    return ClusterAgent(
        boolean("EnableTopology"),
        str(label) if printable(label) else None,
        boolean("UseInstanceNames"),
        tuple(issues),
    )
