"""Who this machine is, as far as the machine itself can say: its DMI tag and its address. No network needed."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from topology_plugin.core.instances import INSTANCE_ID

DMI_TAG = "/sys/devices/virtual/dmi/id/board_asset_tag"

# Nothing is sent to it: connecting a UDP socket only makes the kernel choose the address that would send (RFC 5737).
UNROUTABLE = ("192.0.2.1", 9)


class Machine(Protocol):
    def tagged_instance_id(self) -> str | None:
        """The instance id in the DMI asset tag (Nitro; whether HyperPod's machines have it is not published)."""
        ...

    def address(self) -> str | None:
        """The address this machine would send from. At first boot it can be 127.x or the agent's (field)."""
        ...


class LocalMachine:
    """`dmi_tag`: the path of the tag, below the root."""

    def __init__(self, dmi_tag: Path) -> None:
        self._dmi_tag = dmi_tag

    def tagged_instance_id(self) -> str | None:
        try:
            with self._dmi_tag.open("rb") as file:
                tag = file.read(256).decode("ascii", "replace").strip()
        except OSError:
            return None
        return tag if INSTANCE_ID.match(tag) else None

    def address(self) -> str | None:
        import socket

        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                probe.connect(UNROUTABLE)
                return str(probe.getsockname()[0])
        except OSError:
            return None  # no route yet
