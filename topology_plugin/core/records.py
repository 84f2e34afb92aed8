"""Records: what one instance says about itself, a JSON file of its own in the registry."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from topology_plugin.core.issues import Issue
from topology_plugin.core.json_document import MAX_TEXT, printable, shown
from topology_plugin.core.labels import is_id
from topology_plugin.core.position import Position
from topology_plugin.core.resource_config import INSTANCE_ID, Instance, InstanceGroup

SCHEMA = 1
MAX_BYTES = 64 * 1024
SUFFIX = ".json"
LABELS = "resource-config"
NOTHING: Mapping[str, Any] = {}


@dataclass(frozen=True, slots=True)
class Record:
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
    answers: Mapping[str, Position] = field(default_factory=dict)
    errors: Mapping[str, str] = field(default_factory=dict)

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


def parse(data: bytes, file_name: str, cluster_arn: str | None) -> Record | Issue:
    """The record in a file of the registry, or what makes it unusable. Never raises, whatever the bytes are.

    `cluster_arn` None: the controller does not know its own, so any is taken. Files of one schema version before and
    after this one are read: what they lack is unknown, what they add is ignored.
    """
    if not is_record_name(file_name):
        return not_a_record(file_name)
    try:
        return _record(data, file_name, cluster_arn)
    except _Unusable as error:
        return Issue(f"nodes/{_name(file_name)}", str(error), error.remedy)


class _Unusable(ValueError):
    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.remedy = remedy


def is_record_name(file_name: str) -> bool:
    return file_name.endswith(SUFFIX) and INSTANCE_ID.match(file_name[: -len(SUFFIX)]) is not None


def _name(file_name: str) -> str:
    return file_name if printable(file_name) else shown(file_name)


def not_a_record(file_name: str) -> Issue:
    """For a file in the registry whose name is no instance id's."""
    return Issue(f"nodes/{_name(file_name)}", "is not named by an instance id", "only records belong here; remove it")


def _record(data: bytes, file_name: str, cluster_arn: str | None) -> Record:
    if len(data) > MAX_BYTES:
        raise _Unusable(f"is larger than {MAX_BYTES} bytes, so no record", "remove it; the node registers again")
    again = "the node writes it anew with `register`"
    try:
        found = json.loads(data.decode())  # decoded here: half the time of guessing the encoding of bytes
    except (ValueError, RecursionError):
        raise _Unusable("is empty" if not data.strip() else "is not valid JSON", again) from None
    if type(found) is not dict:
        raise _Unusable("holds no JSON object", again)
    schema = found.get("schema")
    if type(schema) is not int or not SCHEMA - 1 <= schema <= SCHEMA + 1:
        raise _Unusable(
            f"has schema {shown(schema)}; this version reads {SCHEMA - 1} to {SCHEMA + 1}",
            "install the same version on controller and nodes",
        )
    instance_id = found.get("instance_id")
    if instance_id != file_name[: -len(SUFFIX)]:
        raise _Unusable(f"says it is {shown(instance_id)}: a record is named by its own instance id", again)
    arn = found.get("cluster_arn")
    if cluster_arn is not None and arn != cluster_arn:
        raise _Unusable(f"belongs to another cluster: {shown(arn)}", "remove it, or give each cluster its own registry")
    reader = _Fields(found, strict=schema == SCHEMA)
    addresses = reader.object("addresses")
    customer, agent = addresses.get("customer"), addresses.get("agent")
    name, group = found.get("instance_name"), found.get("group")
    instance_type, zone_id = found.get("instance_type"), found.get("zone_id")
    for text in (arn, name, customer, agent, group, instance_type, zone_id):
        if text is not None and not (type(text) is str and 0 < len(text) <= MAX_TEXT and text.isprintable()):
            arn = reader.text("cluster_arn", arn)
            name = reader.text("instance_name", name)
            customer = reader.text("addresses.customer", customer)
            agent = reader.text("addresses.agent", agent)
            group = reader.text("group", group)
            instance_type = reader.text("instance_type", instance_type)
            zone_id = reader.text("zone_id", zone_id)
            break
    answers, errors = reader.answers()
    partitions = reader.partitions()
    return Record(arn, instance_id, name, customer, agent, group, instance_type, partitions, zone_id, answers, errors)


@lru_cache(maxsize=8192)
def _position(path: tuple[str, ...], ultraserver: str | None) -> Position | None:
    """Checked once for all that share it: a leaf has many nodes. ValueError: not a position. None: an empty one."""
    if not all(map(is_id, path)) or len(set(path)) != len(path) or not (ultraserver is None or is_id(ultraserver)):
        raise ValueError
    return Position(path, ultraserver) if path or ultraserver else None


@lru_cache(maxsize=8192)
def _labels_only(position: Position | None) -> Mapping[str, Position]:
    """One map for all records of a leaf: nobody changes it."""
    return {LABELS: position} if position is not None else NOTHING


@lru_cache(maxsize=1024)
def _names(names: tuple[str, ...]) -> tuple[str, ...]:
    if not all(map(printable, names)):
        raise ValueError
    return names


def _tuple(value: object) -> tuple[Any, ...]:
    if type(value) is not list:
        raise ValueError
    return tuple(value)


class _Fields:
    """Typed fields of a record. In another schema version a field of another form is unknown, not a fault."""

    def __init__(self, found: dict[str, Any], strict: bool) -> None:
        self.found = found
        self.strict = strict

    def fault(self, where: str, value: object) -> None:
        if self.strict:
            raise _Unusable(f"{where} is {shown(value)}", "the node writes it anew with `register`")

    def text(self, where: str, value: object) -> str | None:
        if value is None:
            return None
        if type(value) is str and 0 < len(value) <= MAX_TEXT and value.isprintable():
            return value
        self.fault(where, value)
        return None

    def object(self, key: str) -> dict[str, Any]:
        value = self.found.get(key)
        if type(value) is dict:
            return value
        if value is not None:
            self.fault(key, value)
        return {}

    def partitions(self) -> tuple[str, ...] | None:
        value = self.found.get("partitions")
        if value is None:
            return None
        try:
            return _names(_tuple(value))
        except (TypeError, ValueError):
            self.fault("partitions", value)
        return None

    def answers(self) -> tuple[Mapping[str, Position], Mapping[str, str]]:
        answers: dict[str, Position] = {}
        errors: dict[str, str] = {}
        for source, value in self.object("answers").items():
            if type(value) is not dict:
                self.fault(f"answers.{_name(source)}", value)
                continue
            error = value.get("error")
            if error is not None:
                errors[source] = error if printable(error, 4 * MAX_TEXT) else shown(error)
                continue
            path = value.get("path")
            try:
                position = _position(() if path is None else _tuple(path), value.get("ultraserver"))
            except (TypeError, ValueError):  # TypeError: a list or map where an id should be
                self.fault(f"answers.{_name(source)}", value)
                continue
            if position is not None:
                answers[source] = position
        if not errors and answers.keys() <= {LABELS}:
            return _labels_only(answers.get(LABELS)), NOTHING
        return answers, errors
