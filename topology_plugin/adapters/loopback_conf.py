"""The slurm.conf of a Slurm that lives on loopback alone, and the ports and directory it needs."""

from __future__ import annotations

import contextlib
import hashlib
import os
import pwd
import random
import socket
from collections.abc import Iterable
from pathlib import Path

# Jobs start within 0.7 s of their submission instead of several (run); slurmctld looks only once a second.
QUICK = "batch_sched_delay=0,sched_interval=1,bf_interval=1"


def free_ports(count: int) -> list[int]:
    """TCP ports that nobody listens on now, below those the kernel gives to outgoing connections."""
    with contextlib.ExitStack() as held:
        ports: list[int] = []
        while len(ports) < count:
            port = random.randint(12_000, 32_000)  # noqa: S311  spreads, hides nothing
            trial = held.enter_context(socket.socket())
            with contextlib.suppress(OSError):
                trial.bind(("127.0.0.1", port))
                ports.append(port)
        return ports


def spool_directory(home: Path) -> Path:
    """Where slurmds of the Slurm in `home` keep their files.

    Not in `home`, whose path may be long: the path of a slurmstepd's socket in it has room for 107 bytes only, and
    where it doesn't fit, jobs are put back into the queue without a word of it (run).
    """
    return Path("/tmp") / f"slurmd-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"  # noqa: S108  see above


def real_nodes(names: Iterable[str], attributes: str) -> str:
    """NodeName lines of nodes whose slurmds run on this machine."""
    host, names = socket.gethostname(), list(names)
    return "\n".join(
        f"NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} {attributes}"
        for name, port in zip(names, free_ports(len(names)), strict=True)
    )


def loopback_conf(home: Path, port: int, nodes: str, partitions: str, extra: str, scheduler: str) -> str:
    """Text of a slurm.conf whose slurmctld keeps all its files in `home`; `extra` lines replace those of their key.

    The log goes to slurmctld.log. Needs the directories `home`/state and, for slurmds, spool_directory(`home`).
    """
    user = pwd.getpwuid(os.geteuid()).pw_name
    settings = {
        "ClusterName": "private",
        "SlurmctldHost": f"{socket.gethostname()}(127.0.0.1)",
        "SlurmctldPort": str(port),
        "SlurmdPort": str(free_ports(1)[0]),
        "AuthType": "auth/none",
        "CredType": "cred/none",
        "SlurmUser": user,
        "SlurmdUser": user,
        "StateSaveLocation": str(home / "state"),
        "SlurmctldPidFile": str(home / "slurmctld.pid"),
        "SlurmctldLogFile": str(home / "slurmctld.log"),
        "SlurmdSpoolDir": str(spool_directory(home) / "%n"),
        "SlurmdPidFile": str(home / "slurmd-%n.pid"),
        "SlurmdLogFile": str(home / "slurmd-%n.log"),
        "SlurmdParameters": "config_overrides",
        "ProctrackType": "proctrack/linuxproc",
        "TaskPlugin": "task/none",
        "MpiDefault": "none",
        "MailProg": "/bin/true",
        "ReturnToService": "2",
        "SelectType": "select/cons_tres",
        "SchedulerParameters": scheduler,
        # CLOUD nodes: jobs get them and stay CONFIGURING, nobody powers them up or down
        "SuspendProgram": "/bin/true",
        "ResumeProgram": "/bin/true",
        "SuspendTime": "INFINITE",
        "ResumeTimeout": "60000",
        "PrivateData": "cloud",
    }
    given = {line.split("=", 1)[0].strip().lower() for line in extra.splitlines()}
    lines = [f"{key}={value}" for key, value in settings.items() if key.lower() not in given]
    return "\n".join([*lines, extra.strip("\n"), nodes.strip("\n"), partitions.strip("\n"), ""])
