from __future__ import annotations

from pathlib import Path

import pytest

from topology_plugin.adapters.identity import LocalMachine
from topology_plugin.core.instances import IPV4


@pytest.mark.parametrize(
    ("tag", "found"),
    [
        (b"i-0a000000000000001\n", "i-0a000000000000001"),
        (b"i-0a000000000000001", "i-0a000000000000001"),
        (b"Not Specified\n", None),
        (b"", None),
        (b"\xff\xfe", None),
        (b"i-" + b"0" * 5000, None),
    ],
)
def test_the_dmi_tag_is_an_instance_id_or_nothing(tmp_path: Path, tag: bytes, found: str | None) -> None:
    (tmp_path / "tag").write_bytes(tag)
    assert LocalMachine(tmp_path / "tag").tagged_instance_id() == found


def test_no_tag_is_nothing(tmp_path: Path) -> None:
    assert LocalMachine(tmp_path / "none").tagged_instance_id() is None
    assert LocalMachine(tmp_path).tagged_instance_id() is None


def test_the_address_is_one_or_none(tmp_path: Path) -> None:
    address = LocalMachine(tmp_path / "none").address()
    assert address is None or IPV4.match(address)
