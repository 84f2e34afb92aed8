"""The controllers that slurm.conf lists, and which of them is the active one."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

# "Slurmctld(primary) at ip-10-1-1-5 is UP" (run: 24.11, 26.05)
_PINGED = re.compile(r"^Slurmctld\(\w+\) at (\S+) is (UP|DOWN)", re.MULTILINE)


@dataclass(frozen=True)
class ControllerHost:
    """A SlurmctldHost: `name`, and the address behind it in parentheses ("" if there is none)."""

    name: str
    address: str = ""


def parse(slurmctld_hosts: str) -> tuple[ControllerHost, ...]:
    """`slurmctld_hosts`: all SlurmctldHost values, commas between them. The primary first, then the backups."""
    found = []
    for text in slurmctld_hosts.split(","):
        name, _, rest = text.strip().partition("(")
        if name:
            found.append(ControllerHost(name.strip(), rest.rstrip(") ").strip()))
    return tuple(dict.fromkeys(found))


def active(listed: Sequence[ControllerHost], pinged: str | None) -> ControllerHost:
    """The first that answers: a backup acts only where those before it do not. The primary if none does, or if nobody
    could be asked (`pinged` None). `pinged`: what `scontrol ping` says, which names them in slurm.conf's order."""
    states = _PINGED.findall(pinged or "")
    up = [name for name, state in states if state == "UP"]
    by_name = {host.name: host for host in listed}
    return next((by_name.get(name, ControllerHost(name)) for name in up), listed[0])
