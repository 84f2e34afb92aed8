"""The machines of an instance group as resource_config.json tells them, read column by column."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

from topology_plugin.core import labels
from topology_plugin.core.issues import Issue
from topology_plugin.core.json_document import printable, shown
from topology_plugin.core.position import Position

INSTANCE_ID = re.compile(r"i-[0-9a-z]{1,40}\Z")
_BYTE = r"(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_IPV4 = rf"{_BYTE}\.{_BYTE}\.{_BYTE}\.{_BYTE}"
IPV4 = re.compile(rf"{_IPV4}\Z")

# Whole columns of plain values, one a line.
_IDS = re.compile(r"(?:i-[0-9a-z]{1,40}(?:\n|\Z))+\Z")
_ADDRESSES = re.compile(rf"(?:(?!127\.|0\.){_IPV4}(?:\n|\Z))+\Z")
_NAMES = re.compile(r"(?:[A-Za-z0-9_.-]{1,256}(?:\n|\Z))+\Z")


class Instance(NamedTuple):
    """One machine as the file tells it; None: not told, or told in a way that cannot be used (then there is an issue).

    `position` None with `label_issue` "": no network data.
    """

    instance_id: str | None
    instance_name: str | None
    customer_address: str | None
    agent_address: str | None
    position: Position | None = None
    label_issue: str = ""


class Findings:
    """Plain values out of JSON values; what cannot be used becomes an issue with its exact place."""

    def __init__(self, prefix: str = "") -> None:
        self.prefix = prefix
        self.issues: list[Issue] = []

    def issue(self, where: str, what: str, remedy: str = "") -> None:
        self.issues.append(Issue(self.prefix + where, what, remedy))

    def text(self, where: str, value: object) -> str | None:
        if value is None:
            return None
        if isinstance(value, str) and printable(value):
            return value
        self.issue(where, "is empty" if value == "" else f"{shown(value)} is not short plain text")
        return None

    def address(self, where: str, value: object) -> str | None:
        if value is None:
            return None
        found = parse_address(value)
        if found is None:
            self.issue(where, "is empty" if value == "" else f"{shown(value)} is not an IP address")
        elif names_no_machine(found):
            self.issue(where, f"{found} is an address that names no machine")
            found = None
        return found

    def instance_id(self, where: str, value: object) -> str | None:
        if isinstance(value, str) and INSTANCE_ID.match(value):
            return value
        self.issue(where, "is missing" if value is None else f"{shown(value)} is not an instance id")
        return None


def parse_address(value: object) -> str | None:
    """An IP address in its canonical form; None: not one."""
    if not isinstance(value, str):
        return None
    if IPV4.match(value):
        return value
    if ":" not in value:
        return None
    import ipaddress  # a few milliseconds, and hardly ever needed

    try:
        return str(ipaddress.IPv6Address(value))
    except ValueError:
        return None


def names_no_machine(address: str) -> bool:
    """Loopback and unspecified addresses: every machine has them."""
    return address.startswith(("127.", "0.")) or address in ("::1", "::")


class Machines:
    """Reads the `Instances` of one group after the other; notices ids and addresses that stand twice in the file."""

    def __init__(self, findings: Findings) -> None:
        self.findings = findings
        self._positions: dict[tuple[object, ...] | None, Position | None] = {}
        self._ids: dict[str, str] = {}
        self._addresses: dict[str, str] = {}

    def read(self, where: str, values: object) -> tuple[Instance, ...]:
        """Missing, null and [] are a group without machines (field: the stock script died of it)."""
        findings = self.findings
        if values is None:
            return ()
        if not isinstance(values, list):
            findings.issue(where, f"is {shown(values)}, not a list")
            return ()
        entries: list[dict[str, Any]] = []
        numbers: list[int] = []
        for number, value in enumerate(values):
            if isinstance(value, dict):
                entries.append(value)
                numbers.append(number)
            else:
                findings.issue(f"{where}[{number}]", f"is {shown(value)}, not an object")
        places = _Places(where, numbers)
        ids = _column(entries, places, "InstanceId", _IDS, findings.instance_id)
        addresses = _column(entries, places, "CustomerIpAddress", _ADDRESSES, findings.address)
        agents = _column(entries, places, "AgentIpAddress", _ADDRESSES, findings.address)
        names = _column(entries, places, "InstanceName", _NAMES, findings.text)
        self._once(ids, places, "InstanceId", self._ids)
        self._once(addresses, places, "CustomerIpAddress", self._addresses)
        positions, label_issues = self._labels(entries, places)
        return tuple(map(Instance, ids, names, addresses, agents, positions, label_issues))

    def _once(self, values: list[str | None], places: _Places, key: str, seen: dict[str, str]) -> None:
        """An issue for each value that names a second machine."""
        plain = [value for value in values if value is not None]
        distinct = set(plain)
        if len(distinct) == len(plain) and seen.keys().isdisjoint(distinct):
            seen.update(dict.fromkeys(plain, places.where))
            return
        for index, value in enumerate(values):
            if value is None:
                continue
            if value in seen:
                remedy = "passes by itself while a machine is being replaced" if key == "CustomerIpAddress" else ""
                self.findings.issue(places.at(index, key), f"{value} also stands in {seen[value]}", remedy)
            else:
                seen[value] = places.at(index, key)

    def _labels(self, entries: Iterable[dict[str, Any]], places: _Places) -> tuple[list[Position | None], list[str]]:
        """Positions, and what is wrong with labels. Neighbours share all of a label: each distinct one is read once."""
        known = self._positions
        positions: list[Position | None] = []
        label_issues: list[str] = []
        for index, entry in enumerate(entries):
            label, position, wrong = entry.get("InstanceLabel"), None, ""
            if label is not None:
                key = (*label, *label.values()) if type(label) is dict else None
                try:
                    position = known[key]
                except (KeyError, TypeError):  # TypeError: a value that is no text
                    try:
                        position = labels.parse(label)
                    except labels.LabelError as error:
                        wrong = str(error)
                        self.findings.issue(places.at(index, "InstanceLabel"), wrong)
                    else:
                        if key is not None and all(type(part) is str for part in key):
                            known[key] = position
            positions.append(position)
            label_issues.append(wrong)
        return positions, label_issues


@dataclass(frozen=True)
class _Places:
    """Where the machines of one group stand; the text is only made for a message."""

    where: str
    numbers: list[int]

    def at(self, index: int, key: str) -> str:
        return f"{self.where}[{self.numbers[index]}].{key}"


def _column(
    entries: list[dict[str, Any]],
    places: _Places,
    key: str,
    plain: re.Pattern[str],
    read: Callable[[str, object], str | None],
) -> list[str | None]:
    """One key of all machines. Where all are plain, one match says so (a pass has 16,384); else one by one."""
    found = [entry.get(key) for entry in entries]
    try:
        together = "\n".join(found)  # type: ignore[arg-type]
    except TypeError:
        together = ""
    if together.count("\n") == len(found) - 1 and plain.match(together):
        return found
    return [read(places.at(index, key), value) for index, value in enumerate(found)]
