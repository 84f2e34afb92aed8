"""The documents stay true: settings with their defaults, links, commands."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from topology_plugin.cli.main import COMMANDS
from topology_plugin.core.settings import NAMES, Settings

HERE = Path(__file__).parent.parent
DOCUMENTS = [HERE / "README.md", *sorted((HERE / "docs").glob("*.md"))]


def test_every_setting_is_documented_with_its_default() -> None:
    rows = re.findall(r"^\| `(\w+)` \| (.*?) \|", (HERE / "docs/settings.md").read_text(), re.M)
    assert [name for name, _ in rows] == list(NAMES)
    for name, shown in rows:
        default = getattr(Settings(), name)
        text = shown.strip("`")
        if default is None:
            assert text == "–"
        elif isinstance(default, str):
            assert text == default
        else:
            assert json.loads(text) == (list(default) if isinstance(default, tuple) else default)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_links_between_documents_lead_somewhere(document: Path) -> None:
    targets = re.findall(r"\]\((?!https?:)([^)#]+)", document.read_text())
    assert [target for target in targets if not (document.parent / target).exists()] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_commands_that_documents_name_exist(document: Path) -> None:
    named = re.findall(r"^\s*(?:sudo )?hyperpod-topology ([a-z]+)", document.read_text(), re.M)
    assert [name for name in named if name not in COMMANDS] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda p: p.name)
def test_make_targets_that_documents_name_exist(document: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (HERE / "Makefile").read_text(), re.M))
    named = re.findall(r"`make ([a-z0-9-]+)`|^make ([a-z0-9-]+)", document.read_text(), re.M)
    assert [a or b for a, b in named if (a or b) not in targets] == []


def test_test_modules_that_documents_and_comments_name_exist() -> None:
    """docs/safety.md promises a test for each promise; one that was moved is looked for in vain."""
    code = (path for top in ("topology_plugin", "benchmarks", "tests") for path in (HERE / top).rglob("*.py"))
    named = {
        (path.name, module)
        for path in (*DOCUMENTS, HERE / "Makefile", *code)
        for module in re.findall(r"(?:tests/|`)((?!tests/)(?:[a-z]+/)?test_[a-z0-9_]+\.py)", path.read_text())
    }
    assert len(named) > 20
    assert sorted((where, module) for where, module in named if not (HERE / "tests" / module).exists()) == []
