"""Records: what one instance says about itself, a JSON file of its own in the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from topology_plugin.core.position import Position
from topology_plugin.core.resource_config import INSTANCE_ID, Instance, InstanceGroup

SCHEMA = 1
SUFFIX = ".json"
LABELS = "resource-config"
NOTHING: Mapping[str, Any] = {}


class Record(NamedTuple):
    """`answers`: source → position, `errors`: source → why it gave none; a source with neither has no network data.
    `partitions` None: the node could not read which (API-driven clusters); `zone_id` None: IMDS was not asked.
    """

    cluster_arn: str | None
    instance_id: str
    instance_name: str | None = None
    customer_address: str | None = None
    agent_address: str | None = None
    group: str | None = None
    instance_type: str | None = None
    partitions: tuple[str, ...] | None = None
    zone_id: str | None = None
    answers: Mapping[str, Position] = NOTHING
    errors: Mapping[str, str] = NOTHING

    @property
    def position(self) -> Position | None:
        """What the node's own copy of resource_config.json says."""
        return self.answers.get(LABELS)

    @property
    def file_name(self) -> str:
        return self.instance_id + SUFFIX


def of_instance(
    cluster_arn: str | None,
    group: InstanceGroup,
    instance: Instance,
    instance_id: str,
    partitions: tuple[str, ...] | None,
    zone_id: str | None,
) -> Record:
    """The record of one instance: facts about itself only, as its copy of the file may be stale in others (field)."""
    return Record(
        cluster_arn,
        instance_id,
        instance.instance_name,
        instance.customer_address,
        instance.agent_address,
        group.name,
        group.instance_type,
        partitions,
        zone_id,
        {LABELS: instance.position} if instance.position else {},
        {LABELS: instance.label_issue} if instance.label_issue else {},
    )


def fragment(position: Position | None) -> dict[str, Any]:
    """The node's piece of its partition's topology as it sees it, in the network's own ids: its UltraServer's block,
    else the switches above it from the top to the leaf, else nothing that could be near."""
    if position is not None and position.ultraserver:
        return {"kind": "block", "block": position.ultraserver}
    if position is not None and position.path:
        return {"kind": "tree", "switches": list(position.path)}
    return {"kind": "flat"}


def dump(record: Record) -> bytes:
    """The record's file: same facts, same bytes; no time, no host's state."""
    sources = sorted({LABELS, *record.answers, *record.errors})
    data = {
        "schema": SCHEMA,
        "cluster_arn": record.cluster_arn,
        "instance_id": record.instance_id,
        "instance_name": record.instance_name,
        "addresses": {"customer": record.customer_address, "agent": record.agent_address},
        "group": record.group,
        "instance_type": record.instance_type,
        "partitions": None if record.partitions is None else list(record.partitions),
        "zone_id": record.zone_id,
        "answers": {source: _answer(record, source) for source in sources},
        "fragment": fragment(record.position),
    }
    return (json.dumps(data, indent=1) + "\n").encode("ascii")


def _answer(record: Record, source: str) -> dict[str, Any]:
    if source in record.errors:
        return {"error": record.errors[source]}
    position = record.answers.get(source, Position())
    return {"path": list(position.path), "ultraserver": position.ultraserver}


def is_record_name(file_name: str) -> bool:
    return file_name.endswith(SUFFIX) and INSTANCE_ID.match(file_name[: -len(SUFFIX)]) is not None
