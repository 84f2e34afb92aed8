"""Is this machine the one that a SlurmctldHost line names?"""

from __future__ import annotations

import socket
from typing import Protocol


class Host(Protocol):
    def answers_to(self, name: str, address: str = "") -> bool:
        """By its own name, or because the address (or what the name resolves to) is one of its own."""
        ...


class ThisHost:
    def answers_to(self, name: str, address: str = "") -> bool:
        own = socket.gethostname().lower()
        if name.lower() in (own, own.split(".", 1)[0]) or name.lower().split(".", 1)[0] == own:
            return True
        return any(_local(found) for found in ([address] if address else []) + _resolved(name))


def _resolved(name: str) -> list[str]:
    try:
        return sorted({str(entry[4][0]) for entry in socket.getaddrinfo(name, None, type=socket.SOCK_DGRAM)})
    except (OSError, UnicodeError):
        return []


def _local(address: str) -> bool:
    """Only an address of this machine can be bound to."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.bind((address, 0))
    except (OSError, UnicodeError):
        return False
    return True
