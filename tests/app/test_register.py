"""What a machine's record says of it, and what it does while something it needs is not there."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests import cases
from tests.app.booting import A1, Node, by_option
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.core import records
from topology_plugin.core.issues import InputError, PassError


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
