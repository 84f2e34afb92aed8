from __future__ import annotations

import json
from typing import Any

import pytest

from topology_plugin.core import cluster_agent
from topology_plugin.core.cluster_agent import ClusterAgent


@pytest.mark.parametrize(
    ("document", "expected", "wheres"),
    [
        (
            {"SlurmConfiguration": {"EnableTopology": True, "UseInstanceNames": False}},
            ClusterAgent(True, None, False),
            [],
        ),
        ({"SlurmConfiguration": {"EnableTopology": "true", "TopologyLabel": "x"}}, ClusterAgent(True, "x", None), []),
        ({"SlurmConfiguration": None}, ClusterAgent(), []),
        ({}, ClusterAgent(), []),
        ({"SlurmConfiguration": []}, ClusterAgent(), ["SlurmConfiguration"]),
        ({"SlurmConfiguration": {"EnableTopology": 3}}, ClusterAgent(), ["SlurmConfiguration.EnableTopology"]),
    ],
)
def test_the_agents_file_says_whether_it_writes_topologies(
    document: Any, expected: ClusterAgent, wheres: list[str]
) -> None:
    found = cluster_agent.parse(json.dumps(document))
    assert (found.enable_topology, found.topology_label, found.use_instance_names) == (
        expected.enable_topology,
        expected.topology_label,
        expected.use_instance_names,
    )
    assert [issue.where for issue in found.issues] == [f"cluster_agent.json: {where}" for where in wheres]
