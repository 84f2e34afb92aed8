"""AWS's doors, where `sources` allow them: each is made, and boto3 imported, only when it is first asked."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING

from topology_plugin.adapters.clock import Clock
from topology_plugin.core.settings import Settings

if TYPE_CHECKING:
    from topology_plugin.adapters.aws import Calls
    from topology_plugin.adapters.ec2 import Ec2Topology
    from topology_plugin.adapters.sagemaker import SageMakerCluster
    from topology_plugin.app.observation import Api
    from topology_plugin.core.sources import ApiGroup


@dataclass(frozen=True)
class Aws:
    settings: Settings
    clock: Clock
    cluster_arn: Callable[[], str | None]

    @property
    def sources(self) -> dict[str, Callable[[], Api]]:
        """Source → its door."""
        makers: dict[str, Callable[[], Api]] = {"sagemaker": lambda: self._sagemaker, "ec2": lambda: self._ec2}
        return {source: make for source, make in makers.items() if source in self.settings.sources}

    def problems(self, instance_ids: Sequence[str]) -> dict[str, str]:
        """Source → what AWS has against each of its actions, all asked now; "": all answer."""
        found: dict[str, str] = {}
        for source, make in self.sources.items():
            if find_spec("boto3") is None:
                found[source] = "boto3 is not installed, so AWS cannot be asked"
                continue
            try:
                found[source] = make().answers(instance_ids).problem or ""
                if source == "sagemaker" and not found[source]:
                    self._sagemaker.groups()
                    found[source] = self._sagemaker.silence
            except Exception as error:  # botocore has many, and none of them is more than an answer here
                found[source] = f"{type(error).__name__}: {error}"
        return found

    def groups(self) -> Mapping[str, ApiGroup]:
        """Roles and partitions by SageMaker; {} where the cluster's ARN is unknown."""
        return self._sagemaker.groups() if self.cluster_arn() else {}

    @cached_property
    def _sagemaker(self) -> SageMakerCluster:
        from topology_plugin.adapters.sagemaker import SageMakerCluster

        return SageMakerCluster(self._calls("sagemaker"), self.clock, self.cluster_arn() or "")

    @cached_property
    def _ec2(self) -> Ec2Topology:
        from topology_plugin.adapters.ec2 import Ec2Topology

        return Ec2Topology(self._calls("ec2"), self.clock)

    def _calls(self, service: str) -> Calls:
        from topology_plugin.adapters.aws import Calls, boto3_client, region_of

        client = boto3_client(service, region_of(self.cluster_arn()))
        return Calls(client, self.clock, self.settings.api_budget_seconds)
