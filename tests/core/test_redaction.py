"""What leaves the cluster names no account, address or secret, and can still be read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core.hostlists import expand
from topology_plugin.core.redaction import Redaction


@pytest.mark.parametrize(
    ("text", "redacted"),
    [
        ("10.1.1.11", "net1.11"),
        ("ip-10-1-1-11", "ip-net1-11"),
        ("ip-10-1-1-[11-14],ip-10-1-2-7", "ip-net1-[11-14],ip-net2-7"),
        ("NodeName=ip-10-1-1-8 NodeAddr=10.1.1.8", "NodeName=ip-net1-8 NodeAddr=net1.8"),
        ("SlurmctldHost=ip-10-1-1-5(10.1.1.5)", "SlurmctldHost=ip-net1-5(net1.5)"),
        ("arn:aws:sagemaker:us-west-2:111122223333:cluster/x", "arn:aws:sagemaker:us-west-2:ACCOUNT-1:cluster/x"),
        ("fs-0123456789abcdef0.fsx.us-west-2.amazonaws.com", "fs-1.fsx.us-west-2.amazonaws.com"),
        ("StoragePass=hunter2 StorageUser=slurm", "StoragePass=REDACTED StorageUser=slurm"),
        ('  "api_token": "abc"', '  "api_token": "REDACTED"'),
        ("AKIAIOSFODNN7EXAMPLE", "ACCESS-KEY"),
        ("fe80::1ff:fe23:4567:890a", "ipv6-1"),
    ],
)
def test_each_thing_is_replaced_by_a_name(text: str, redacted: str) -> None:
    assert Redaction().text(text) == redacted


@pytest.mark.parametrize(
    "text",
    [
        "slurm 26.05.5",
        "25.11.4",
        "i-0a000000000000003",
        "nn-3aaaaaaaaaaaaaaa1",
        "us-0001",
        "2026-11-30T08:54:48",
        "i-111122223333",
    ],
)
def test_versions_ids_and_times_stay(text: str) -> None:
    assert Redaction().text(text) == text


def test_the_same_thing_has_the_same_name_in_every_text_and_another_has_another() -> None:
    redaction = Redaction()
    first = redaction.text("10.1.1.11 10.1.2.11")
    assert first == "net1.11 net2.11"
    assert redaction.text("ip-10-1-2-5 10.1.1.4") == "ip-net2-5 net1.4"


octets = st.integers(0, 255)


@given(octets, octets, octets, st.lists(octets, min_size=1, unique=True))
def test_no_network_gets_through_and_node_lists_can_still_be_read(a: int, b: int, c: int, last: list[int]) -> None:
    listed = f"ip-{a}-{b}-{c}-[{','.join(map(str, last))}]"
    dotted = " ".join(f"{a}.{b}.{c}.{d}" for d in last)
    text = Redaction().text(f"nodes: {listed}\n{dotted}\n")
    assert f"{a}-{b}-{c}" not in text and f"{a}.{b}.{c}." not in text
    assert [int(name.rsplit("-", 1)[1]) for name in expand(text.split()[1])] == last
