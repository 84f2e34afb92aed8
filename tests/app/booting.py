"""A machine with its files that registers, on a clock that jumps."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests import cases
from tests.fakes import FakeClock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.app.register import Registrar
from topology_plugin.core.records import Record

A1 = "i-0a000000000000001"


@dataclass
class FakeMachine:
    """`addresses`: seconds since the start → address from then on."""

    clock: FakeClock
    tag: str | None = None
    addresses: dict[float, str | None] = field(default_factory=lambda: {0: None})
    start: float = 0

    def __post_init__(self) -> None:
        self.start = self.clock.monotonic()

    def tagged_instance_id(self) -> str | None:
        return self.tag

    def address(self) -> str | None:
        age = self.clock.monotonic() - self.start
        return [address for since, address in sorted(self.addresses.items()) if since <= age][-1]


@dataclass
class FakeMetadata:
    """An IMDS that answers from second `since` on."""

    clock: FakeClock
    instance: str | None = None
    zone: str | None = "usw2-az2"
    since: float = 0
    problem: str = "does not answer"
    asked: int = 0
    start: float = 0

    def __post_init__(self) -> None:
        self.start = self.clock.monotonic()

    def instance_id(self) -> str | None:
        self.asked += 1
        return self.instance if self.clock.monotonic() - self.start >= self.since else None

    def zone_id(self) -> str | None:
        return self.zone


class Node:
    """One machine with its files, on a clock that jumps."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.clock = FakeClock()
        self.machine = FakeMachine(self.clock)
        self.metadata = FakeMetadata(self.clock)
        self.said: list[str] = []
        self.registry: RegistryDirectory | None = RegistryDirectory(path / "registry", RealFiles(), self.clock)
        self.config(cases.f0())
        self.provisioning(cases.f0_provisioning())

    def config(self, document: Any) -> None:
        (self.path / "resource_config.json").write_text(json.dumps(document))

    def provisioning(self, document: Any) -> None:
        (self.path / "provisioning_parameters.json").write_text(json.dumps(document))

    def registrar(self, given: str | None = None, timeout: float = 180) -> Registrar:
        documents = Documents(
            self.path / "resource_config.json",
            self.path / "provisioning_parameters.json",
            self.path / "cluster_agent.json",
        )
        return Registrar(
            documents,
            self.machine,
            lambda: self.metadata,
            lambda arn: self.registry,
            self.clock,
            timeout,
            given,
            self.said.append,
        )

    def recorded(self) -> dict[str, Record]:
        assert self.registry is not None
        return dict(self.registry.read_all(cases.ARN).records) if self.registry.nodes.exists() else {}


def by_option(node: Node) -> Registrar:
    return node.registrar(A1)
