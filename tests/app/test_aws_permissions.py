"""What `doctor` says of the role's permissions is what AWS answers to every action that a pass needs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests import cases
from tests.fake_aws import Failure, Service
from tests.fakes import FakeClock
from topology_plugin.adapters.aws import Calls
from topology_plugin.app.aws import Aws
from topology_plugin.core.settings import Settings

ANSWERS: dict[str, dict[str, Any]] = {
    "ListClusterNodes": {"ClusterNodeSummaries": []},
    "DescribeCluster": {"ClusterArn": cases.ARN, "ClusterStatus": "InService", "InstanceGroups": []},
    "DescribeInstanceTopology": {"Instances": []},
}


@dataclass(frozen=True)
class Pretended(Aws):
    """`refused`: an action that the role may not take."""

    refused: str = ""
    asked: list[str] = field(default_factory=list)

    def _calls(self, service: str) -> Calls:
        return Service(service, self.answer).calls(FakeClock())

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        self.asked.append(operation)
        if operation == self.refused:
            raise Failure(
                "AccessDeniedException" if operation != "DescribeInstanceTopology" else "UnauthorizedOperation"
            )
        return ANSWERS[operation]


def aws(**more: Any) -> Pretended:
    return Pretended(Settings(), FakeClock(), lambda: cases.ARN, **more)


def test_each_action_is_tried_once() -> None:
    all_granted = aws()
    assert all_granted.problems(["i-0123456789abcdef0"]) == {"sagemaker": "", "ec2": ""}
    assert sorted(all_granted.asked) == sorted(ANSWERS)


@pytest.mark.parametrize(("action", "source"), list(zip(ANSWERS, ("sagemaker", "sagemaker", "ec2"), strict=True)))
def test_an_action_that_is_not_granted_is_named(action: str, source: str) -> None:
    found = aws(refused=action).problems(["i-0123456789abcdef0"])
    assert f"{source}:{action} is not granted" in found.pop(source)
    assert list(found.values()) == [""]


def test_sources_that_are_not_set_are_not_asked() -> None:
    nobody = Pretended(Settings(sources=("resource-config",)), FakeClock(), lambda: cases.ARN)
    assert nobody.problems(["i-0123456789abcdef0"]) == {} and nobody.asked == []
