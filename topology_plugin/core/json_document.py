"""JSON documents that others wrote: decoded and parsed with messages that say where; shared by all such files."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from topology_plugin.core.issues import InputError, Issue

MAX_TEXT = 256  # characters; longer ids and names are no ids and names


def json_object(text: str | bytes, file: str) -> dict[str, Any]:
    """The object a file holds. UTF-8, BOM or not, any line ends. Raises InputError naming file, line, column."""
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise InputError(Issue(file, f"is not UTF-8 text (byte {error.start})", "save it as UTF-8")) from None
    text = text.removeprefix("\ufeff")
    if not text.strip("\x00 \t\r\n"):
        raise InputError(Issue(file, "is empty", "it may just be being written: try again"))
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        line = text.splitlines()[error.lineno - 1] if error.lineno <= len(text.splitlines()) else ""
        near = line[max(0, error.colno - 21) : error.colno + 20].strip()
        raise InputError(
            Issue(
                f"{file}:{error.lineno}:{error.colno}",
                f"is not valid JSON: {error.msg[:1].lower()}{error.msg[1:]}" + (f", near {near!a}" if near else ""),
                "mend the file at that place",
            )
        ) from None
    except (RecursionError, ValueError):
        raise InputError(Issue(file, "is nested too deeply or holds a number too large to read", "mend it")) from None
    if not isinstance(found, dict):
        raise InputError(Issue(file, "holds no JSON object", "it must start with {"))
    return found


def part(value: object) -> Mapping[str, Any]:
    """An object within a document; what is none says nothing: {}."""
    return value if isinstance(value, dict) else {}


def printable(value: object, limit: int = MAX_TEXT) -> bool:
    """True for text that can stand in messages and files: not empty, no control characters, no lone surrogates."""
    return isinstance(value, str) and 0 < len(value) <= limit and value.isprintable()


def shown(value: object) -> str:
    """A value for a message: ASCII, short, whatever an input put there."""
    text = ascii(value)
    return text if len(text) <= 60 else text[:57] + "..."
