from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests import cases
from tests.fakes import FakeClock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.app.register import Registrar
from topology_plugin.core import records
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.position import Position
from topology_plugin.core.records import Record

A1 = "i-0a000000000000001"


@dataclass
class FakeMachine:
    """`addresses`: seconds since the start → address from then on."""

    clock: FakeClock
    tag: str | None = None
    addresses: dict[float, str | None] = field(default_factory=lambda: {0: None})
    start: float = 0

    def __post_init__(self) -> None:
        self.start = self.clock.monotonic()

    def tagged_instance_id(self) -> str | None:
        return self.tag

    def address(self) -> str | None:
        age = self.clock.monotonic() - self.start
        return [address for since, address in sorted(self.addresses.items()) if since <= age][-1]


@dataclass
class FakeMetadata:
    """An IMDS that answers from second `since` on."""

    clock: FakeClock
    instance: str | None = None
    zone: str | None = "usw2-az2"
    since: float = 0
    problem: str = "does not answer"
    asked: int = 0
    start: float = 0

    def __post_init__(self) -> None:
        self.start = self.clock.monotonic()

    def instance_id(self) -> str | None:
        self.asked += 1
        return self.instance if self.clock.monotonic() - self.start >= self.since else None

    def zone_id(self) -> str | None:
        return self.zone


class Node:
    """One machine with its files, on a clock that jumps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self.machine = FakeMachine(self.clock)
        self.metadata = FakeMetadata(self.clock)
        self.said: list[str] = []
        self.registry: RegistryDirectory | None = RegistryDirectory(path / "registry", RealFiles(), self.clock)
        self.config(cases.f0())
        self.provisioning(cases.f0_provisioning())

    def config(self, document: Any) -> None:
        (self.path / "resource_config.json").write_text(json.dumps(document))

    def provisioning(self, document: Any) -> None:
        (self.path / "provisioning_parameters.json").write_text(json.dumps(document))

    def registrar(self, given: str | None = None, timeout: float = 180) -> Registrar:
        documents = Documents(
            self.path / "resource_config.json",
            self.path / "provisioning_parameters.json",
            self.path / "cluster_agent.json",
        )
        return Registrar(
            documents,
            self.machine,
            lambda: self.metadata,
            lambda arn: self.registry,
            self.clock,
            timeout,
            given,
            self.said.append,
        )

    def recorded(self) -> dict[str, Record]:
        assert self.registry is not None
        return dict(self.registry.read_all(cases.ARN).records) if self.registry.nodes.exists() else {}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def by_option(node: Node) -> Registrar:
    return node.registrar(A1)


def by_tag(node: Node) -> Registrar:
    node.machine.tag = A1
    return node.registrar()


def by_imds(node: Node) -> Registrar:
    node.metadata.instance = A1
    return node.registrar()


def by_address(node: Node) -> Registrar:
    node.machine.addresses = {0: "10.1.1.11"}
    return node.registrar()


@pytest.mark.parametrize(
    ("way", "zone", "asked"), [(by_option, None, 0), (by_tag, None, 0), (by_imds, "usw2-az2", 1), (by_address, None, 1)]
)
def test_a_node_finds_out_who_it_is(node: Node, way: Callable[[Node], Registrar], zone: str | None, asked: int) -> None:
    done = way(node).register()
    assert done is not None
    assert done.written is True
    assert done.record == Record(
        cases.ARN,
        A1,
        "worker-a-1",
        "10.1.1.11",
        "172.16.1.11",
        "worker-a",
        "ml.p5.48xlarge",
        ("train",),
        zone,
        {"resource-config": Position(("nn-1aaaaaaaaaaaaaaa1", "nn-2aaaaaaaaaaaaaaa1", "nn-3aaaaaaaaaaaaaaa1"))},
    )
    assert node.recorded() == {A1: done.record}
    assert node.metadata.asked == asked
    assert node.clock.slept == []
    assert way(node).register() == type(done)(done.record, done.how, False)


def test_a_node_can_be_identified_without_registering(node: Node) -> None:
    known = by_tag(node).identify()
    assert (known.group.name, known.instance.instance_id, known.how) == ("worker-a", A1, "the DMI asset tag")
    assert node.recorded() == {}
    with pytest.raises(PassError, match="not registered"):
        node.registrar("i-0fff", timeout=5).identify()


def test_a_foreign_dmi_tag_is_no_identity(node: Node) -> None:
    """Whether HyperPod's machines carry the id that resource_config names is not published: listed ids only."""
    node.machine.tag = "i-0ffffffffffffffff"
    node.metadata.instance = A1
    done = node.registrar().register()
    assert done is not None
    assert (done.record.instance_id, done.how) == (A1, "IMDS")


def test_a_machine_that_its_file_does_not_list_yet_waits_for_it(node: Node) -> None:
    document = cases.f0()
    machine = document["InstanceGroups"][2]["Instances"].pop(0)
    node.config(document)
    node.machine.tag = A1
    node.metadata.instance = A1
    sleep = node.clock.sleep

    def appears(seconds: float) -> None:
        sleep(seconds)
        if sum(node.clock.slept) > 40:
            document["InstanceGroups"][2]["Instances"] = [machine]
            node.config(document)

    node.clock.sleep = appears  # type: ignore[method-assign]
    done = node.registrar().register()
    assert done is not None
    assert done.record.instance_id == A1
    assert 40 < sum(node.clock.slept) < 50
    assert len(node.said) == 1
    assert f"IMDS says {A1}, which resource_config.json does not list" in node.said[0]


def test_a_replacement_never_registers_as_the_machine_it_replaces(node: Node) -> None:
    """Same address, new id, stale file: the id is certain, the address is not."""
    node.metadata.instance = "i-0a0000000000000ff"
    node.machine.addresses = {0: "10.1.1.11"}
    with pytest.raises(PassError, match=r"i-0a0000000000000ff, which resource_config.json does not list"):
        node.registrar(timeout=30).register()
    assert node.recorded() == {}
    assert sum(node.clock.slept) == pytest.approx(30)


# --- BR-03 ---


def test_br_03_loopback_and_agent_addresses_are_waited_out(node: Node) -> None:
    node.machine.addresses = {0: "127.0.0.1", 30: "127.0.1.1", 40: "172.16.1.11", 50: "10.1.1.11"}
    done = node.registrar().register()
    assert done is not None
    assert (done.record.instance_id, done.how) == (A1, "its address 10.1.1.11")
    assert 50 <= sum(node.clock.slept) <= 56
    assert [said for said in node.said if "127.0.0.1, which names no machine" in said]
    assert [said for said in node.said if "172.16.1.11, an agent's" in said]


def test_br_03_the_instance_id_is_preferred_as_soon_as_imds_tells_it(node: Node) -> None:
    node.machine.addresses = {0: "127.0.0.1", 30: "10.1.1.12"}
    node.metadata.instance, node.metadata.since = A1, 10
    done = node.registrar().register()
    assert done is not None
    assert (done.record.instance_id, done.how) == (A1, "IMDS")
    assert 10 <= sum(node.clock.slept) <= 16


@pytest.mark.parametrize("address", ["127.0.0.1", "127.0.1.1", "172.16.1.11", "10.9.9.9", None])
def test_br_03_without_a_customer_address_nothing_is_registered_and_it_is_said(node: Node, address: str | None) -> None:
    node.machine.addresses = {0: address}
    with pytest.raises(PassError, match="not registered") as caught:
        node.registrar(timeout=60).register()
    assert address is None or address in str(caught.value)
    assert node.recorded() == {}
    assert sum(node.clock.slept) == pytest.approx(60)


def test_br_03_an_agent_address_that_is_also_a_customer_address_is_not_matched(node: Node) -> None:
    document = cases.f0()
    document["InstanceGroups"][3]["Instances"][0]["AgentIpAddress"] = "10.1.1.11"
    node.config(document)
    node.machine.addresses = {0: "10.1.1.11"}
    with pytest.raises(PassError, match="an agent's, which is not matched"):
        node.registrar(timeout=1).register()


def test_an_address_of_two_instances_is_not_matched(node: Node) -> None:
    document = cases.f0()
    machines = document["InstanceGroups"][2]["Instances"]
    machines.append({**machines[0], "InstanceId": "i-0a0000000000000ff"})
    node.config(document)
    node.machine.addresses = {0: "10.1.1.11"}
    with pytest.raises(PassError, match="several instances have"):
        node.registrar(timeout=1).register()


# --- What it says of itself ---


@pytest.mark.parametrize("form", [..., None, []], ids=["missing", "null", "empty"])
def test_br_01_groups_without_machines_change_nothing(node: Node, form: Any) -> None:
    document = cases.f0()
    document["InstanceGroups"].insert(0, {"Name": "worker-x", "InstanceType": "ml.p5.48xlarge"})
    if form is not ...:
        document["InstanceGroups"][0]["Instances"] = form
    node.config(document)
    done = by_option(node).register()
    assert done is not None
    assert done.record.position is not None
    assert done.notes == ()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"worker_groups": [],, "version": 1}', "provisioning_parameters.json:1:22: is not valid JSON"),
        ('{"worker_groups": {"instance_group_name": "worker-a"}}', "worker_groups: is an object, not a list"),
        ('{"worker_groups": [{"instance_group_name": "worker-a", "partition_name": train}]}', "not valid JSON"),
    ],
    ids=["a-doubled-comma", "b-object", "e-unquoted"],
)
def test_br_02_a_broken_parameters_file_is_said_and_costs_only_the_partitions(
    node: Node, text: str, words: str
) -> None:
    (node.path / "provisioning_parameters.json").write_text(text)
    done = by_option(node).register()
    assert done is not None
    assert len(done.notes) == 1
    assert words in done.notes[0]
    assert done.record.partitions is None
    assert done.record.position is not None


def test_br_02d_bom_and_crlf_in_both_files_are_read(node: Node) -> None:
    for name in ("resource_config.json", "provisioning_parameters.json"):
        path = node.path / name
        text = json.dumps(json.loads(path.read_text()), indent=2).replace("\n", "\r\n")
        path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    done = by_option(node).register()
    assert done is not None
    assert (done.record.partitions, done.notes) == (("train",), ())


def test_br_04_a_worker_says_only_what_it_is_itself(node: Node) -> None:
    """Its copy still shows a group that is gone and lacks one that is new: neither is in what it says."""
    document = cases.f0()
    document["InstanceGroups"].append(
        cases.group(
            "worker-old",
            "ml.p5.48xlarge",
            cases.instance("worker-old-1", "i-0e0000000000000001", "10.1.1.41", "172.16.1.41"),
        )
    )
    node.config(document)
    done = node.registrar("i-0b000000000000001").register()
    assert done is not None
    assert list(node.recorded()) == ["i-0b000000000000001"]
    text = records.dump(done.record).decode()
    assert "worker-old" not in text
    assert "10.1.1.41" not in text
    assert done.record.group == "worker-b"


@pytest.mark.parametrize(
    ("provisioning", "slurm_config", "partitions"),
    [
        (cases.f0_provisioning(), None, ("train",)),
        (None, {"NodeType": "Compute", "PartitionNames": ["ml.p5.48xlarge"]}, ("ml.p5.48xlarge",)),
        (None, None, None),
        ({"worker_groups": []}, None, ()),
        ({"worker_groups": []}, {"NodeType": "Compute", "PartitionNames": ["gpu"]}, ("gpu",)),
    ],
    ids=["worker_groups", "the-groups-own", "unknown", "in-none", "parameters-without-it"],
)
def test_partitions_come_from_the_parameters_else_from_the_group(
    node: Node, provisioning: Any, slurm_config: Any, partitions: Any
) -> None:
    document = cases.f0()
    document["InstanceGroups"][2]["SlurmConfig"] = slurm_config
    node.config(document)
    if provisioning is None:
        (node.path / "provisioning_parameters.json").unlink()
    else:
        node.provisioning(provisioning)
    done = by_option(node).register()
    assert done is not None
    assert done.record.partitions == partitions


@pytest.mark.parametrize(
    ("label", "words"),
    [
        (None, "without a position: its InstanceLabel is absent or empty"),
        ("null", "without a position: its InstanceLabel is absent or empty"),
        ({"network-node-layer-2": "nn-2"}, "without a position: layer 1 has no id although layer 2 has one"),
        ({"ultraserver-id": "us-7"}, ": UltraServer us-7"),
        (cases.labels("nn-1", "nn-2"), ": network path nn-1 > nn-2"),
    ],
)
def test_br_09_a_node_without_a_position_registers_at_once_and_says_so(node: Node, label: Any, words: str) -> None:
    document = cases.f0()
    document["InstanceGroups"][2]["Instances"][0]["InstanceLabel"] = label
    node.config(document)
    done = by_option(node).register()
    assert done is not None
    assert node.clock.slept == []
    assert words in done.sentence()
    assert node.recorded() == {A1: done.record}


# --- What stands in the way ---


def test_a_given_id_that_is_none_is_refused(node: Node) -> None:
    with pytest.raises(InputError, match="'worker-1' is not an instance id"):
        node.registrar("worker-1").register()


@pytest.mark.parametrize("content", [None, "", "{", '{"ClusterType": "Kubernetes", "InstanceGroups": []}'])
def test_a_file_that_cannot_be_used_is_refused_within_seconds(node: Node, content: str | None) -> None:
    path = node.path / "resource_config.json"
    path.unlink() if content is None else path.write_text(content)
    with pytest.raises(InputError, match=r"resource_config\.json"):
        by_option(node).register()
    assert sum(node.clock.slept) < 5


def test_a_file_that_is_just_being_written_is_read_a_moment_later(node: Node) -> None:
    (node.path / "resource_config.json").write_text("")
    sleep = node.clock.sleep

    def finished(seconds: float) -> None:
        sleep(seconds)
        node.config(cases.f0())

    node.clock.sleep = finished  # type: ignore[method-assign]
    assert by_option(node).register() is not None


def test_a_registry_that_cannot_be_written_is_said_with_what_follows(node: Node) -> None:
    assert node.registry is not None
    node.registry.nodes.parent.mkdir()
    node.registry.nodes.write_text("not a directory")
    with pytest.raises(PassError, match=r"not registered: .*controller's copy of resource_config"):
        by_option(node).register()


def test_waiting_for_identity_and_file_system_share_one_time_limit(node: Node) -> None:
    node.machine.addresses = {0: "127.0.0.1", 50: "10.1.1.11"}
    node.registry = RegistryDirectory(node.path / "registry", RealFiles(), node.clock, lambda path: "not mounted")
    with pytest.raises(PassError, match="not mounted"):
        node.registrar(timeout=60).register()
    assert sum(node.clock.slept) == pytest.approx(60)


def test_faults_of_other_machines_are_said_but_do_not_flood_the_log(node: Node) -> None:
    document = cases.f0()
    document["InstanceGroups"].append(cases.group("worker-z", "ml.p5.48xlarge", *[{"InstanceId": "?"}] * 1000))
    node.config(document)
    done = by_option(node).register()
    assert done is not None
    assert len(done.notes) == 6
    assert "InstanceGroups[4].Instances[0].InstanceId" in done.notes[0]
    assert done.notes[-1] == "and 995 more like these in resource_config.json"


def test_without_a_registry_there_is_nothing_to_do(node: Node) -> None:
    node.registry = None
    assert by_option(node).register() is None
