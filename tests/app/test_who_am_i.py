"""How a machine finds out which instance it is, and what it does not take for an answer."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import cases
from tests.app.booting import A1, Node, by_option
from topology_plugin.app.register import Registrar
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.position import Position
from topology_plugin.core.records import Record


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


def test_a_replacement_never_registers_as_the_machine_it_replaces(node: Node) -> None:
    """Same address, new id, stale file: the id is certain, the address is not."""
    node.metadata.instance = "i-0a0000000000000ff"
    node.machine.addresses = {0: "10.1.1.11"}
    with pytest.raises(PassError, match=r"i-0a0000000000000ff, which resource_config.json does not list"):
        node.registrar(timeout=30).register()
    assert node.recorded() == {}
    assert sum(node.clock.slept) == pytest.approx(30)


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


def test_a_given_id_that_is_none_is_refused(node: Node) -> None:
    with pytest.raises(InputError, match="'worker-1' is not an instance id"):
        node.registrar("worker-1").register()
