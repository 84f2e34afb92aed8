"""What stands on disk or is in force and is wrong: `doctor` names it, and `explain` of what it concerns."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.app.ward import Ward
from topology_plugin.app.explain import Subject, faults
from topology_plugin.jobs.simulated_cluster import mixed


def lines(text: str) -> Callable[[Ward], None]:
    return lambda ward: ward.yaml.write_text(text) and None


def conf(old: str, new: str) -> Callable[[Ward], None]:
    return lambda ward: ward.edit(old, new)


def yaml(old: str, new: str) -> Callable[[Ward], None]:
    return lambda ward: ward.edit(old, new, ward.yaml)


FLAT = "- topology: flat\n  cluster_default: true\n  flat: true\n"
TREE = FLAT + "- topology: tree\n  cluster_default: false\n  tree:\n    switches:\n"
BLOCK = (
    "- topology: block\n  cluster_default: false\n  block:\n    block_sizes:\n    - 18\n    blocks:\n"
    "    - block: b\n      nodes: ip-10-2-1-[1-36]\n"
)
LEAF = "    - switch: {}\n      nodes: {}\n"


def uneven(ward: Ward) -> None:
    text = TREE + LEAF.format("a", "ip-10-1-1-[1-8]") + LEAF.format("b", "ip-10-1-1-[9-16]")
    text += "    - switch: m\n      children: b\n    - switch: r\n      children: a,m\n" + BLOCK
    ward.yaml.write_text(text)


def padded(ward: Ward) -> None:
    ward.ctld.version_text = "25.11.4"
    data = ward.yaml.read_bytes()
    ward.yaml.write_bytes(data + b"\n" * (-len(data) % 4096))


# What is done to a cluster in order → (the check that names it, the words it uses)
BROKEN = {
    "empty-list": (lines("[]\n"), "files-startable", "yaml-empty-list"),
    "empty-file": (lines(""), "files-startable", "yaml-empty"),
    "comments-only": (lines("# nothing\n"), "files-startable", "yaml-empty"),
    "broken-yaml": (lines("- topology: [\n"), "files-startable", "yaml-broken"),
    "nodes-as-list": (lines(TREE + "    - switch: a\n      nodes: [n1, n2]\n" + BLOCK), "files-startable", "yaml-type"),
    "no-switches": (lines(TREE.replace("switches:\n", "switches: []\n") + BLOCK), "files-startable", "units-missing"),
    "two-kinds": (
        yaml("  flat: true\n", "  flat: true\n  tree:\n    switches:\n    - switch: x\n      nodes: n1\n"),
        "files-startable",
        "kind-several",
    ),
    "switch-twice": (lines(TREE + LEAF.format("a", "ip-10-1-1-[1-16]") * 2 + BLOCK), "files-startable", "unit-twice"),
    "undefined-child": (
        lines(TREE + "    - switch: r\n      children: a\n" + BLOCK),
        "files-startable",
        "child-undefined",
    ),
    "empty-children": (
        lines(TREE + '    - switch: r\n      children: ""\n' + BLOCK),
        "files-startable",
        "children-empty",
    ),
    "malformed-hostlist": (lines(TREE + LEAF.format("a", "'ip-[1-'") + BLOCK), "files-startable", "hostlist-invalid"),
    "hostlist-function": (
        lines(TREE + LEAF.format("a", "'switch{a}'") + BLOCK),
        "files-startable",
        "hostlist-function",
    ),
    "undefined-word": (conf("Topology=tree", "Topology=treee"), "files-startable", "word-unknown"),
    "empty-word": (conf("Topology=tree", "Topology="), "files-startable", "word-empty"),
    "size-of-4096": (padded, "files-startable", "yaml-4096"),
    "wrong-block-sizes": (yaml("- 18\n", "- 18\n    - 27\n"), "files-startable", "block-sizes"),
    "lost-topology-yaml": (lambda ward: ward.yaml.unlink(), "files-startable", "word-unknown"),
    "unknown-plugin": (
        lambda s: (
            s.yaml.unlink(),
            s.edit("Topology=tree", ""),
            s.edit("Topology=block", ""),
            s.edit("PartitionName=dev", "TopologyPlugin=topology/tee\nPartitionName=dev"),
        ),
        "files-startable",
        "plugin-unknown",
    ),
    "uneven-depth": (uneven, "files-sound", "depth-uneven"),
    "nodes-left-out": (lines(TREE + LEAF.format("a", "ip-10-1-1-[1-4]") + BLOCK), "files-sound", "node-uncovered"),
    "node-twice": (
        lines(
            TREE
            + LEAF.format("a", "ip-10-1-1-[1-16]")
            + LEAF.format("b", "ip-10-1-1-1")
            + "    - switch: r\n      children: a,b\n"
            + BLOCK
        ),
        "files-sound",
        "node-twice",
    ),
    "no-default": (yaml("cluster_default: true", "cluster_default: false"), "files-sound", "default-none"),
    "keep-part-info": (
        conf("PartitionName=dev", "ReconfigFlags=KeepPartInfo\nPartitionName=dev"),
        "keep-part-info",
        "saved",
    ),
    "short-switch-wait": (
        conf("PartitionName=dev", "SchedulerParameters=max_switch_wait=5\nPartitionName=dev"),
        "max-switch-wait",
        "5 s",
    ),
}
WARNED = {"no-default", "keep-part-info", "short-switch-wait"}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_state_on_disk_is_named_by_doctor_with_a_remedy(ward: Ward, name: str) -> None:
    do, check, words = BROKEN[name]
    do(ward)
    verdict = ward.checks()[check].verdict
    assert verdict.result == ("warn" if name in WARNED else "bad"), verdict
    assert words in verdict.reason and verdict.remedy


@pytest.mark.parametrize("name", [name for name in BROKEN if name not in WARNED])
def test_a_broken_state_on_disk_is_named_by_explain_of_the_partition_it_concerns(ward: Ward, name: str) -> None:
    do, _, words = BROKEN[name]
    do(ward)
    told = faults(ward.wiring, Subject("partition", "train"))
    assert any(words in sentence for sentence in told), told


def test_explain_of_a_node_names_the_leaf_that_has_it_twice_but_not_its_neighbour(ward: Ward) -> None:
    BROKEN["node-twice"][0](ward)
    assert any("node-twice" in s for s in faults(ward.wiring, Subject("node", "ip-10-1-1-1")))
    assert faults(ward.wiring, Subject("node", "ip-10-1-1-12")) == ()


def test_uncovered_nodes_in_force_short_blocks_and_refused_sizes_are_named(tmp_path: Path) -> None:
    ward = Ward(tmp_path, mixed(16, (18, 17, 1), 2)).merge()
    checks = ward.checks()
    assert "us-srv0001 (17 of 18)" in checks["short-blocks"].verdict.reason
    assert "gb200 cannot run 36" in checks["refused-sizes"].verdict.reason
    ward.yaml.write_text(TREE + LEAF.format("a", "ip-10-1-1-[1-4]") + BLOCK)
    assert ward.ctld.load() is None
    verdict = ward.checks()["coverage"].verdict
    assert verdict.result == "bad" and "12 nodes" in verdict.reason and "(train)" in verdict.reason
