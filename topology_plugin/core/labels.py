"""InstanceLabel: an instance's network layers, in every form it may take (its exact JSON is not published)."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from topology_plugin.core.json_document import MAX_TEXT, shown
from topology_plugin.core.position import Position

PREFIX = "topology.k8s.aws/"
LAYER = re.compile(r"network-node-layer-([0-9]{1,3})\Z")
ULTRASERVER = "ultraserver-id"


class LabelError(ValueError):
    """A label that is there and cannot be used; says what is wrong with it."""


def is_id(value: object) -> bool:
    """True for text that can be an id. EC2 and labels send the string "null" where there is none yet (doc, field)."""
    return (
        isinstance(value, str)
        and 0 < len(value) <= MAX_TEXT
        and value.isprintable()
        and value.lower() not in ("null", "none")
        and value == value.strip()
    )


def parse(label: object) -> Position | None:
    """The position a label gives; None: no network data. Raises LabelError for a label that cannot be used.

    A map or a list of {"Key", "Value"} or {"Name", "Value"}; keys with or without `topology.k8s.aws/`, in any order;
    layer 1 is the top. A gap between layers leaves the way to the leaf unknown, so the path is not used; layers missing
    at the end are a type with fewer of them.
    """
    if label is None or label == "" or label == "null" or label == {} or label == []:
        return None
    layers: dict[int, str] = {}
    ultraserver: str | None = None
    for key, value in _pairs(label):
        name = key.strip().removeprefix(PREFIX).lower()
        layer = LAYER.match(name)
        if layer is None and name != ULTRASERVER:
            continue
        identity = _id(key, value)
        if identity is None:
            continue
        if layer is None:
            if ultraserver not in (None, identity):
                raise LabelError(f"two UltraServers, {ultraserver} and {identity}")
            ultraserver = identity
        elif layers.setdefault(int(layer[1]), identity) != identity:
            raise LabelError(f"layer {int(layer[1])} has two ids, {layers[int(layer[1])]} and {identity}")
    return _position(layers, ultraserver)


def _position(layers: Mapping[int, str], ultraserver: str | None) -> Position | None:
    order = sorted(layers)
    if order:
        expected = 0 if order[0] == 0 else 1
        for number in order:
            if number != expected:
                raise LabelError(f"layer {expected} has no id although layer {order[-1]} has one")
            expected += 1
    path = tuple(layers[number] for number in order)
    if len(set(path)) != len(path):
        raise LabelError("one id stands on two layers")
    return Position(path, ultraserver) if path or ultraserver else None


def _pairs(label: object) -> Iterator[tuple[str, Any]]:
    if isinstance(label, Mapping):
        yield from ((key, value) for key, value in label.items() if isinstance(key, str))
        return
    if not isinstance(label, list):
        raise LabelError(f"{shown(label)} is neither a map nor a list of keys and values")
    for number, entry in enumerate(label):
        if not isinstance(entry, Mapping):
            raise LabelError(f"[{number}] {shown(entry)} is no key with a value")
        key = entry.get("Key", entry.get("Name"))
        if not isinstance(key, str):
            raise LabelError(f'[{number}] has neither "Key" nor "Name"')
        yield key, entry.get("Value")


def _id(key: str, value: object) -> str | None:
    if value is None:
        return None
    if not isinstance(value, str):
        raise LabelError(f"{key}: {shown(value)} is not text")
    identity = value.strip()
    if identity.lower() in ("", "null", "none"):
        return None
    if not is_id(identity):
        raise LabelError(f"{key}: {shown(identity)} cannot be an id")
    return identity
