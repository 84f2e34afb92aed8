"""slurm.conf, read as slurmctld reads it."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import cases
from tests.conf_lines import FATAL, NODES, PARTITION_LINES
from topology_plugin.core.issues import InputError
from topology_plugin.core.slurm_conf import SlurmConf, parse
from topology_plugin.core.slurm_conf_lines import logical_lines, offsets_of, pairs_of, words_of

MAIN = "/opt/slurm/etc/slurm.conf"


def conf_of(text: str, **included: str) -> SlurmConf:
    files = {MAIN: text} | {f"/opt/slurm/etc/{name.replace('__', '.')}": text for name, text in included.items()}
    return parse(MAIN, files.get)


def only_issue(conf: SlurmConf) -> str:
    assert len(conf.issues) == 1, conf.issues
    issue = conf.issues[0]
    assert issue.remedy
    return f"{issue.where} {issue.what}"


def test_a_hyperpod_slurm_conf_is_read_whole() -> None:
    conf = conf_of(cases.F0_SLURM_CONF)
    assert conf.issues == ()
    assert conf.complete
    assert list(conf.nodes) == ["ip-10-1-1-8", "ip-10-1-1-11", "ip-10-1-1-12", "ip-10-1-1-21", "ip-10-1-1-22"]
    node = conf.nodes["ip-10-1-1-11"]
    assert (node.addr, node.hostname, node.state, node.file, node.line) == (
        "10.1.1.11",
        "ip-10-1-1-11",
        "UNKNOWN",
        MAIN,
        6,
    )
    dev, train = conf.partitions.values()
    assert (dev.name, dev.default, dev.nodes, dev.line) == ("dev", True, tuple(conf.nodes), 10)
    assert (train.name, train.default, train.nodes) == ("train", False, tuple(conf.nodes)[1:])
    assert train.nodes_text == "ip-10-1-1-[11-12],ip-10-1-1-[21-22]"
    assert conf.words() == {"dev": None, "train": None}
    assert conf.parameters["topologyplugin"] == "topology/default"
    assert conf.parameter_lines["topologyplugin"] == (MAIN, 4)
    assert conf.files[0].text == cases.F0_SLURM_CONF


def test_br_05_partition_names_keep_their_dots_and_a_node_may_be_in_several() -> None:
    conf = conf_of(
        NODES + "PartitionName=dev Nodes=ALL\nPartitionName=ml.p5.48xlarge Nodes=n[1-3]\nPartitionName=debug Nodes=n1\n"
    )
    assert {name: partition.nodes for name, partition in conf.partitions.items()} == {
        "dev": ("n1", "n2", "n3", "n4", "m1"),
        "ml.p5.48xlarge": ("n1", "n2", "n3"),
        "debug": ("n1",),
    }


@pytest.mark.parametrize(("lines", "nodes", "topology"), PARTITION_LINES.values(), ids=PARTITION_LINES)
def test_partition_lines_mean_what_slurmctld_makes_of_them(lines: str, nodes: str, topology: str | None) -> None:
    conf = conf_of(NODES + lines)
    partition = conf.partitions["p"]
    assert (" ".join(partition.nodes), partition.topology) == (nodes, topology)
    assert conf.issues == ()


@pytest.mark.parametrize(("lines", "issue"), FATAL.values(), ids=FATAL)
def test_what_slurmctld_dies_of_is_an_issue_with_its_place(lines: str, issue: str) -> None:
    assert issue in only_issue(conf_of(NODES + lines, ok__conf=""))


def test_all_issues_are_collected_and_the_rest_is_still_read() -> None:
    conf = conf_of("NodeName=a[\nfoo\nNodeName=b\nPartitionName=p Nodes=b,c Topology=\n")
    assert len(conf.issues) == 4
    assert conf.partitions["p"].nodes == ("b",)


def test_an_empty_topology_does_not_swallow_the_next_word() -> None:
    partition = conf_of(NODES + "PartitionName=p Topology= Nodes=n1 MaxNodes=3\n").partitions["p"]
    assert (partition.topology, partition.nodes, partition.max_nodes) == ("", ("n1",), 3)
    assert conf_of(NODES + "PartitionName=p Topology= tree Nodes=n1\n").partitions["p"].topology == "tree"


def test_a_partition_list_is_one_name() -> None:
    assert list(conf_of(NODES + "PartitionName=a,b Nodes=n1\n").partitions) == ["a,b"]


def test_a_byte_order_mark_is_read_over_and_reported() -> None:
    conf = conf_of("\ufeffPartitionName=p Nodes=x Topology=tree\nNodeName=x\n")
    assert conf.partitions["p"].topology == "tree"
    assert "slurm.conf:1 a byte order mark" in only_issue(conf)


def test_own_and_inherited_words_are_told_apart() -> None:
    conf = conf_of(NODES + "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=b Topology=flat\n")
    assert [(p.own_topology, p.inherited_topology) for p in conf.partitions.values()] == [
        (None, "tree"),
        ("flat", "tree"),
    ]
    assert conf.words() == {"a": "tree", "b": "flat"}


def test_limits_are_numbers_or_none() -> None:
    conf = conf_of("PartitionName=a MinNodes=2 MaxNodes=5\nPartitionName=b MaxNodes=UNLIMITED\nPartitionName=c\n")
    assert [(p.min_nodes, p.max_nodes) for p in conf.partitions.values()] == [(2, 5), (0, None), (0, None)]


NODE_LINES = {
    "lists in parallel": (
        "NodeName=n[1-2] NodeAddr=10.0.0.[1-2] NodeHostname=h[1-2]",
        [("n1", "10.0.0.1", "h1"), ("n2", "10.0.0.2", "h2")],
    ),
    "address follows the host name": ("NodeName=n[1-2] NodeHostname=h[1-2]", [("n1", "h1", "h1"), ("n2", "h2", "h2")]),
    "one address for all": (
        "NodeName=n[1-2] NodeAddr=1.2.3.4 NodeHostname=h",
        [("n1", "1.2.3.4", "h"), ("n2", "1.2.3.4", "h")],
    ),
    "names alone": ("NodeName=a,b", [("a", "a", "a"), ("b", "b", "b")]),
    "two groups": (
        "NodeName=r[1-2]n[1-2] NodeAddr=10.0.[1-2].[1-2]",
        [
            ("r1n1", "10.0.1.1", "r1n1"),
            ("r1n2", "10.0.1.2", "r1n2"),
            ("r2n1", "10.0.2.1", "r2n1"),
            ("r2n2", "10.0.2.2", "r2n2"),
        ],
    ),
    "one node, one address in brackets": ("NodeName=n1 NodeAddr=10.0.0.[7]", [("n1", "10.0.0.7", "n1")]),
    "quotes": ('NodeName="n[1-2]" Reason="a b = c"', [("n1", "n1", "n1"), ("n2", "n2", "n2")]),
    "DEFAULT in a list is a name": ("NodeName=DEFAULT,n1", [("DEFAULT", "DEFAULT", "DEFAULT"), ("n1", "n1", "n1")]),
}


@pytest.mark.parametrize(("line", "nodes"), NODE_LINES.values(), ids=NODE_LINES)
def test_node_lines_give_names_addresses_and_host_names(line: str, nodes: list[tuple[str, str, str]]) -> None:
    conf = conf_of(line)
    assert [(node.name, node.addr, node.hostname) for node in conf.nodes.values()] == nodes
    assert conf.issues == ()


def test_node_defaults_hold_for_the_lines_below_them_and_add_up() -> None:
    conf = conf_of(
        "NodeName=a\nNodeName=DEFAULT Feature=x State=cloud Weight=3\nNodeName=b\n"
        "NodeName=default Weight=4\nNodeName=c Features=y,z\n"
    )
    assert [(node.features, node.state, node.params.get("weight")) for node in conf.nodes.values()] == [
        ((), "UNKNOWN", None),
        (("x",), "CLOUD", "3"),
        (("y", "z"), "CLOUD", "4"),
    ]


def test_the_last_value_of_a_parameter_counts() -> None:
    conf = conf_of("MaxJobCount=100\nMAXJOBCOUNT = 300\nSlurmctldHost=a(1.2.3.4)\nSlurmctldHost=b\n")
    assert conf.parameters == {"maxjobcount": "300", "slurmctldhost": "a(1.2.3.4),b"}
    assert conf.parameter_lines["maxjobcount"] == (MAIN, 2)


def test_down_nodes_lines_are_not_taken_for_faults() -> None:
    assert conf_of("DownNodes=n1 State=DOWN Reason=x\n").issues == ()


def test_includes_are_read_in_place() -> None:
    conf = parse(
        MAIN,
        {
            MAIN: "ClusterName=CluSter\nINCLUDE\tsub/nodes.conf # here\n"
            "Include /srv/parts.conf\nPartitionName=z Nodes=n1\n",
            "/opt/slurm/etc/sub/nodes.conf": "NodeName=n[1-2]\nInclude %c.conf\nMaxJobCount=7\n",
            "/opt/slurm/etc/cluster.conf": "NodeName=m1\n",
            "/srv/parts.conf": "PartitionName=DEFAULT Topology=tree\nPartitionName=p Nodes=ALL",
        }.get,
    )
    assert conf.issues == ()
    assert [file.path for file in conf.files] == [
        MAIN,
        "/opt/slurm/etc/sub/nodes.conf",
        "/opt/slurm/etc/cluster.conf",
        "/srv/parts.conf",
    ]
    assert list(conf.nodes) == ["n1", "n2", "m1"]
    assert (conf.partitions["p"].file, conf.partitions["p"].line) == ("/srv/parts.conf", 2)
    assert conf.words() == {"p": "tree", "z": "tree"}
    assert conf.parameter_lines["maxjobcount"] == ("/opt/slurm/etc/sub/nodes.conf", 3)


def test_an_include_that_cannot_be_read_makes_the_picture_incomplete() -> None:
    assert not conf_of("Include gone.conf\n").complete
    assert conf_of("Include there.conf\n", there__conf="").complete


def test_a_loop_of_includes_ends_and_is_reported() -> None:
    conf = conf_of("NodeName=n1\nInclude a.conf\n", a__conf="NodeName=n2\nInclude slurm.conf\n")
    assert list(conf.nodes) == ["n1", "n2"]
    assert "a.conf:2 Include slurm.conf: includes itself" in only_issue(conf)
    assert not conf.complete


DEEP = 1_500


def test_includes_are_read_however_deep_they_nest() -> None:
    files = {MAIN: "Include /c/1\nPartitionName=last Nodes=ALL\n"}
    files |= {
        f"/c/{level}": f"NodeName=a{level}\nInclude /c/{level + 1}\nNodeName=b{level}\n" for level in range(1, DEEP)
    }
    files[f"/c/{DEEP}"] = "Include /c/7\n"
    conf = parse(MAIN, files.get)
    there, back = range(1, DEEP), range(DEEP - 1, 0, -1)
    assert conf.partitions["last"].nodes == tuple([f"a{n}" for n in there] + [f"b{n}" for n in back])
    assert f"/c/{DEEP}:1 Include /c/7: includes itself" in only_issue(conf)


def test_a_file_that_is_included_twice_is_read_twice() -> None:
    conf = conf_of("Include a.conf\nInclude a.conf\nNodeName=n2\n", a__conf="NodeName=n1\n")
    assert list(conf.nodes) == ["n1", "n2"] and conf.complete
    assert "a.conf:1 node n1 stands there twice" in only_issue(conf)


def test_a_missing_slurm_conf_is_an_error_not_an_empty_cluster() -> None:
    with pytest.raises(InputError, match="missing or unreadable"):
        parse(MAIN, {}.get)


@pytest.mark.parametrize(
    ("partition", "nodes"),
    [
        ("all", "n1 n2 n3 n4 m1 d1 d2"),
        ("by-feature", "n1 n2 n3 n4 d1"),
        ("set-of-all", "n1 n2 n3 n4 m1 d1 d2"),
        ("listed", "n1 n2"),
    ],
)
def test_dynamic_nodes_join_through_all_and_by_feature(partition: str, nodes: str) -> None:
    conf = conf_of(
        NODES
        + "NodeSet=s Feature=f1\nNodeSet=t Nodes=ALL\nPartitionName=all Nodes=ALL\nPartitionName=by-feature Nodes=s\n"
        "PartitionName=set-of-all Nodes=t\nPartitionName=listed Nodes=n[1-2]\n"
    )
    dynamic = [("d1", ("f1", "x")), ("d2", ()), ("n1", ("f9",))]
    assert " ".join(conf.partition_nodes(partition, dynamic)) == nodes
    assert conf.partition_nodes(partition) == conf.partitions[partition].nodes


raw_texts = st.text(st.sampled_from('ab=\\\\\\# \t"\r\n\n'), max_size=60)


@given(raw_texts)
def test_every_character_of_a_logical_line_is_found_in_the_file(text: str) -> None:
    at = 0
    for line in logical_lines(text):
        assert at <= line.start < line.end
        at = line.end
        assert "".join(text[offset] for offset in offsets_of(text, line)) == line.content
        assert line.number == text.count("\n", 0, line.start) + 1


@given(st.text(st.sampled_from('aB_.=\\#+- \t"'), max_size=30))
def test_the_two_readings_of_a_line_agree(content: str) -> None:
    pairs, rest = pairs_of(content)
    words, unread = words_of(content)
    assert words == {pair.key.lower(): pair.value for pair in pairs}
    assert unread.strip() == rest.strip()
    for pair in pairs:
        assert content[pair.value_start : pair.value_end] == pair.value


@given(st.text(max_size=200))
def test_any_text_is_parsed_without_a_stack_trace(text: str) -> None:
    conf_of(text)


def test_16384_node_lines_are_read_within_300_ms() -> None:
    lines = [
        f"NodeName=ip-10-1-{i // 250}-{i % 250} NodeAddr=10.1.{i // 250}.{i % 250} State=CLOUD CPUs=192\n"
        for i in range(16_384)
    ]
    text = "ClusterName=c\n" + "".join(lines) + "PartitionName=dev Nodes=ALL Default=YES\n"

    def seconds(call: Callable[[], object]) -> float:
        """The test's own CPU time, as others may be using the machine."""
        begin = time.process_time()
        call()
        return time.process_time() - begin

    def split() -> list[dict[str, str]]:
        return [dict(word.split("=", 1) for word in line.split()) for line in text.splitlines()]

    times = [(seconds(split), seconds(lambda: conf_of(text))) for _ in range(5)]
    plain, whole = map(min, zip(*times, strict=True))
    assert len(conf_of(text).partitions["dev"].nodes) == 16_384
    assert whole < max(0.3, 6 * plain)  # splitting takes 0.05 s where 0.3 s was set; a slower machine is slower at both
