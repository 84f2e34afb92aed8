"""Records: what one instance says about itself, a JSON file of its own in the registry."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

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

# The first half of a record as `dump` writes it: what the instance has to itself. Plain ASCII, so that the text between
# the quotes is the value. The other half is shared with its neighbours, and is read once for all of them.
_TEXT = rf'(?:"([ !#-\[\]-~]{{1,{MAX_TEXT}}})"|null)'
_ID = INSTANCE_ID.pattern.removesuffix(r"\Z")
_RECORD_NAME = re.compile(rf"{_ID}{re.escape(SUFFIX)}\Z")
_OWN = re.compile(
    rf'\{{\n "schema": {SCHEMA},\n "cluster_arn": {_TEXT},\n "instance_id": "({_ID})",\n "instance_name": {_TEXT},\n'
    rf' "addresses": \{{\n  "customer": {_TEXT},\n  "agent": {_TEXT}\n \}},'
)
_SHARED_KEYS = {"group", "instance_type", "partitions", "zone_id", "answers", "fragment"}
_SHARED_BYTES = 4096  # more than that is no ordinary record


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


def parse(data: bytes, file_name: str, cluster_arn: str | None) -> Record | Issue:
    """The record in a file of the registry, or what makes it unusable. Never raises, whatever the bytes are.

    `cluster_arn` None: the controller does not know its own, so any is taken. Files of one schema version before and
    after this one are read: what they lack is unknown, what they add is ignored.
    """
    plain = _plain_record(data, file_name, cluster_arn)
    if plain is not None:
        return plain
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
    return _RECORD_NAME.match(file_name) is not None


def _name(file_name: str) -> str:
    return file_name if printable(file_name) else shown(file_name)


def not_a_record(file_name: str) -> Issue:
    """For a file in the registry whose name is no instance id's."""
    return Issue(f"nodes/{_name(file_name)}", "is not named by an instance id", "only records belong here; remove it")


class _Shared(NamedTuple):
    """The half of a record that its neighbours have too."""

    group: str | None
    instance_type: str | None
    partitions: tuple[str, ...] | None
    zone_id: str | None
    answers: Mapping[str, Position]
    errors: Mapping[str, str]


def _plain_record(data: bytes, file_name: str, cluster_arn: str | None) -> Record | None:
    """A record that looks as `dump` writes it, as nearly all do; None: see `_record`, which reads every form and knows
    what is wrong. Five times as fast: 16,384 records are the larger part of a pass."""
    if not data.isascii():
        return None
    text = data.decode("ascii")
    own = _OWN.match(text)
    if own is None or len(text) - own.end() > _SHARED_BYTES:
        return None
    arn, instance_id, name, customer, agent = own.groups()
    if f"{instance_id}{SUFFIX}" != file_name or arn != (cluster_arn or arn):
        return None
    shared = _shared(text[own.end() :])
    return None if shared is None else Record(cluster_arn or arn, instance_id, name, customer, agent, *shared)


@lru_cache(maxsize=8192)
def _shared(text: str) -> _Shared | None:
    """What stands behind the addresses; None: not what is expected there."""
    try:
        found = json.loads("{" + text)
        if not found or not found.keys() <= _SHARED_KEYS:
            return None
        return _Fields(found, strict=True).shared()
    except (ValueError, RecursionError):
        return None


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
    return Record(
        reader.text("cluster_arn", arn),
        instance_id,
        reader.text("instance_name", found.get("instance_name")),
        reader.text("addresses.customer", addresses.get("customer")),
        reader.text("addresses.agent", addresses.get("agent")),
        *reader.shared(),
    )


@lru_cache(maxsize=8192)
def _position(path: tuple[str, ...], ultraserver: str | None) -> Position | None:
    """Checked once for all that share it: a leaf has many nodes. ValueError: not a position. None: an empty one."""
    if not all(map(is_id, path)) or len(set(path)) != len(path) or not (ultraserver is None or is_id(ultraserver)):
        raise ValueError
    return Position(path, ultraserver) if path or ultraserver else None


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

    def shared(self) -> _Shared:
        return _Shared(
            self.text("group", self.found.get("group")),
            self.text("instance_type", self.found.get("instance_type")),
            self.partitions(),
            self.text("zone_id", self.found.get("zone_id")),
            *self.answers(),
        )

    def partitions(self) -> tuple[str, ...] | None:
        value = self.found.get("partitions")
        if value is None:
            return None
        if type(value) is list and all(map(printable, value)):
            return tuple(value)
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
        return answers or NOTHING, errors or NOTHING
