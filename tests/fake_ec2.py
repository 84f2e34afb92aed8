"""DescribeInstanceTopology as the real EC2 answers it, over a table of instances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tests import cases
from tests.fake_aws import Failure, Service
from tests.fakes import FakeClock
from topology_plugin.adapters.ec2 import Ec2Topology


class Ec2:
    """DescribeInstanceTopology over a table of instances, as strict as the real one."""

    def __init__(self, instances: Sequence[Mapping[str, Any]]) -> None:
        self.instances = {entry["InstanceId"]: dict(entry) for entry in instances}
        self.unknown: set[str] = set()
        self.names_ids = True
        self.page = 100
        self.failures: list[Failure | None] = []
        self.service = Service("ec2", self.answer)

    def answer(self, operation: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        assert operation == "DescribeInstanceTopology"
        assert "MaxResults" not in parameters
        ids = parameters["InstanceIds"]
        if self.failures:
            failure = self.failures.pop(0)
            if failure is not None:
                raise failure
        if len(ids) > 100:
            raise Failure("InvalidParameterValue", "instance-ids cannot contain over 100 values.")
        bad = sorted(self.unknown.intersection(ids))
        if bad:
            message = f"The instance IDs '{', '.join(bad)}' do not exist" if self.names_ids else "Some do not exist"
            raise Failure("InvalidInstanceID.NotFound", message)
        found = [self.instances[i] for i in ids if i in self.instances]
        start = int(parameters.get("NextToken") or 0)
        answer: dict[str, Any] = {"Instances": found[start : start + self.page]}
        if start + self.page < len(found):
            answer["NextToken"] = str(start + self.page)
        return answer

    @property
    def asked(self) -> list[list[str]]:
        return [parameters["InstanceIds"] for parameters in self.service.asked]


def topology(ec2: Ec2, clock: FakeClock, seconds: float = 60) -> Ec2Topology:
    return Ec2Topology(ec2.service.calls(clock, seconds), clock)


def ids_of(entries: Sequence[Mapping[str, Any]]) -> list[str]:
    return [entry["InstanceId"] for entry in entries]


F0 = cases.f0_ec2()["Instances"]
