"""How results look: colours on terminals only, plain text elsewhere, JSON that is one document."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from topology_plugin.core.issues import InputError, Issue

if TYPE_CHECKING:  # `merge` and `watch` only talk, and draw nothing
    from topology_plugin.views.text import Line

_LOOKS = {"title": "bold", "name": "cyan", "dim": "bright_black", "ok": "green", "warn": "yellow", "bad": "bold red"}


def colours() -> bool:
    """NO_COLOR (any value) and TERM=dumb are respected; FORCE_COLOR is for pagers that can show it."""
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return os.environ.get("TERM") != "dumb" and on_terminal()


def on_terminal() -> bool:
    """Whether results are read by a person right away."""
    return sys.stdout is not None and sys.stdout.isatty()  # None where whoever started us closed it


def put(lines: Iterable[Line]) -> None:
    """Lines to stdout. Node names are never wrapped or cut: they are there to be copied."""
    if not colours():
        from topology_plugin.views.text import plain

        click.echo(plain(lines), nl=False)
        return
    from rich.console import Console
    from rich.text import Text

    # Nothing is wrapped, so the width says nothing; rich would print nothing at all where COLUMNS is 0.
    console = Console(soft_wrap=True, highlight=False, force_terminal=True, width=80)
    for line in lines:
        text = Text(no_wrap=True)
        for piece, style in line.pieces:
            text.append(piece, style=_LOOKS.get(style, ""))
        console.print(text, soft_wrap=True)


@contextlib.contextmanager
def busy(sentence: str) -> Iterator[None]:
    """Says on a terminal what is being waited for, once that takes more than a second; leaves nothing behind."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    shown = threading.Event()

    def show() -> None:
        shown.set()
        sys.stderr.write(f"{sentence} …")
        sys.stderr.flush()

    timer = threading.Timer(1.0, show)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        if shown.is_set():
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()


def put_json(document: Any) -> None:
    click.echo(json.dumps(document, indent=2, ensure_ascii=False))


def put_text(text: str, target: str) -> None:
    """To the file that a user names, `-`: stdout. Raises InputError where it cannot be written."""
    if target == "-":
        click.echo(text, nl=False)
        return
    try:
        Path(target).write_text(text, encoding="utf-8")
    except OSError as error:
        raise InputError(Issue(target or "''", f"cannot be written: {error.strerror or error}")) from None
