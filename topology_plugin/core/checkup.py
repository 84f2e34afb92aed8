"""What `doctor` looks at and what a check says. Pure: app/doctor.py gathers a Patient, core/checks_*.py judge it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from topology_plugin.core.cluster_agent import ClusterAgent
from topology_plugin.core.disk import Disk
from topology_plugin.core.issues import Issue
from topology_plugin.core.live import Live
from topology_plugin.core.provisioning import ProvisioningParameters
from topology_plugin.core.records import Record
from topology_plugin.core.resource_config import ResourceConfig
from topology_plugin.core.rules import Finding, Numbers
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import State

Result = Literal["ok", "warn", "bad", "unknown"]
Role = Literal["controller", "node"]


@dataclass(frozen=True)
class Verdict:
    """What a check found: `reason` always, `remedy` unless ok."""

    result: Result
    reason: str
    remedy: str = ""


@dataclass(frozen=True)
class Check:
    """`id`: stable, for scripts; `title`: what it looks at."""

    id: str
    title: str
    verdict: Verdict


@dataclass(frozen=True)
class Examination:
    """A check before it ran. `where`: controller (only there it means something) or anywhere."""

    id: str
    title: str
    judge: Callable[[Patient], Verdict]
    where: Literal["controller", "anywhere"] = "anywhere"


@dataclass(frozen=True)
class Document:
    """A file of HyperPod's. `error`: why it cannot be used; `issues`: what of it cannot."""

    path: str
    there: bool
    error: str = ""
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True)
class RegistryFacts:
    """`off`: switched off by setting. None in the others: could not be found out.

    `mount`: why no shared file system is there, "" if one is (or need not be); `write_error`: why a file could not be
    made; `made_by`: user id that the file had then (differs from `user`: root squash); `locks`: a second process was
    kept out by a lock of the first; `mode`, `owner`: of the directory of records.
    """

    path: str | None = None
    off: bool = False
    mount: str = ""
    file_system: str = ""
    exists: bool | None = None
    write_error: str | None = None
    made_by: int | None = None
    user: int = 0
    locks: bool | None = None
    lock_error: str = ""
    mode: int | None = None
    owner: int | None = None
    records: Mapping[str, Record] | None = None
    record_issues: tuple[Issue, ...] = ()
    read_error: str = ""


@dataclass(frozen=True)
class SlurmFacts:
    """`version`: of the commands; `answers`: slurmctld does; `config`: `scontrol show config`; `foreground`: it runs
    under plain `-D`; `explicit`: nodes with a topology string of their own."""

    commands: str | None = None
    version: Numbers | None = None
    text: str | None = None
    answers: bool = False
    config: Mapping[str, str] | None = None
    running: bool | None = None
    foreground: bool = False
    explicit: tuple[str, ...] = ()


@dataclass(frozen=True)
class ServiceFacts:
    """`guard`: the file that runs guard before slurmctld, None: not found. `watch`: systemd's word for the service."""

    guard: str | None = None
    watch: str | None = None
    systemd: bool = False


@dataclass(frozen=True)
class Patient:
    """Everything that was gathered. `state`: a pass in memory, else the last state.json (`fresh` False)."""

    role: Role
    settings: Settings
    version: str
    now: float
    root_user: bool
    documents: Mapping[str, Document]
    config: ResourceConfig | None = None
    provisioning: ProvisioningParameters | None = None
    agent: ClusterAgent | None = None
    identity: str = ""
    identity_error: str = ""
    registry: RegistryFacts = field(default_factory=RegistryFacts)
    slurm: SlurmFacts = field(default_factory=SlurmFacts)
    services: ServiceFacts = field(default_factory=ServiceFacts)
    disk: Disk | None = None
    disk_error: str = ""
    findings: tuple[Finding, ...] = ()
    state: State | None = None
    state_error: str = ""
    fresh: bool = False
    written: State | None = None
    live: Live | None = None
    aws: Mapping[str, str | None] = field(default_factory=dict)
    rehearsal: str | None = None
    state_dir_error: str = ""
    good_generation: int | None = None
    unpublished: tuple[tuple[str, str], ...] = ()


def ok(reason: str) -> Verdict:
    return Verdict("ok", reason)


def warn(reason: str, remedy: str = "") -> Verdict:
    return Verdict("warn", reason, remedy)


def bad(reason: str, remedy: str = "") -> Verdict:
    return Verdict("bad", reason, remedy)


def unknown(reason: str, remedy: str = "") -> Verdict:
    return Verdict("unknown", reason, remedy)


def some(names: tuple[str, ...] | list[str], most: int = 5) -> str:
    """The first few, and how many more."""
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
