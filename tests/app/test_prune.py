from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest

from tests import cases
from tests.fakes import FakeClock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.app.prune import Pruner, Pruning
from topology_plugin.core import slurm_conf
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.records import Record

HOUR = 3600.0


class Controller:
    """F0's controller: every machine of F0 has registered, and one that is gone."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self.conf = cases.F0_SLURM_CONF
        self.loaded: list[dict[str, Any]] = []
        self.registry: RegistryDirectory | None = RegistryDirectory(path / "registry", RealFiles(), self.clock)
        self.config(cases.f0())
        for group in cases.f0()["InstanceGroups"]:
            for machine in group["Instances"]:
                self.register(machine["InstanceId"], machine["CustomerIpAddress"], machine["InstanceName"])
        self.register("i-0e000000000000001", "10.1.1.91", "worker-old-1")

    def config(self, document: Any) -> None:
        (self.path / "resource_config.json").write_text(json.dumps(document))

    def register(self, identity: str, address: str, name: str | None = None, zone: str | None = None) -> None:
        assert self.registry is not None
        self.registry.write(Record(cases.ARN, identity, name, address, group="worker-old", zone_id=zone))

    def recorded(self) -> set[str]:
        assert self.registry is not None
        return {path.stem for path in self.registry.nodes.iterdir()}

    def run(self, apply: bool = False) -> Pruning | None:
        none = self.path / "none"
        pruner = Pruner(
            lambda: slurm_conf.parse("/slurm.conf", lambda path: self.conf),
            lambda: self.loaded,
            Documents(self.path / "resource_config.json", none, none),
            lambda arn: self.registry,
            RealFiles(),
            self.clock,
            self.path / "state",
        )
        return pruner.run(apply)

    def prune(self, apply: bool = False) -> Pruning:
        done = self.run(apply)
        assert done is not None
        return done


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    return Controller(tmp_path)


GONE = "i-0e000000000000001"


def test_a_record_goes_an_hour_after_it_was_first_missed_and_only_with_apply(controller: Controller) -> None:
    first = controller.prune(apply=True)
    assert (first.gone, dict(first.waiting), first.kept) == ({}, {GONE: 0.0}, 6)
    controller.clock.sleep(HOUR - 1)
    assert controller.prune(apply=True).removed == ()
    controller.clock.sleep(1)
    listed = controller.prune()
    assert (set(listed.gone), listed.removed) == ({GONE}, ())
    assert GONE in controller.recorded()
    assert controller.prune(apply=True).removed == (GONE,)
    assert controller.recorded() == {
        machine["InstanceId"] for group in cases.f0()["InstanceGroups"] for machine in group["Instances"]
    }
    assert controller.prune().waiting == {}


def test_a_record_that_was_written_anew_meanwhile_stays(controller: Controller) -> None:
    controller.prune()
    controller.clock.sleep(HOUR)
    read_all = controller.registry.read_all  # type: ignore[union-attr]

    def then_registers(*arguments: Any) -> Any:
        reading = read_all(*arguments)
        controller.register(GONE, "10.1.1.91", zone="usw2-az1")
        return reading

    controller.registry.read_all = then_registers  # type: ignore[method-assign,union-attr]
    done = controller.prune(apply=True)
    assert done.removed == ()
    assert "registered again meanwhile" in done.notes[0]
    assert GONE in controller.recorded()


def test_what_a_killed_registration_left_is_swept_with_apply(controller: Controller) -> None:
    assert controller.registry is not None
    left = controller.registry.nodes / f".{GONE}.json.hpt-{socket.gethostname()}-4194305-1"  # above the largest pid
    left.write_text("half")
    controller.prune()
    assert left.exists()
    assert left.name in controller.prune(apply=True).notes[0]
    assert not left.exists()


@pytest.mark.parametrize("token", ["NodeAddr=10.1.1.91", "NodeHostname=worker-old-1", ""])
def test_a_node_of_slurm_conf_keeps_the_record_behind_it(controller: Controller, token: str) -> None:
    controller.conf += f"NodeName={'gpu-91' if token else 'ip-10-1-1-91'} {token} State=CLOUD\n"
    assert controller.prune().waiting == {}


def test_a_dynamic_node_keeps_the_record_behind_it(controller: Controller) -> None:
    controller.loaded = [
        {"name": "dyn-1", "address": "10.1.1.91", "hostname": "dyn-1", "state": ["IDLE", "DYNAMIC_NORM"]}
    ]
    assert controller.prune().waiting == {}


def test_an_instance_that_was_replaced_is_absent_though_its_address_is_in_slurm_conf(controller: Controller) -> None:
    document = cases.f0()
    document["InstanceGroups"][2]["Instances"][0]["InstanceId"] = "i-0a0000000000000ff"
    controller.config(document)
    controller.register("i-0a0000000000000ff", "10.1.1.11")
    assert set(controller.prune().waiting) == {GONE, "i-0a000000000000001"}


def test_of_two_records_for_one_node_that_the_config_does_not_list_both_stay(controller: Controller) -> None:
    document = cases.f0()
    del document["InstanceGroups"][2]["Instances"][0]
    controller.config(document)
    controller.register("i-0a0000000000000ff", "10.1.1.11")
    assert set(controller.prune().waiting) == {GONE}


def test_br_28_while_slurm_conf_lists_a_node_its_record_stays_however_long(controller: Controller) -> None:
    document = cases.f0()
    document["InstanceGroups"] = document["InstanceGroups"][:3]  # scaled down, and slurm.conf does not know yet
    controller.config(document)
    for _ in range(5):
        assert set(controller.prune(apply=True).waiting) <= {GONE}
        controller.clock.sleep(HOUR)
    assert "i-0b000000000000001" in controller.recorded()
    lines = controller.conf.splitlines(keepends=True)
    kept = [line for line in lines if not line.startswith(("NodeName=ip-10-1-1-2", "PartitionName=train"))]
    controller.conf = "".join(kept)
    controller.prune(apply=True)
    controller.clock.sleep(HOUR)
    assert controller.prune(apply=True).removed == ("i-0b000000000000001", "i-0b000000000000002")


@pytest.mark.parametrize(
    ("conf", "config", "words"),
    [
        ("", cases.f0(), "lists no node"),
        ("Include /does/not/exist\nNodeName=a\n", cases.f0(), "not all of it could be read"),
        (cases.F0_SLURM_CONF, {"InstanceGroups": []}, "lists no instance"),
        (cases.F0_SLURM_CONF, {"ClusterType": "Kubernetes", "InstanceGroups": []}, "Kubernetes"),
        (cases.F0_SLURM_CONF, {}, "InstanceGroups"),
    ],
)
def test_no_data_is_not_no_nodes(controller: Controller, conf: str, config: Any, words: str) -> None:
    controller.prune()
    controller.clock.sleep(2 * HOUR)
    controller.config(config)
    before = controller.recorded()
    texts = {"/slurm.conf": conf}
    pruner = Pruner(
        lambda: slurm_conf.parse("/slurm.conf", texts.get),
        lambda: [],
        Documents(controller.path / "resource_config.json", controller.path / "none", controller.path / "none"),
        lambda arn: controller.registry,
        RealFiles(),
        controller.clock,
        controller.path / "state",
    )
    with pytest.raises(InputError, match=words):
        pruner.run(apply=True)
    assert controller.recorded() == before


def test_a_registry_that_cannot_be_read_is_a_failure_and_without_one_there_is_nothing_to_do(
    controller: Controller,
) -> None:
    controller.registry = RegistryDirectory(controller.path / "nowhere", RealFiles(), controller.clock)
    with pytest.raises(PassError, match="nothing pruned"):
        controller.run()
    controller.registry = None
    assert controller.run() is None


def test_a_lost_memory_only_begins_the_hour_anew(controller: Controller) -> None:
    controller.prune()
    controller.clock.sleep(HOUR)
    (controller.path / "state" / "absent.json").write_text("[" * 100_000)
    assert controller.prune(apply=True).removed == ()
    assert GONE in controller.recorded()
