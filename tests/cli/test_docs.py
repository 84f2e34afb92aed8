"""docs/cli.md is what the commands say, and every command's help has an example that exists."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import click
import pytest

from topology_plugin.cli.main import COMMANDS, cli

DOCS = Path(__file__).parents[2] / "docs"


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate_cli", DOCS / "generate_cli.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    assert (DOCS / "cli.md").read_text(encoding="utf-8") == generator().text(), (
        "docs/cli.md is out of date: run docs/generate_cli.py"
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_in_help_name_options_that_exist(name: str) -> None:
    text = generator().help_of(name)
    context = click.Context(cli)
    for example in re.findall(r"hyperpod-topology ([a-z]+)([^\n|>&]*)", text):
        command = cli.get_command(context, example[0])
        assert command is not None, f"{example[0]} is no command"
        known = {flag for parameter in command.params for flag in (*parameter.opts, *parameter.secondary_opts)}
        own = example[1].split(" -- ")[0].split("  ")[0]
        for flag in re.findall(r"(?<!\S)(--?[a-z][a-z-]*)", own):
            passes_on = command.context_settings.get("ignore_unknown_options", False)
            assert flag in known or passes_on, f"{name}: {flag} in an example does not exist"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_shows_examples(name: str) -> None:
    assert "Examples:" in generator().help_of(name)
