"""SageMaker's cluster API: UltraServers of nodes, and what a group is in Slurm. It knows no network layers (model)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from topology_plugin.adapters.asking import Remembered
from topology_plugin.adapters.aws import Calls, OutOfTime, Refused
from topology_plugin.adapters.clock import Clock
from topology_plugin.core.json_document import printable
from topology_plugin.core.labels import is_id
from topology_plugin.core.position import Position
from topology_plugin.core.resource_config import ROLES
from topology_plugin.core.sources import ApiAnswers, ApiGroup

PAGE = 100
MAX_PAGES = 1000  # a service that pages for ever is stopped long after the largest cluster


class SageMakerCluster:
    """One cluster. `cluster`: its ARN (or name). `silence`: why `groups` could not tell, the last time."""

    def __init__(self, calls: Calls, clock: Clock, cluster: str) -> None:
        self.silence = ""
        self._calls = calls
        self._known = Remembered(clock)
        self._cluster = cluster

    def answers(self, instance_ids: Sequence[str]) -> ApiAnswers:
        """The UltraServers of these, from one listing of the whole cluster, within the budget. Never raises for a
        service that fails."""
        due = self._known.due(instance_ids)
        if due:
            wanted = set(due)
            self._calls.begin()
            try:
                for node in self._pages("list_cluster_nodes", "ClusterNodeSummaries"):
                    instance_id = node.get("InstanceId")
                    if instance_id in wanted:
                        wanted.discard(instance_id)
                        self._take(str(instance_id), node.get("UltraServerInfo"))
                for instance_id in sorted(wanted):
                    self._known.unknown(instance_id, "SageMaker does not list this instance (yet)")
            except OutOfTime as error:
                self._known.unanswered(f"SageMaker gave {error}")
            except Refused as error:
                self._known.refused(_problem(error, "sagemaker:ListClusterNodes"))
        return self._known.answers(instance_ids)

    def groups(self) -> Mapping[str, ApiGroup]:
        """Role and partitions of each instance group; {} where the API cannot be asked."""
        self._calls.begin()
        self.silence = ""
        try:
            answer = self._calls.call("describe_cluster", ClusterName=self._cluster)
        except OutOfTime as error:
            self.silence = f"SageMaker gave {error}"
            return {}
        except Refused as error:
            self.silence = _problem(error, "sagemaker:DescribeCluster")
            return {}
        found: dict[str, ApiGroup] = {}
        for group in answer.get("InstanceGroups") or ():
            name, slurm = group.get("InstanceGroupName"), group.get("SlurmConfig") or {}
            if printable(name) and slurm:
                partitions = tuple(p for p in slurm.get("PartitionNames") or () if printable(p))
                found[name] = ApiGroup(ROLES.get(str(slurm.get("NodeType") or "").lower()), partitions)
        return found

    def _pages(self, operation: str, key: str) -> Any:
        more: dict[str, Any] = {}
        for _ in range(MAX_PAGES):
            answer = self._calls.call(operation, ClusterName=self._cluster, MaxResults=PAGE, **more)
            yield from answer.get(key) or ()
            if not answer.get("NextToken"):
                return
            more = {"NextToken": answer["NextToken"]}
        raise Refused("TooManyPages", f"{operation} gave {MAX_PAGES} pages and still more")

    def _take(self, instance_id: str, server: Mapping[str, Any] | None) -> None:
        kind = (server or {}).get("Type")
        if printable(kind):
            self._known.ultraserver_types[instance_id] = str(kind)
        identity = (server or {}).get("Id")
        if is_id(identity):
            self._known.tell(instance_id, Position((), str(identity)))
        elif server is not None:
            self._known.unknown(instance_id, "SageMaker has not filled in its UltraServer yet")
        else:
            self._known.nothing(instance_id, "SageMaker names no UltraServer for this instance")


def _problem(error: Refused, action: str) -> str:
    if error.code in ("AccessDeniedException", "AccessDenied", "UnauthorizedOperation"):
        return f"SageMaker may not be asked: {action} is not granted ({error.code})"
    return f"SageMaker cannot be asked: {error}"
