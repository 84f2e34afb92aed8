"""Words that come back after a change, whatever others wrote meanwhile."""

from __future__ import annotations

import pytest

from tests.core.two_files import MAIN, PARTS, conf_of
from topology_plugin.core.slurm_conf_edits import (
    edit_words,
    restore_words,
)


@pytest.mark.parametrize("word", [None, "tree"])
def test_a_word_comes_back_wherever_on_its_line_it_stood(word: str | None) -> None:
    text = '# top\nPartitionName=p  topology = "x"  Nodes=a # c\r\nPartitionName=q\n'
    former = conf_of(text)
    changed = conf_of(edit_words(former, {"p": word, "q": "tree"})[MAIN])
    assert restore_words(changed, former) == {MAIN: text}
    assert restore_words(former, former) == {}


def test_what_others_changed_meanwhile_stays_when_words_come_back() -> None:
    former = conf_of("PartitionName=p Topology=x Nodes=a\nPartitionName=q\nPartitionName=gone Topology=x\n")
    now = conf_of(
        "# theirs\nPartitionName=new Topology=y\nPartitionName=p Nodes=a,b\nPartitionName=q Topology=tree # n\n"
    )
    assert restore_words(now, former) == {
        MAIN: "# theirs\nPartitionName=new Topology=y\nPartitionName=p Nodes=a,b Topology=x\nPartitionName=q # n\n"
    }


def test_a_cleared_default_comes_back() -> None:
    text = "PartitionName=DEFAULT Topology=tree MaxTime=1\nPartitionName=a\nPartitionName=b\n"
    former = conf_of(text)
    changed = conf_of(edit_words(former, {"a": None, "b": "flat"})[MAIN])
    assert restore_words(changed, former) == {MAIN: text}


def test_a_partition_that_moved_to_another_file_gets_its_word_there() -> None:
    former = conf_of("Include parts.conf\nPartitionName=p\n", "PartitionName=q Topology=x\n")
    now = conf_of("Include parts.conf\nPartitionName=q\n", "PartitionName=p Topology=y\n")
    assert restore_words(now, former) == {
        MAIN: "Include parts.conf\nPartitionName=q Topology=x\n",
        PARTS: "PartitionName=p\n",
    }
