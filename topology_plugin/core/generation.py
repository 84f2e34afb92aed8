"""A generation: a configuration that a pass put in force, as it is kept on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from topology_plugin.core.issues import InputError, Issue

SCHEMA = 1
TOPOLOGY_YAML, TOPOLOGY_CONF, PARTITIONS, FACTS, META = (
    "topology.yaml",
    "topology.conf",
    "partitions.json",
    "facts.json",
    "meta.json",
)


@dataclass(frozen=True)
class Generation:
    """`words`: partition → `Topology=` word (None: none). `plugin`: value of TopologyPlugin, only up to Slurm 24.11.

    `facts`: node → {"instance_id", "position", "source"}, as the pass knew them. `passing`: sha256 of texts that a live
    file holds for a moment while this generation is put in force. `meta`: version, slurm_version, cluster_arn, time
    (seconds since the epoch, the controller's clock), by ("merge", "rollback", "guard", …), of (a rollback: the
    generation it repeats). `finished`: it was in force and read back."""

    number: int
    topology_yaml: bytes | None
    topology_conf: bytes | None = None
    words: Mapping[str, str | None] = field(default_factory=dict)
    plugin: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    meta: Mapping[str, Any] = field(default_factory=dict)
    passing: tuple[str, ...] = ()
    finished: bool = False

    @property
    def cluster_arn(self) -> str | None:
        arn = self.meta.get("cluster_arn")
        return arn if isinstance(arn, str) else None

    def same_content(self, other: Generation) -> bool:
        """What slurmctld gets is the same."""
        return (self.topology_yaml, self.topology_conf, self.plugin, dict(self.words)) == (
            other.topology_yaml,
            other.topology_conf,
            other.plugin,
            dict(other.words),
        )

    def holds_text(self, data: bytes) -> bool:
        """`data` is a live file as this generation writes it, or writes it for a moment."""
        return data in (self.topology_yaml, self.topology_conf) or hashlib.sha256(data).hexdigest() in self.passing


def dump(generation: Generation) -> dict[str, bytes]:
    """The files of a generation: name → content. meta.json carries the sha256 of each of the others."""
    files: dict[str, bytes] = {}
    if generation.topology_yaml is not None:
        files[TOPOLOGY_YAML] = generation.topology_yaml
    if generation.topology_conf is not None:
        files[TOPOLOGY_CONF] = generation.topology_conf
    files[PARTITIONS] = _json(dict(generation.words))
    files[FACTS] = _json(dict(generation.facts))
    files[META] = _json(
        {
            **generation.meta,
            "schema": SCHEMA,
            "number": generation.number,
            "plugin": generation.plugin,
            "passing": list(generation.passing),
            "hashes": {name: hashlib.sha256(data).hexdigest() for name, data in files.items()},
        }
    )
    return files


def load(files: Mapping[str, bytes], where: str, finished: bool) -> Generation:
    """The generation in `files` (facts.json may be left out). Raises InputError if incomplete or altered."""
    meta = _object(files.get(META), f"{where}/{META}")
    hashes, number = meta.get("hashes"), meta.get("number")
    if not isinstance(hashes, dict) or not isinstance(number, int) or meta.get("schema") != SCHEMA:
        raise InputError(Issue(f"{where}/{META}", "is not of a form known here", "it is left out"))
    for name in (TOPOLOGY_YAML, TOPOLOGY_CONF, PARTITIONS, FACTS):
        if name == FACTS and name not in files:
            continue
        if (hashlib.sha256(files[name]).hexdigest() if name in files else None) != hashes.get(name):
            raise InputError(Issue(f"{where}/{name}", "is not what meta.json says was kept", "it is left out"))
    words = _object(files.get(PARTITIONS), f"{where}/{PARTITIONS}")
    passing = meta.get("passing")
    plugin = meta.get("plugin")
    return Generation(
        number=number,
        topology_yaml=files.get(TOPOLOGY_YAML),
        topology_conf=files.get(TOPOLOGY_CONF),
        words={str(partition): word if isinstance(word, str) else None for partition, word in words.items()},
        plugin=plugin if isinstance(plugin, str) else None,
        facts=_object(files[FACTS], f"{where}/{FACTS}") if FACTS in files else {},
        meta={
            key: value for key, value in meta.items() if key not in ("hashes", "number", "schema", "passing", "plugin")
        },
        passing=tuple(str(p) for p in passing) if isinstance(passing, list) else (),
        finished=finished,
    )


def _json(value: Mapping[str, Any]) -> bytes:
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode()


def _object(data: bytes | None, where: str) -> dict[str, Any]:
    try:
        found = json.loads(data.decode()) if data is not None else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise InputError(Issue(where, "is missing or no JSON object", "it is left out"))
    return found
