"""Slurm's rules, from texts and models alone. That slurmctld agrees: tests/slurm/test_validation_real.py."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.broken import (
    BLOCK,
    BREAKS_24,
    BREAKS_26,
    FLAT,
    HEAD,
    IDLE_24,
    LEAVES,
    NODES,
    STARTS_24,
    STARTS_26,
    TREE,
    V24,
    V26,
    Files,
    block,
    tree,
)  # fmt: skip
from topology_plugin.core import slurm_conf, topology_yaml
from topology_plugin.core.rules import RULES
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.core.validation import (
    check_configuration,
    check_files,
    check_yaml_text,
    healthy,
    refusing,
    saved_words,
    unhealthy,
)


def check(files: Files) -> list[str]:
    return [f.rule for f in unhealthy(check_files(files.conf, files.yaml_bytes, files.conf_bytes, files.version))]


def conf(partitions: str = "PartitionName=p Nodes=ALL Default=YES", nodes: str = NODES, extra: str = "") -> SlurmConf:
    return slurm_conf.parse("/slurm.conf", {"/slurm.conf": f"{nodes}\n{partitions}\n{extra}\n"}.get)


def rules(text: str | bytes, version: tuple[int, int, int] = V26, where: SlurmConf | None = None) -> set[str]:
    return {finding.rule for finding in check_yaml_text(text, where or conf(), version)}


BREAKS = (*BREAKS_26, *BREAKS_24, *IDLE_24)
STARTS = (*STARTS_26, *STARTS_24)


@pytest.mark.parametrize("files", BREAKS, ids=[files.id for files in BREAKS])
def test_what_stops_slurmctld_breaks_just_that_rule(files: Files) -> None:
    assert set(check(files)) == {files.rule}


@pytest.mark.parametrize("files", STARTS, ids=[files.id for files in STARTS])
def test_what_slurmctld_takes_is_healthy(files: Files) -> None:
    assert check(files) == []


@pytest.mark.parametrize("version", [V26, V24], ids=["26.05.5", "24.11.5"])
def test_every_rule_that_stops_this_slurmctld_has_a_configuration_that_breaks_it(
    version: tuple[int, int, int],
) -> None:
    stopping = {rule.id for rule in RULES.values() if rule.unhealthy and rule.holds(version)}
    assert stopping == {files.rule for files in BREAKS if files.version == version}


@pytest.mark.parametrize("files", [f for f in BREAKS if f.topology_yaml is not None], ids=lambda f: f.id)
def test_a_finding_says_where_what_and_what_to_do(files: Files) -> None:
    for finding in check_files(files.conf, files.yaml_bytes, files.conf_bytes, files.version):
        assert finding.where
        assert finding.what
        assert finding.rule in str(finding)
        assert finding.remedy or finding.severity != "dies"


MISBEHAVES = [
    ("unknown-key", f"{TREE}  swiches: 3\n"),
    ("unknown-key", tree(("e", "Nodes: n[1-4]"), *LEAVES)),
    ("topology-twice", FLAT + TREE),
    ("topology-unnamed", TREE.replace("topology: t", "name: t")),
    ("default-several", FLAT + TREE.replace(": t\n", ": u\n")),
    ("default-none", TREE.replace("default: true", "default: false")),
    ("children-ignored", tree(*LEAVES, ("r", "children: a", "nodes: n1"))),
    ("two-parents", tree(*LEAVES, ("r", "children: a,b"), ("q", "children: a"))),
    ("two-parents", tree(*LEAVES, ("r", "children: a,a,b"))),
    ("node-twice", tree(("a", "nodes: n[1-3]"), ("b", "nodes: n[3-4]"), ("r", "children: a,b"))),
    ("node-twice", block(("x", "nodes: n[1-4]"), ("w", "nodes: n4"))),
    ("node-unknown", tree(("a", "nodes: n[1-5]"))),
    ("node-uncovered", tree(("a", "nodes: n[1-3]"))),
    ("node-uncovered", block(("a", "nodes: n[1-3]"))),
    ("roots-several", tree(*LEAVES)),
    ("hostlist-odd", tree(("a", "nodes: 'n[[1-2]]'"), *LEAVES[1:])),
    ("block-sizes-missing", block(("x", "nodes: n[1-4]"), sizes="")),
    ("blocks-unpadded", block(*(("abc"[i], f"nodes: n{i + 1}") for i in range(3)), sizes="    block_sizes: [1,2]\n")),
    ("depth-uneven", tree(*LEAVES, ("m", "children: a"), ("r", "children: m,b"))),
    ("name-unsafe", tree(("007", "nodes: n[1-4]"))),
]


@pytest.mark.parametrize(("rule", "text"), MISBEHAVES, ids=[f"{r}-{i}" for i, (r, _) in enumerate(MISBEHAVES)])
def test_what_slurmctld_takes_and_gets_wrong_is_said(rule: str, text: str) -> None:
    assert rule in rules(text)
    assert healthy(check_yaml_text(text, conf(), V26))


OF_VERSIONS = [
    ("yaml-4096", TREE + "#" * (4095 - len(TREE) % 4096) + "\n", [(25, 5, 0), (25, 11, 5)], [(25, 11, 6), V26]),
    ("kind-unknown", f"{HEAD}  ring:\n    rings: [a]\n", [(25, 5, 0), (25, 11, 7)], [(26, 5, 0)]),
    ("kind-unknown", f"{HEAD}  torus3d:\n    toruses: [a]\n", [(25, 11, 7)], [(26, 5, 0)]),
    ("kind-unknown", f"{HEAD}  flat: {{}}\n", [(25, 5, 3)], [V26]),
    ("block-sizes-dropped", block(("x", "nodes: n[1-4]"), sizes="    block_sizes: [2,3]\n"),
     [(25, 5, 0), (25, 11, 7), (26, 5, 2)], [(26, 5, 3)]),
    ("block-sizes", block(("x", "nodes: n[1-4]"), sizes="    block_sizes: [2,3]\n"),
     [(26, 5, 3), V26], [(25, 5, 0), (26, 5, 2)]),
    ("name-converted", tree(("0x1f", "nodes: n[1-4]")), [(25, 5, 0), (25, 11, 7)], [V26]),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "text", "holds", "not_any_more"), OF_VERSIONS, ids=[row[0] for row in OF_VERSIONS])
def test_rules_of_other_versions(
    rule: str, text: str, holds: list[tuple[int, int, int]], not_any_more: list[tuple[int, int, int]]
) -> None:
    for version in holds:
        assert rule in rules(text, version), version
    for version in not_any_more:
        assert rule not in rules(text, version), version


def test_an_unknown_version_is_taken_as_the_newest_known() -> None:
    assert {f.rule for f in check_yaml_text("[]\n", None, None)} == {"yaml-empty-list"}
    assert check_yaml_text(FLAT, conf(), None) == []


def test_what_is_rendered_is_never_a_page_long() -> None:
    def configuration(length: int) -> Configuration:
        return Configuration((Topology("t", Tree((Switch("a" * length, ("n1",)),)), default=True),))

    base = len(topology_yaml.render(configuration(1)))
    text = topology_yaml.render(configuration(4096 - base + 1))
    assert len(text.encode()) == 4097
    assert text.endswith("\n\n")


# --- slurm.conf ---


@pytest.mark.parametrize(
    ("rule", "partitions", "nodes", "extra", "text"),
    [
        ("node-word-bare", "", f"{NODES} Topology=t", "", TREE),
        ("node-stated-twice", "", f"{NODES} Topology=t:x", "", BLOCK),
        ("rank-without-default", "", NODES, "TopologyParam=SwitchAsNodeRank", BLOCK),
        ("rank-without-default", "", NODES, "TopologyParam=TopoOptional,BlockAsNodeRank", TREE),
        ("keep-part-info", "", NODES, "ReconfigFlags=KeepPartInfo", TREE),
        ("function-in-conf", "PartitionName=q Nodes=switch{a} Topology=t", NODES, "", TREE),
    ],
    ids=lambda value: value if isinstance(value, str) and "-" in value and " " not in value else "",
)
def test_what_slurm_conf_says_beside_it(rule: str, partitions: str, nodes: str, extra: str, text: str) -> None:
    found = check_yaml_text(text, conf(f"PartitionName=p Nodes=ALL\n{partitions}", nodes, extra), V26)
    assert rule in {finding.rule for finding in found}
    assert not refusing([finding for finding in found if finding.rule == rule]), "an operator's line stops no publish"


def test_a_rank_parameter_that_fits_the_default_is_fine() -> None:
    assert rules(TREE, where=conf(extra="TopologyParam=SwitchAsNodeRank")) == set()
    assert rules(BLOCK, where=conf(extra="TopologyParam=BlockAsNodeRank")) == set()


def test_a_word_in_another_case_names_the_near_one() -> None:
    found = check_yaml_text(TREE, conf("PartitionName=p Nodes=ALL Topology=T"), V26)
    assert any("t is: case counts" in finding.what for finding in found)


def test_a_partition_that_uses_another_topology_is_not_measured_by_the_default() -> None:
    text = tree(("a", "nodes: n[1-2]")) + "- topology: flat\n  flat: true\n"
    partitions = "PartitionName=p Nodes=n[1-2]\nPartitionName=q Nodes=ALL Topology=flat"
    assert rules(text, where=conf(partitions)) == set()


def test_nodes_that_an_unreadable_include_may_hold_are_not_judged() -> None:
    half = slurm_conf.parse("/s", {"/s": f"{NODES}\nInclude more.conf\nPartitionName=p Nodes=ALL\n"}.get)
    assert rules(tree(("a", "nodes: n[1-9]")), where=half) == set()


# --- models ---

LEVEL = Tree((Switch("a", ("n1", "n2")), Switch("b", ("n3", "n4")), Switch("root", (), ("a", "b"))))


def planned(*topologies: Topology, **words: str | None) -> Configuration:
    return Configuration(topologies, words)


def test_a_sound_plan_has_no_finding() -> None:
    plan = planned(
        Topology("flat", Flat(), True), Topology("tree", LEVEL),
        Topology("block", Blocks((2, 4), (Block("x", ("n1", "n2")), Block("w", ("n3", "n4"))))), p="tree", q="block",
    )  # fmt: skip
    assert check_configuration(plan, conf("PartitionName=p Nodes=ALL\nPartitionName=q Nodes=ALL"), V26) == []


@pytest.mark.parametrize(
    ("rule", "plan"),
    [
        ("node-uncovered", planned(Topology("tree", Tree((Switch("a", ("n1", "n2", "n3")),)), True))),
        ("node-uncovered", planned(Topology("block", Blocks((2,), (Block("a", ("n1",)),)), True))),
        ("word-unknown", planned(Topology("flat", Flat(), True), p="tree")),
        ("depth-uneven", planned(Topology("t", Tree((*LEVEL.switches[:2], Switch("m", (), ("a",)),
                                                     Switch("root", (), ("m", "b")))), True))),
        ("child-undefined", planned(Topology("t", Tree((*LEVEL.switches[:1], LEVEL.switches[2])), True))),
        ("block-sizes", planned(Topology("b", Blocks((2, 3), (Block("x", ("n1", "n2", "n3", "n4")),)), True))),
        ("block-sizes", planned(Topology("b", Blocks((-1,), (Block("x", ("n1", "n2", "n3", "n4")),)), True))),
        ("units-missing", None),
        ("switches-too-many", planned(Topology("t", Tree((*(Switch(f"e{i}") for i in range(1200)), *LEVEL.switches)),
                                               True))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_what_is_never_published(rule: str, plan: Configuration | None) -> None:
    if plan is None:
        plan = planned(Topology("t", Tree(()), True))
    assert rule in {finding.rule for finding in refusing(check_configuration(plan, conf(), V26))}


def test_seven_hundred_switches_pass_and_more_are_said_with_their_cost() -> None:
    def of(count: int) -> Configuration:
        leaves = [Switch("a", ("n1", "n2", "n3", "n4")), *(Switch(f"e{i}") for i in range(count - 2))]
        return planned(Topology("t", Tree((*leaves, Switch("r", (), tuple(s.name for s in leaves)))), True))

    assert check_configuration(of(700), conf(), V26) == []
    found = check_configuration(of(1000), conf(), V26)
    assert [finding.rule for finding in found] == ["switches-many"]
    assert "2.7 s" in found[0].what
    assert [finding.rule for finding in check_configuration(of(1201), conf(), V26)] == ["switches-too-many"]


def test_a_dynamic_node_counts_for_partitions_with_all_nodes() -> None:
    plan = planned(Topology("tree", LEVEL, True))
    found = check_configuration(plan, conf(), V26, [("d1", ())])
    assert [finding.rule for finding in found] == ["node-uncovered"]
    assert "d1" in found[0].what


NODES_JSON = [
    {"name": "d1", "topology": "tree:b", "state": ["IDLE", "DYNAMIC_NORM"]},
    {"name": "c1", "topology": "tree:b", "state": ["IDLE", "CLOUD"]},
    {"name": "c2", "topology": "tree:gone", "state": ["IDLE", "CLOUD", "POWERED_DOWN"]},
    {"name": "n1", "topology": "tree:gone", "state": ["IDLE"]},
    {"name": "n2", "topology": "", "state": ["IDLE", "CLOUD"]},
]


def test_what_slurmctld_keeps_of_dynamic_and_cloud_nodes_must_still_be_there() -> None:
    saved = saved_words(NODES_JSON)
    assert saved == {"d1": "tree:b", "c1": "tree:b"}
    assert check_configuration(planned(Topology("tree", LEVEL, True)), conf(), V26, saved=saved) == []
    renamed = Tree((Switch("a", ("n1", "n2", "n3", "n4")), Switch("root", (), ("a",))))
    (finding,) = check_configuration(planned(Topology("tree", renamed, True)), conf(), V26, saved=saved)
    assert (finding.rule, finding.where) == ("saved-word-unknown", "node d1 and 1 more")
    (finding,) = check_configuration(planned(Topology("t", LEVEL, True)), conf(), V26, saved={"d1": "tree:a,t:b"})
    assert finding.what == "slurmctld keeps Topology=tree:a,t:b, but there is no topology tree"


# --- cases from the field ---


def test_br_11_a_block_topology_without_domains_or_with_a_negative_size_is_never_healthy_or_published() -> None:
    for body in (Blocks((-1,), ()), Blocks((0,), (Block("x", ("n1",)),)), Blocks((18,), ())):
        plan = planned(Topology("block", body, True))
        assert refusing(check_configuration(plan, conf(), V26))
        assert not healthy(check_yaml_text(topology_yaml.render(plan), conf(), V26))


SIZES_BR_12 = [(18, 16, 9, 8), (8, 9, 16, 18)]


@pytest.mark.parametrize("counts", SIZES_BR_12, ids=["largest first", "smallest first"])
def test_br_12_short_blocks_stop_24_11_and_are_fine_from_25_05_on(counts: tuple[int, ...]) -> None:
    names = iter(range(1, 52))
    blocks = tuple(Block(f"us-{i}", tuple(f"n{next(names)}" for _ in range(c))) for i, c in enumerate(counts))
    plan = planned(Topology("block", Blocks((18,), blocks), True))
    racks = conf(nodes="NodeName=n[1-51] CPUs=1")
    found = check_configuration(plan, racks, V24)
    assert [finding.rule for finding in unhealthy(found)] == ["block-short"] * 3
    assert check_configuration(plan, racks, (25, 5, 3)) == []


def test_br_15_both_states_of_hyperpod_images_are_recognised() -> None:
    a = Files("", "", "[]\n", "", partitions="PartitionName=train Nodes=ALL Topology=tree", version=(25, 11, 3))
    assert check(a) == ["yaml-empty-list"]
    b = Files("", "", None, None, extra="TopologyPlugin=topology/tree", version=V24)
    assert check(b) == ["conf-missing"]


def test_br_16_on_24_11_only_names_it_knows_and_no_topology_yaml_left_for_an_upgrade() -> None:
    flat = Files("", "", extra="TopologyPlugin=topology/flat", version=V24)
    assert check(flat) == ["plugin-unknown"]
    found = check_files(conf(extra="TopologyPlugin=topology/default"), FLAT.encode(), None, V24)
    assert [finding.rule for finding in found] == ["yaml-waits"]
    assert healthy(found)


CONFIGLESS = "SlurmctldParameters=enable_configless"


@pytest.mark.parametrize(
    ("version", "refused"), [((25, 5, 0), True), ((25, 5, 1), True), ((25, 5, 2), False), (V26, False)], ids=str
)
def test_br_19_configless_needs_25_05_2(version: tuple[int, int, int], refused: bool) -> None:
    plan = planned(Topology("tree", LEVEL, True))
    found = refusing(check_configuration(plan, conf(extra=CONFIGLESS), version))
    assert [finding.rule for finding in found] == (["configless-unsent"] if refused else [])
    assert check_configuration(plan, conf(), version) == []


@pytest.mark.parametrize(("version", "warned"), [((25, 11, 1), True), ((25, 11, 3), False)], ids=str)
def test_br_31_cloud_nodes_in_blocks_on_25_11_0_to_2_are_warned_of(version: tuple[int, int, int], warned: bool) -> None:
    found = check_yaml_text(BLOCK, conf(), version)
    assert [(f.rule, f.severity) for f in found] == ([("cloud-drops-out", "warns")] if warned else [])


def test_old_slurm_is_refused_and_a_newer_one_is_only_called_untested() -> None:
    plan = planned(Topology("tree", LEVEL, True))
    assert "slurm-too-old" in {f.rule for f in refusing(check_configuration(plan, conf(), (23, 11, 10)))}
    found = check_configuration(plan, conf(), (27, 5, 1))
    assert [(f.rule, f.severity) for f in found] == [("slurm-untested", "warns")]


# --- hostile input ---

SNIPPETS = st.sampled_from(
    ["- topology: t", "  flat: true", "  tree:", "    switches:", "    - switch: a", "      nodes: n[1-2]", "[]", "{}",
     "      children: a", "  block:", "    block_sizes: [1,2]", "    blocks:", "    - block: b", "[[", "*a", "&a",
     "---", "...", "!!x", "\0", "\ufeff", "? ", ": ", "- - -", "'", '"', "|", ">", "%", "\t", "{a: {b: [c, {d: e}]}}"]
)  # fmt: skip


@given(st.one_of(st.text(), st.binary(), st.lists(SNIPPETS, max_size=12).map("\n".join)))
def test_no_text_crashes_the_checks(text: str | bytes) -> None:
    for version in (V26, (25, 5, 1), None):
        for finding in check_yaml_text(text, conf(), version):
            assert finding.where
    data = text.encode("utf-8", "replace") if isinstance(text, str) else text
    check_files(conf(extra="TopologyPlugin=topology/tree"), None, data, V24)
    check_files(conf(extra="TopologyPlugin=topology/block"), None, data, V24)
