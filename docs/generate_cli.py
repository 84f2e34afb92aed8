#!/usr/bin/env python3
"""Writes docs/cli.md from the commands themselves. A test fails when the file is not what this makes.

.venv/bin/python docs/generate_cli.py
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from topology_plugin.cli.main import COMMANDS, cli

TARGET = Path(__file__).with_name("cli.md")
WIDTH = 100

INTRODUCTION = """\
# Commands

*Generated from the commands by `docs/generate_cli.py`; a test keeps it so.*

`hyperpod-topology COMMAND` is the same as `python -m topology_plugin COMMAND`. Results go to stdout, talk to stderr.
Colour is used on terminals only, and never with `NO_COLOR` set. Node names are never wrapped or cut. Every reading
command has `-o json`; its keys are added to, never renamed or removed ([formats](formats.md)).

| exit code | means |
| --- | --- |
| 0 | done, nothing to do, observing, registered (also without a position) |
| 1 | failed; the former state is kept |
| 2 | usage, or input that cannot be used |
| 3 | changes are pending (`merge --dry-run`, `diff`) |
| 4 | `doctor` found something wrong |

Every setting is also an option of every command: `--block-sizes 9`, `--mode observe`, or `--set NAME=VALUE`
([settings](settings.md)).

## Completion

| shell | put this into its start file |
| --- | --- |
| bash (4.4 or newer) | `eval "$(_HYPERPOD_TOPOLOGY_COMPLETE=bash_source hyperpod-topology)"` |
| zsh | `eval "$(_HYPERPOD_TOPOLOGY_COMPLETE=zsh_source hyperpod-topology)"` |
| fish | `_HYPERPOD_TOPOLOGY_COMPLETE=fish_source hyperpod-topology \\| source` |

Partitions and nodes are offered as the last pass saw them.
"""


def text() -> str:
    """The whole file."""
    root = _root()
    parts = [INTRODUCTION, "## All of them\n", _block(cli.get_help(root))]
    for name in COMMANDS:
        parts += [f"## {name}\n", _block(help_of(name))]
    return "\n".join(parts)


def help_of(name: str) -> str:
    """What `hyperpod-topology NAME --help` prints. KeyError for a command that is none."""
    root = _root()
    command = cli.get_command(root, name)
    if command is None:
        raise KeyError(name)
    return command.get_help(click.Context(command, info_name=name, parent=root))


def _root() -> click.Context:
    # A command keeps its help option from the first context it sees: one without these names would stay.
    names = cli.context_settings["help_option_names"]
    return click.Context(
        cli, info_name="hyperpod-topology", terminal_width=WIDTH, max_content_width=WIDTH, help_option_names=names
    )


def _block(help_text: str) -> str:
    lines = [line.rstrip() for line in help_text.splitlines()]
    return "```\n" + "\n".join(lines).strip("\n") + "\n```\n"


if __name__ == "__main__":
    TARGET.write_text(text(), encoding="utf-8")
    print(f"{TARGET} written", file=sys.stderr)
