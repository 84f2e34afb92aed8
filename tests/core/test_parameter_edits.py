"""A parameter of slurm.conf is set or removed, and no other byte changes."""

from __future__ import annotations

import pytest

from tests.core.two_files import MAIN, PARTS, conf_of
from topology_plugin.core.slurm_conf_edits import (
    edit_parameter,
    set_parameter,
)

# Text, value, text with TopologyPlugin at that value
PARAMETERS = {
    "changed": ("A=1\nTopologyPlugin=x # c\nB=2\n", "y", "A=1\nTopologyPlugin=y # c\nB=2\n"),
    "changed in its spelling": (" topologyplugin = \t x\r\n", "y", " topologyplugin = \t y\r\n"),
    "changed in its quotes": ('TopologyPlugin="x"', "y", 'TopologyPlugin="y"'),
    "the last one changes": ("TopologyPlugin=x\nTopologyPlugin=z\n", "y", "TopologyPlugin=x\nTopologyPlugin=y\n"),
    "already there": ("TopologyPlugin=y\n", "y", "TopologyPlugin=y\n"),
    "changed where it is continued": ("Topology\\\nPlugin=x\\\nx\nA=1\n", "y", "Topology\\\nPlugin=y\nA=1\n"),
    "added behind the first line": ("# top\n\nA=1\nB=2\n", "y", "# top\n\nA=1\nTopologyPlugin=y\nB=2\n"),
    "added before a line without an end": ("# top\nA=1", "y", "# top\nTopologyPlugin=y\nA=1"),
    "added before a line left open": ("A=1 \\\n", "y", "TopologyPlugin=y\nA=1 \\\n"),
    "added behind a continued line": ("A=\\\n1\nB=2\n", "y", "A=\\\n1\nTopologyPlugin=y\nB=2\n"),
    "added with CRLF": ("A=1\r\nB=2\r\n", "y", "A=1\r\nTopologyPlugin=y\r\nB=2\r\n"),
    "added to nothing": ("", "y", "TopologyPlugin=y\n"),
    "added to comments": ("# c", "y", "TopologyPlugin=y\n# c"),
    "added behind a byte order mark": ("\ufeff# c", "y", "\ufeffTopologyPlugin=y\n# c"),
    "a comment is not one": ("A=1\n#TopologyPlugin=x\n", "y", "A=1\nTopologyPlugin=y\n#TopologyPlugin=x\n"),
    "removed": ("A=1\nTopologyPlugin=x\nB=2\n", None, "A=1\nB=2\n"),
    "all are removed": ("topologyplugin=x\nA=1\nTopologyPlugin=z", None, "A=1\n"),
    "a comment stays": ("TopologyPlugin=x # why\nA=1\n", None, " # why\nA=1\n"),
    "nothing to remove": ("A=1\n", None, "A=1\n"),
}


@pytest.mark.parametrize(("text", "value", "after"), PARAMETERS.values(), ids=PARAMETERS)
def test_one_parameter_changes_and_nothing_else(text: str, value: str | None, after: str) -> None:
    assert set_parameter(text, "TopologyPlugin", value) == after
    assert set_parameter(after, "topologyplugin", value) == after
    assert conf_of(after).parameters.get("topologyplugin") == value


def test_a_parameter_changes_in_the_file_whose_value_is_in_force() -> None:
    conf = conf_of("TopologyPlugin=x\nInclude parts.conf\n", "TopologyPlugin=z\n")
    assert edit_parameter(conf, "TopologyPlugin", "y") == {PARTS: "TopologyPlugin=y\n"}
    assert edit_parameter(conf, "TopologyPlugin", "z") == {}
    assert edit_parameter(conf, "TopologyPlugin", None) == {MAIN: "Include parts.conf\n", PARTS: ""}
    conf = conf_of("Include parts.conf\nTopologyPlugin=x\n", "TopologyPlugin=z\n")
    assert edit_parameter(conf, "TopologyPlugin", "y") == {MAIN: "Include parts.conf\nTopologyPlugin=y\n"}


def test_a_missing_parameter_goes_into_the_main_file() -> None:
    conf = conf_of("Include parts.conf\n", "A=1\n")
    assert edit_parameter(conf, "TopologyPlugin", "y") == {MAIN: "Include parts.conf\nTopologyPlugin=y\n"}
