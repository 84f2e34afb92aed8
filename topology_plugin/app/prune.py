"""Pruning: records of instances that neither slurm.conf nor resource_config has known for an hour."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.files import Files
from topology_plugin.adapters.registry import Registry, Unavailable
from topology_plugin.core import absence
from topology_plugin.core.issues import InputError, Issue, PassError
from topology_plugin.core.matching import present
from topology_plugin.core.records import Record
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.stock import slurm_nodes

MEMORY_FILE = "absent.json"


@dataclass(frozen=True)
class Pruning:
    """`gone`: records absent for an hour, by id; `removed`: those of them that were removed; `waiting`: id → seconds it
    has been absent so far; `kept`: how many records are of instances that are here; `notes`: what went wrong."""

    gone: Mapping[str, Record]
    removed: tuple[str, ...]
    waiting: Mapping[str, float]
    kept: int
    notes: tuple[str, ...] = ()


@dataclass
class Pruner:
    """`conf`: slurm.conf as it is now; `loaded`: slurmctld's nodes, [] if it does not answer."""

    conf: Callable[[], SlurmConf]
    loaded: Callable[[], list[dict[str, Any]]]
    documents: Documents
    registry: Callable[[str | None], Registry | None]
    files: Files
    clock: Clock
    state_dir: Path

    def run(self, apply: bool) -> Pruning | None:
        """None: there is no registry. Raises InputError where it cannot be told who is here (no data is not "no
        nodes"), PassError where the registry cannot be read."""
        config = self.documents.resource_config()
        conf = self.conf()
        if not any(True for _ in config.instances()):
            raise InputError(Issue("resource_config.json", "lists no instance, so nothing can be called absent"))
        if not conf.nodes or not conf.complete:
            raise InputError(Issue("slurm.conf", "lists no node, or not all of it could be read", "nothing is pruned"))
        registry = self.registry(config.cluster_arn)
        if registry is None:
            return None
        try:
            reading = registry.read_all(config.cluster_arn)
        except Unavailable as error:
            raise PassError(f"nothing pruned: {error}") from None
        here = present(slurm_nodes(conf, self.loaded()), config, reading.records.values())
        now = self.clock.now()
        found = absence.note(reading.records, here, self._former(), now)
        removed: list[str] = []
        swept = registry.sweep() if apply else []
        notes = [f"{name}: left unfinished by a registration that was killed, removed" for name in swept]
        for instance_id in found.due if apply else ():
            try:
                if registry.remove(reading, instance_id):
                    removed.append(instance_id)
                else:
                    notes.append(f"{instance_id} registered again meanwhile and stays")
            except Unavailable as error:
                notes.append(str(error))
        self._remember({i: first for i, first in found.since.items() if i not in removed})
        return Pruning(
            {i: reading.records[i] for i in found.due},
            tuple(removed),
            {i: now - first for i, first in found.since.items() if i not in found.due},
            len(reading.records) - len(found.since),
            tuple(notes),
        )

    def _former(self) -> dict[str, float]:
        try:
            return absence.parse(json.loads(self.files.read(self.state_dir / MEMORY_FILE)))
        except (OSError, ValueError, RecursionError):
            return {}

    def _remember(self, since: Mapping[str, float]) -> None:
        data = (json.dumps({"absent_since": dict(since)}, indent=1, sort_keys=True) + "\n").encode()
        try:
            self.files.make_directory(self.state_dir)
            self.files.write(self.state_dir / MEMORY_FILE, data)
        except OSError as error:
            raise PassError(f"{self.state_dir / MEMORY_FILE} cannot be written: {error.strerror or error}") from None
