"""A file that a user names on the command line."""

from __future__ import annotations

import sys
from pathlib import Path

from topology_plugin.core.issues import InputError, Issue


def read(name: str) -> bytes:
    """`-`: standard input. Raises InputError."""
    try:
        if name != "-":
            return Path(name).read_bytes()
        return sys.stdin.buffer.read() if sys.stdin is not None else b""  # None: whoever started us closed it
    except OSError as error:
        raise InputError(Issue(shown(name), f"cannot be read: {error.strerror or error}")) from None


def shown(name: str) -> str:
    """For messages."""
    return "standard input" if name == "-" else name or "''"
