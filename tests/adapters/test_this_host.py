"""This machine knows itself by name and by address, and takes no other for itself."""

from __future__ import annotations

import socket

import pytest

from topology_plugin.adapters.this_host import ThisHost

OWN = socket.gethostname()


@pytest.mark.parametrize(
    ("name", "address", "expected"),
    [
        (OWN, "", True),
        (OWN.upper(), "", True),
        (f"{OWN.split('.')[0]}.example.invalid", "", True),
        ("another-machine.invalid", "127.0.0.1", True),
        ("another-machine.invalid", "", False),
        ("another-machine.invalid", "192.0.2.1", False),
        ("another-machine.invalid", "::ffff:192.0.2.1", False),
        ("another-machine.invalid", "no address", False),
        ("", "", False),
        ("a" * 300, "", False),
    ],
)
def test_names_and_addresses(name: str, address: str, expected: bool) -> None:
    assert ThisHost().answers_to(name, address) is expected
