"""Words of partitions are set or removed in slurm.conf, and no other byte changes."""

from __future__ import annotations

import pytest

from tests.core.two_files import MAIN, PARTS, conf_of
from topology_plugin.core.slurm_conf import parse
from topology_plugin.core.slurm_conf_edits import (
    edit_words,
    set_parameter,
    set_partition_word,
)

# Text, word, text with it
WORDS = {
    "added at the end": ("PartitionName=p Nodes=ALL\n", "tree", "PartitionName=p Nodes=ALL Topology=tree\n"),
    "added without a final newline": ("PartitionName=p Nodes=ALL", "tree", "PartitionName=p Nodes=ALL Topology=tree"),
    "added before CRLF": ("PartitionName=p Nodes=ALL\r\n", "tree", "PartitionName=p Nodes=ALL Topology=tree\r\n"),
    "added before a comment": (
        "PartitionName=p Nodes=ALL   # all of them\n",
        "tree",
        "PartitionName=p Nodes=ALL Topology=tree   # all of them\n",
    ),
    "added before a comment glued on": (
        "PartitionName=p Nodes=a#c\n",
        "tree",
        "PartitionName=p Nodes=a Topology=tree#c\n",
    ),
    "added before blanks": ("PartitionName=p Nodes=a \t \n", "tree", "PartitionName=p Nodes=a Topology=tree \t \n"),
    "added to a continued line": (
        "PartitionName=p \\\n  Nodes=a \\\n  State=UP\nNodeName=a\n",
        "tree",
        "PartitionName=p \\\n  Nodes=a \\\n  State=UP Topology=tree\nNodeName=a\n",
    ),
    "added before an idle continuation": (
        "PartitionName=p Nodes=a \\\n\n",
        "tree",
        "PartitionName=p Nodes=a Topology=tree \\\n\n",
    ),
    "added behind quotes": ('PartitionName=p Nodes="a,b"\n', "tree", 'PartitionName=p Nodes="a,b" Topology=tree\n'),
    "added behind an escape": ("PartitionName=p QOS=a\\#\n", "tree", "PartitionName=p QOS=a\\# Topology=tree\n"),
    "added behind a byte order mark": ("\ufeffPartitionName=p\n", "tree", "\ufeffPartitionName=p Topology=tree\n"),
    "changed": ("PartitionName=p Topology=tree Nodes=a\n", "block", "PartitionName=p Topology=block Nodes=a\n"),
    "changed in its spelling": (
        "PartitionName=p TOPOLOGY = tree Nodes=a\n",
        "block",
        "PartitionName=p TOPOLOGY = block Nodes=a\n",
    ),
    "changed in its quotes": (
        'PartitionName=p Topology="tree" Nodes=a\n',
        "block",
        'PartitionName=p Topology="block" Nodes=a\n',
    ),
    "changed before a comment": ("PartitionName=p Topology=tree#c\n", "block", "PartitionName=p Topology=block#c\n"),
    "changed where it is continued": (
        "PartitionName=p Topol\\\nogy=tr\\\nee State=UP\n",
        "block",
        "PartitionName=p Topol\\\nogy=block State=UP\n",
    ),
    "the last of two changes": (
        "PartitionName=p Topology=a Topology=b\n",
        "c",
        "PartitionName=p Topology=a Topology=c\n",
    ),
    "an empty one is filled": (
        "PartitionName=p Topology= Nodes=a\n",
        "tree",
        "PartitionName=p Topology=tree Nodes=a\n",
    ),
    "an empty one at the end": ("PartitionName=p Topology=\n", "tree", "PartitionName=p Topology=tree\n"),
    "empty quotes are filled": (
        'PartitionName=p Topology="" Nodes=a\n',
        "tree",
        'PartitionName=p Topology="tree" Nodes=a\n',
    ),
    "removed": ("PartitionName=p Nodes=a Topology=tree\n", None, "PartitionName=p Nodes=a\n"),
    "removed from the middle": ("PartitionName=p  Topology=tree  Nodes=a\n", None, "PartitionName=p  Nodes=a\n"),
    "removed before CRLF": ("PartitionName=p Topology=tree\r\n", None, "PartitionName=p\r\n"),
    "removed before a comment": ("PartitionName=p Topology=tree # c\n", None, "PartitionName=p # c\n"),
    "removed from a continued line": (
        "PartitionName=p \\\n  Topology=tree \\\n  Nodes=a\n",
        None,
        "PartitionName=p \\\n \\\n  Nodes=a\n",
    ),
    "removed where it is continued": (
        "PartitionName=p Topol\\\nogy=tr\\\nee State=UP\n",
        None,
        "PartitionName=p State=UP\n",
    ),
    "both of two are removed": ("PartitionName=p Topology=a Topology=b\n", None, "PartitionName=p\n"),
    "an empty one is removed": ("PartitionName=p Topology= Nodes=a\n", None, "PartitionName=p Nodes=a\n"),
    "an empty one at the end is removed": ("PartitionName=p Nodes=a Topology=\n", None, "PartitionName=p Nodes=a\n"),
    "a backslash left behind would join lines": (
        "PartitionName=p Nodes=a\\ Topology=tree\nNodeName=a\n",
        None,
        "PartitionName=p Nodes=a\nNodeName=a\n",
    ),
    "nothing to remove": (
        "PartitionName=p   Nodes=a # Topology=tree\n",
        None,
        "PartitionName=p   Nodes=a # Topology=tree\n",
    ),
    "already there": ("PartitionName=p\tTopology=tree  Nodes=a\n", "tree", "PartitionName=p\tTopology=tree  Nodes=a\n"),
    "others stay": (
        "PartitionName=pp Topology=x\n#PartitionName=p\nNodeName=p\n  partitionname=p\nPartitionName=P\n",
        "tree",
        "PartitionName=pp Topology=x\n#PartitionName=p\nNodeName=p\n  partitionname=p Topology=tree\nPartitionName=P\n",
    ),
    "only the first of two lines": (
        "PartitionName=p\nPartitionName=p Topology=x\n",
        "tree",
        "PartitionName=p Topology=tree\nPartitionName=p Topology=x\n",
    ),
}


@pytest.mark.parametrize(("text", "word", "after"), WORDS.values(), ids=WORDS)
def test_one_word_changes_and_nothing_else(text: str, word: str | None, after: str) -> None:
    assert set_partition_word(text, "p", word) == after
    assert set_partition_word(after, "p", word) == after
    assert parse(MAIN, {MAIN: after}.get).words()["p"] == word


def test_the_default_lines_are_addressed_as_one() -> None:
    text = "PartitionName=default Topology=a\nPartitionName=p\nPartitionName=DEFAULT Topology=b\n"
    assert (
        set_partition_word(text, "DEFAULT", None) == "PartitionName=default\nPartitionName=p\nPartitionName=DEFAULT\n"
    )


def test_a_partition_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        set_partition_word("PartitionName=p\n", "q", "tree")
    with pytest.raises(KeyError):
        edit_words(conf_of("PartitionName=p\n"), {"q": "tree"})
    with pytest.raises(KeyError):
        edit_words(conf_of("PartitionName=p\n"), {"q": None})


@pytest.mark.parametrize("word", ["", " ", "a b", 'a"', "a#", "a\\", "a=b", "a\n"])
def test_a_word_that_would_break_the_file_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in slurm"):
        set_partition_word("PartitionName=p\n", "p", word)
    with pytest.raises(ValueError, match="cannot stand in slurm"):
        edit_words(conf_of("PartitionName=p\n"), {"p": word})
    with pytest.raises(ValueError, match="cannot stand in slurm"):
        set_parameter("", "TopologyPlugin", word)


def test_only_files_that_change_are_returned_each_with_its_own_lines() -> None:
    conf = conf_of("Include parts.conf\nPartitionName=a\n", "PartitionName=b Nodes=ALL # b\r\n")
    assert edit_words(conf, {"b": "tree"}) == {PARTS: "PartitionName=b Nodes=ALL Topology=tree # b\r\n"}
    assert edit_words(conf, {"a": "tree"}) == {MAIN: "Include parts.conf\nPartitionName=a Topology=tree\n"}
    assert edit_words(conf, {"a": None, "b": None}) == {}
    assert edit_words(conf, {}) == {}


# Text, words, text after; partitions a, b, c stand below a DEFAULT with a word
INHERITED = {
    "who inherits the right word is not touched": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=b\n",
        {"a": "tree", "b": "block"},
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=b Topology=block\n",
    ),
    "a word that differed goes when the inherited one is right again": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=block\n",
        {"a": "tree"},
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\n",
    ),
    "a word that repeats the inherited one stays": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=tree\n",
        {"a": "tree"},
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=tree\n",
    ),
    "none for one: the others get the word on their own lines": (
        "PartitionName=DEFAULT Topology=t MaxTime=1\nPartitionName=a\nPartitionName=b\nPartitionName=c Topology=flat\n",
        {"a": None},
        "PartitionName=DEFAULT MaxTime=1\nPartitionName=a\nPartitionName=b Topology=t\nPartitionName=c Topology=flat\n",
    ),
    "none for one with a word of its own": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=block\n",
        {"a": None},
        "PartitionName=DEFAULT\nPartitionName=a\n",
    ),
    "several defaults": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=DEFAULT Topology=flat\nPartitionName=b\n",
        {"b": None},
        "PartitionName=DEFAULT\nPartitionName=a Topology=tree\nPartitionName=DEFAULT\nPartitionName=b\n",
    ),
    "defaults below do not matter": (
        "PartitionName=a\nPartitionName=DEFAULT Topology=tree\nPartitionName=b\n",
        {"a": None},
        "PartitionName=a\nPartitionName=DEFAULT Topology=tree\nPartitionName=b\n",
    ),
    "an empty default is mended": (
        "PartitionName=DEFAULT Topology=\nPartitionName=a\nPartitionName=b\n",
        {"a": None},
        "PartitionName=DEFAULT\nPartitionName=a\nPartitionName=b\n",
    ),
}


@pytest.mark.parametrize(("text", "words", "after"), INHERITED.values(), ids=INHERITED)
def test_inherited_words_count(text: str, words: dict[str, str | None], after: str) -> None:
    conf = conf_of(text)
    assert edit_words(conf, words).get(MAIN, text) == after
    wanted = {**conf.words(), **words}
    assert conf_of(after).words() == wanted
    assert edit_words(conf_of(after), words) == {}


def test_a_default_in_another_file_is_cleared_there() -> None:
    conf = conf_of("Include parts.conf\nPartitionName=a\nPartitionName=b\n", "PartitionName=DEFAULT Topology=tree\n")
    assert edit_words(conf, {"a": None}) == {
        MAIN: "Include parts.conf\nPartitionName=a\nPartitionName=b Topology=tree\n",
        PARTS: "PartitionName=DEFAULT\n",
    }
