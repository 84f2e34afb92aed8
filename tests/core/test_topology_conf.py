from __future__ import annotations

import pytest

from topology_plugin.core.issues import InputError
from topology_plugin.core.topology import Block, Blocks, Flat, Switch, Topology, Tree
from topology_plugin.core.topology_conf import PLUGINS, parse, render

TREE = Topology("default", Tree((Switch("a", ("n1", "n2")), Switch("b", ("n3",)), Switch("r", (), ("a", "b")))), True)
BLOCK = Topology("default", Blocks((2, 4), (Block("x", ("n1", "n2")), Block("w", ("n3", "n4")))), True)


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if not line.startswith("#")]


def test_a_tree_is_written_leaves_first() -> None:
    assert lines(render(TREE)) == ["SwitchName=a Nodes=n[1-2]", "SwitchName=b Nodes=n3", "SwitchName=r Switches=a,b"]


def test_blocks_are_written_with_their_sizes() -> None:
    assert lines(render(BLOCK)) == ["BlockName=x Nodes=n[1-2]", "BlockName=w Nodes=n[3-4]", "BlockSizes=2,4"]


@pytest.mark.parametrize("topology", [TREE, BLOCK], ids=["tree", "block"])
def test_what_is_written_reads_back(topology: Topology) -> None:
    assert parse(render(topology)) == topology


def test_oddities_read_as_slurm_reads_them() -> None:
    text = 'switchname=s[1-2] nodes="n1" # both\r\nSwitchName=r \\\n Switches=s1,s2 LinkSpeed=7\r\n'
    assert parse(text).body == Tree((Switch("s1", ("n1",)), Switch("s2", ("n1",)), Switch("r", (), ("s1", "s2"))))


def test_without_sizes_the_first_block_counts() -> None:
    assert parse("BlockName=x Nodes=n[1-3]\n").body == Blocks((3,), (Block("x", ("n1", "n2", "n3")),))


def test_nothing_is_flat() -> None:
    assert parse("# nothing\n\n").body == Flat()


@pytest.mark.parametrize(
    "text",
    ["hello\n", "SwitchName=a Nodes=n1 Foo=2\n", "SwitchName=a Nodes=n[\n", "BlockName=x Nodes=n1\nBlockSizes=a\n",
     "SwitchName=a Nodes=n1\nBlockName=x Nodes=n1\n"],
)  # fmt: skip
def test_what_slurm_would_not_take_is_an_input_error_with_its_line(text: str) -> None:
    with pytest.raises(InputError, match=r"topology\.conf"):
        parse(text)


@pytest.mark.parametrize("body", [Flat(), Tree(()), Blocks((1,), ())], ids=["flat", "no switch", "no block"])
def test_br_15_an_empty_file_is_never_written(body: Flat | Tree | Blocks) -> None:
    with pytest.raises(InputError, match="topology/default"):
        render(Topology("t", body, True))


def test_br_16_only_plugin_names_that_24_11_knows() -> None:
    assert set(PLUGINS.values()) == {"topology/tree", "topology/block", "topology/default"}
