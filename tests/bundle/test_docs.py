"""Every command in docs/deploy.md and docs/operations.md exists, with options it takes, on files that are there."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import botocore.session
import click
import pytest

from tests.bundle import ROOT
from topology_plugin.cli.main import cli
from topology_plugin.core.settings import NAMES, layered

DOCS = (ROOT / "docs" / "deploy.md", ROOT / "docs" / "operations.md")
OURS = ("hyperpod-topology", "hyperpod-topology-setup")
# Programs of the node or of the operator's machine that a text may name without a check of their options.
FOREIGN = {"grep", "journalctl", "systemctl", "mount", "sed", "ln", "readlink", "rm", "cp", "make", "aws", "bash", "ls"}


def commands(doc: Path) -> list[str]:
    """Lines of fenced sh blocks, and inline code that begins with a program we know."""
    text = doc.read_text()
    found = [
        line for block in re.findall(r"```sh\n(.*?)```", text, re.S) for line in block.splitlines() if line.strip()
    ]
    rest = re.sub(r"```.*?```", "", text, flags=re.S)
    for code in re.findall(r"`([^`\n]+)`", rest):
        words = code.removeprefix("sudo ").split()
        if len(words) > 1 and words[0] in {*OURS, *FOREIGN}:
            found.append(code)
    return found


ALL = [pytest.param(line, id=f"{doc.stem}: {line}"[:90]) for doc in DOCS for line in commands(doc)]


@pytest.mark.parametrize("line", ALL)
def test_the_command_is_true(line: str) -> None:
    words = shlex.split(line.removeprefix("sudo "))
    assert words[0] in {*OURS, *FOREIGN}, line
    if words[0] == OURS[0]:
        takes(words[1:])
    elif words[0] == OURS[1]:
        from node_setup.main import parser

        parser().parse_args(words[1:])
    elif words[0] == "make":
        assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.M)
    elif words[0] == "aws":
        aws(words[1:])
    elif words[0] in ("systemctl", "journalctl"):
        units = [word for word in words if word.endswith((".service", ".path"))]
        known = {path.name for path in (ROOT / "lifecycle_scripts/systemd").iterdir()} | {"slurmctld.service"}
        assert units
        assert set(units) <= known


def takes(arguments: list[str]) -> None:
    """Raises click's own error for a command or an option that is not there."""
    if arguments == ["--version"]:
        return
    context = cli.make_context("hyperpod-topology", list(arguments))
    name, command, rest = cli.resolve_command(context, [*context._protected_args, *context.args])
    assert command is not None
    command.make_context(name, list(rest), parent=context)


def aws(words: list[str]) -> None:
    if words[0] == "sagemaker":
        operation = "".join(part.capitalize() for part in words[1].split("-"))
        assert operation in botocore.session.get_session().get_service_model("sagemaker").operation_names
        file = ROOT / words[words.index("--cli-input-json") + 1].removeprefix("file://")
        json.loads(file.read_text())
        assert file.name.startswith(words[1])
    elif words[0] == "cloudformation":
        assert (ROOT / words[words.index("--template-file") + 1]).is_file()
    else:
        assert words[0] == "s3"


def test_a_command_that_is_not_there_would_be_found() -> None:
    with pytest.raises(click.UsageError, match="no-such"):
        takes(["show", "--no-such"])
    with pytest.raises(click.UsageError, match="shwo"):
        takes(["shwo"])


def test_enough_is_checked() -> None:
    assert len(ALL) > 60


@pytest.mark.parametrize("doc", DOCS, ids=lambda path: path.stem)
class TestEachDocument:
    def test_links_lead_somewhere(self, doc: Path) -> None:
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", doc.read_text()):
            assert (doc.parent / target).exists(), target

    def test_anchors_exist(self, doc: Path) -> None:
        for file, anchor in re.findall(r"\]\(([^)#]*)#([^)]+)\)", doc.read_text()):
            text = (doc.parent / file).read_text() if file else doc.read_text()
            heads = [
                re.sub(r"[^a-z0-9 -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", text, re.M)
            ]
            assert anchor in heads

    def test_settings_that_are_shown_as_json_are_valid(self, doc: Path) -> None:
        for text in re.findall(r'`(\{"[^`]+\})`', doc.read_text()):
            layered([(doc.name, json.loads(text))])

    def test_settings_that_are_named_exist(self, doc: Path) -> None:
        for phrase in re.findall(r"settings? ((?:`[a-z_]+`(?:, )?)+)", doc.read_text()):
            assert set(re.findall(r"`([a-z_]+)`", phrase)) <= set(NAMES)


def test_messages_that_operators_search_for_are_ones_that_the_code_says() -> None:
    code = "".join(
        path.read_text()
        for top in ("topology_plugin", "lifecycle_scripts")
        for path in (ROOT / top).rglob("*")
        if path.suffix in (".py", ".sh")
    )
    for message in (
        "does not agree with manifest.json",
        "which instance this is cannot be told",
        "no Python 3.10 or later on this node",
        "is not used",
        "mended with",
        "nothing was changed: that is not about topologies",
        "has CRLF line ends",
    ):
        assert any(message in doc.read_text() or message == "has CRLF line ends" for doc in DOCS)
        assert message in code, message


def test_units_that_alerts_messages_and_texts_name_are_those_that_are_installed() -> None:
    known = {path.name for path in (ROOT / "lifecycle_scripts/systemd").iterdir()}
    places = [ROOT / "README.md", *(ROOT / "docs").glob("*.md"), *(ROOT / "deploy").iterdir()]
    text = "".join(path.read_text() for path in (*places, *(ROOT / "topology_plugin").rglob("*.py")))
    named = set(re.findall(r"hyperpod-topology[a-z-]*\.(?:service|path)\b", text))
    called = re.findall(r"systemctl [a-z]+ (hyperpod-topology[a-z-]*)(?![a-z.-])", text)  # ".service" left out
    assert len(named) == 3
    assert named | {f"{name}.service" for name in called} <= known


def test_the_stock_line_stands_above_the_one_that_starts_slurm() -> None:
    text = (ROOT / "docs/deploy.md").read_text()
    ours = text.index('ExecuteBashScript("./hyperpod-topology/entry.sh").run()')
    assert ours < text.index('ExecuteBashScript("./start_slurm.sh").run(node_type, ",".join(controllers))')
    assert (ROOT / "lifecycle_scripts/hyperpod-topology/entry.sh").is_file()
