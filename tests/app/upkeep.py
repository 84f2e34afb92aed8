"""What passes ask of a pretended EC2, and the quiet in which a case ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from tests.app.stage import Stage
from tests.fake_aws import Service
from topology_plugin.adapters.ec2 import Ec2Topology
from topology_plugin.app.observation import Api
from topology_plugin.app.reconcile import Reconciler
from topology_plugin.app.watch import DRIFT_SECONDS
from topology_plugin.core.position import Position

QUIET = 2 * DRIFT_SECONDS


def asks(stage: Stage, answer: Callable[[str, Mapping[str, Any]], dict[str, Any]]) -> Service:
    """From now on passes ask this EC2, behind boto3's real client."""
    service = Service("ec2", answer)
    api: Api = Ec2Topology(service.calls(stage.clock), stage.clock)
    passes = stage.watch.ground.passes
    assert isinstance(passes, Reconciler)
    passes.observer.apis = {"ec2": lambda: api}
    return service


def entry(machine_id: str, label: Position, block: str | None = None) -> dict[str, Any]:
    found: dict[str, Any] = {"InstanceId": machine_id, "InstanceType": "p5.48xlarge", "NetworkNodes": list(label.path)}
    if label.ultraserver is not None:
        found["InstanceType"] = "p6e-gb200.36xlarge"
        found |= {} if block is None else {"CapacityBlockId": block}
    return found


def settled(stage: Stage) -> None:
    """Quiet: the same bytes, nothing to do."""
    before, reconfigures = stage.hash(), stage.ctld.reconfigures
    assert set(stage.go(QUIET)) <= {"unchanged"}
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)
