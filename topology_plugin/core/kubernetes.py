"""A HyperPod-on-EKS cluster from `kubectl get nodes -o json`: only to be looked at, there is no Slurm to configure.

Labels (AWS documentation): `topology.k8s.aws/network-node-layer-N` (1 is the top), `topology.k8s.aws/ultraserver-id`,
`topology.k8s.aws/zone-id`, `node.kubernetes.io/instance-type`, `sagemaker.amazonaws.com/instance-group-name`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from topology_plugin.core.decision import Memory
from topology_plugin.core.hostlists import node_order
from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.json_document import part, printable
from topology_plugin.core.labels import PREFIX, LabelError, parse
from topology_plugin.core.live import Live
from topology_plugin.core.merge import merge
from topology_plugin.core.position import KUBERNETES
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import Owner, PassResult, State

_INSTANCE_ID = re.compile(r"i-[0-9a-f]{8,17}$")
_GROUP_LABELS = ("sagemaker.amazonaws.com/instance-group-name", "eks.amazonaws.com/nodegroup")
_TYPE_LABELS = ("node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
_ZONE_LABELS = ("topology.k8s.aws/zone-id", "topology.kubernetes.io/zone")
_REMEDY = "give the output of `kubectl get nodes -o json`"


def cluster(document: Mapping[str, Any]) -> tuple[State, Live]:
    """The cluster and its node states. Instance groups stand for partitions; every node appears, labelled or not.

    What the labels say is also what is in force: nobody else decides there, and nothing is ever pending.

    Raises InputError for what is no list of nodes.
    """
    items = [document] if document.get("kind") == "Node" else document.get("items")
    if not isinstance(items, list):
        raise InputError(Issue("items", "is no list of Kubernetes nodes", _REMEDY))
    issues: list[Issue] = []
    nodes: dict[str, Node] = {}
    live: dict[str, str] = {}
    for number, item in enumerate(items):
        name = part(part(item).get("metadata")).get("name")
        if not isinstance(name, str) or not printable(name) or item.get("kind", "Node") != "Node":
            issues.append(Issue(f"items[{number}]", "is no Kubernetes node", _REMEDY))
            continue
        nodes[name] = _node(name, item)
        live[name] = _state(item)
    if issues:
        raise InputError(issues)
    seen = _inventory(nodes)
    decision = merge(seen, Settings(sources=(KUBERNETES,), mixed_partitions="tree"), Memory())
    owner = Owner("nobody", "a Kubernetes cluster: shown only", False)
    state = State(
        None,
        "",
        None,
        None,
        PassResult("observed"),
        owner,
        seen,
        decision,
        decision.configuration,
        notes=decision.notes,
    )
    return state, Live(live, jobs_known=False)


def _node(name: str, item: Mapping[str, Any]) -> Node:
    labels, spec, status = part(item["metadata"].get("labels")), part(item.get("spec")), part(item.get("status"))
    found = _INSTANCE_ID.search(str(spec.get("providerID") or "")) or _INSTANCE_ID.search(name)
    answers, silent = {}, {}
    try:
        position = parse({key: value for key, value in labels.items() if key.startswith(PREFIX)})
        if position:
            answers[KUBERNETES] = position
        else:
            silent[KUBERNETES] = "no topology.k8s.aws labels"
    except LabelError as error:
        silent[KUBERNETES] = str(error)
    return Node(
        name=name,
        instance_id=found[0] if found else None,
        group=_first(labels, _GROUP_LABELS),
        instance_type=_first(labels, _TYPE_LABELS),
        zone=_first(labels, _ZONE_LABELS),
        answers=answers,
        silent=silent,
        addresses=tuple(str(a.get("address")) for a in _maps(status.get("addresses")) if a.get("type") == "InternalIP"),
    )


def _inventory(nodes: Mapping[str, Node]) -> Inventory:
    members: dict[str, list[str]] = {}
    types: dict[str, str | None] = {}
    for name in sorted(nodes, key=node_order):
        node = nodes[name]
        group = _group(node)
        members.setdefault(group, []).append(name)
        types.setdefault(group, node.instance_type)
    grouped = {name: replace(node, group=_group(node)) for name, node in nodes.items()}
    return Inventory(
        grouped,
        {name: Group(name, types[name], "compute", (name,)) for name in sorted(members)},
        {name: Partition(name, tuple(members[name])) for name in sorted(members)},
        roles_known=True,
    )


def _group(node: Node) -> str:
    """Without any label for it, nodes of one kind of network: a few UltraServers must not hide others' switches."""
    position = next(iter(node.answers.values()), None)
    network = "nodes" if position is None else "ultraservers" if position.ultraserver else "networked"
    return node.group or node.instance_type or network


def _state(item: Mapping[str, Any]) -> str:
    if part(item.get("spec")).get("unschedulable"):
        return "drained"
    for condition in _maps(part(item.get("status")).get("conditions")):
        if condition.get("type") == "Ready":
            return "ready" if condition.get("status") == "True" else "down"
    return "unknown"


def _maps(value: object) -> list[Mapping[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _first(labels: Mapping[str, Any], names: tuple[str, ...]) -> str | None:
    return next((str(labels[name]) for name in names if labels.get(name)), None)
