"""A record's file as a controller reads it, whoever wrote it: another version, another tool, an editor."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from topology_plugin.core.issues import Issue
from topology_plugin.core.json_document import MAX_TEXT, printable, shown
from topology_plugin.core.labels import is_id
from topology_plugin.core.position import Position
from topology_plugin.core.records import NOTHING, SCHEMA, SUFFIX, Record, is_record_name

MAX_BYTES = 64 * 1024


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


def not_a_record(file_name: str) -> Issue:
    """For a file in the registry whose name is no instance id's."""
    return Issue(f"nodes/{_name(file_name)}", "is not named by an instance id", "only records belong here; remove it")


def _name(file_name: str) -> str:
    return file_name if printable(file_name) else shown(file_name)


class _Unusable(ValueError):
    def __init__(self, what: str, remedy: str = "") -> None:
        super().__init__(what)
        self.remedy = remedy


class Shared(NamedTuple):
    """The half of a record that its neighbours have too."""

    group: str | None
    instance_type: str | None
    partitions: tuple[str, ...] | None
    zone_id: str | None
    answers: Mapping[str, Position]
    errors: Mapping[str, str]


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
    reader = Fields(found, strict=schema == SCHEMA)
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


class Fields:
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

    def shared(self) -> Shared:
        return Shared(
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
