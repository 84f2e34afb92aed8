"""The page of clusters of every kind: shared topologies, odd names, unusual states, one that slurmctld told of."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.states import changed, inventory, state
from tests.views.browser import Browser, Page
from tests.views.captured import captured
from tests.views.paging import cell, small, written
from topology_plugin.core import kubernetes
from topology_plugin.core.inventory import Partition
from topology_plugin.core.live import Job, Live
from topology_plugin.core.state import Owner, State
from topology_plugin.core.topology import FLAT_ONLY


def test_blocks_show_short_ones_free_slots_and_refused_sizes(opened: Page) -> None:
    opened.click('.part[data-p="2"]')
    assert opened.text("#stage h2") == "ultra"
    assert opened.evaluate("document.querySelectorAll('#stage .leaf.short').length") == 2
    assert opened.evaluate("document.querySelectorAll('#stage i.slot').length") == 2
    assert "refused: 36" in opened.text(".ruler")
    left = opened.evaluate("document.querySelector('.ruler .track i').style.left")
    assert float(left.rstrip("%")) == pytest.approx(35 / 52 * 100)


def test_of_a_topology_that_serves_several_partitions_only_ones_own_nodes_count(
    browser: Browser, directory: Path
) -> None:
    seen = inventory(8, 36, 0)
    ultra = seen.partitions["ultra"].nodes
    mine = (*ultra[:9], ultra[20])  # nine nodes of one UltraServer, one of the other
    parts = {**seen.partitions, "few": Partition("few", ultra[:4]), "mine": Partition("mine", mine)}
    group = replace(seen.groups["ultra"], partitions=("ultra", "few", "mine"))
    of = state(replace(seen, partitions=parts, groups={**seen.groups, "ultra": group}))
    page_ = browser.open(written(directory, of, Live(dict.fromkeys(seen.nodes, "idle")), "shared.html"))

    def told(partition: str) -> tuple[str, list[str], int]:
        page_.click(f'.part[data-p="{list(of.inventory.partitions).index(partition)}"]')
        rooms = page_.evaluate("[...document.querySelectorAll('#stage .leaf .room')].map(e => e.innerText)")
        others = page_.evaluate("document.querySelectorAll('#stage i.other').length")
        return " ".join(page_.text("#stage .facts").split()), rooms, others

    assert told("mine") == (
        "10 nodes 2 blocks, base size 18 10 of 10 idle now 9 idle in one block, at most", ["9/9", "1/1"], 26,
    )  # fmt: skip
    assert told("few")[1:] == (["4/4"], 14)  # the UltraServer without a node of it is not shown
    assert told("ultra")[1:] == (["18/18", "18/18"], 0)


def test_a_flat_partition_shows_its_nodes_by_instance_group(opened: Page) -> None:
    opened.click('.part[data-p="0"]')
    words = opened.text("#stage")
    for group in ("worker-a", "ultra", "cpu", "login"):
        assert group in words
    assert opened.evaluate("document.querySelectorAll('#stage i.n[data-n]').length") == 125


def test_names_cannot_become_markup(browser: Browser, directory: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    seen = changed(inventory(8, 0, 0), "ip-10-1-0-1", instance_name=evil, group="<b>g</b>", instance_type=evil)
    of = state(seen)
    jobs = (Job(1, evil, evil, "RUNNING", ("ip-10-1-0-1",), "train"),)
    path = written(directory, of, Live({"ip-10-1-0-1": "down"}, jobs, {"ip-10-1-0-1": evil}), "evil.html")
    page_ = browser.open(path)
    page_.click(cell("ip-10-1-0-1"))
    assert page_.errors() == [] and page_.requests() == []
    assert page_.evaluate("document.querySelectorAll('img, b b').length") == 0
    assert evil in page_.text("#selection")


@pytest.mark.parametrize(
    ("of", "seen", "words"),
    [
        pytest.param(small(), None, "Slurm was not asked", id="no-live-states"),
        pytest.param(replace(small(), in_force=None), None, "in force: not known", id="nothing-in-force"),
        pytest.param(replace(small(), in_force=FLAT_ONLY), None, "change pending", id="drift"),
        pytest.param(replace(small(), owner=Owner("agent", "why", False)), None, "owner: agent", id="agent"),
        pytest.param(replace(small(), hold=True), None, "on hold", id="hold"),
        pytest.param(state(inventory(0, 0, 0)), None, "1 node", id="one-node"),
        pytest.param(
            state(inventory(120, 0, 0, unlabelled=tuple(range(70)))), None, "share one leaf", id="many-unplaced"
        ),
    ],
)
def test_unusual_states_are_told_in_words(
    browser: Browser, directory: Path, of: State, seen: Live | None, words: str
) -> None:
    page_ = browser.open(written(directory, of, seen, "unusual.html"))
    assert page_.errors() == []
    assert words in page_.evaluate("document.body.innerText")


def test_a_kubernetes_cluster_is_shown_without_slurms_words(browser: Browser, directory: Path) -> None:
    labels = {f"topology.k8s.aws/network-node-layer-{i}": f"nn-{i}" for i in (1, 2, 3)}
    labels["sagemaker.amazonaws.com/instance-group-name"] = "ultra"
    items = []
    for i in range(4):  # as HyperPod names its nodes: too long for a name in every cell
        own = {**labels, "topology.k8s.aws/ultraserver-id": f"us-number-{i // 2}"}
        items.append({"kind": "Node", "metadata": {"name": f"hyperpod-i-0a{i:015x}", "labels": own}})
    page_ = browser.open(written(directory, *kubernetes.cluster({"items": items}), "kubernetes.html"))
    told = page_.evaluate("document.body.innerText")
    assert page_.errors() == [] and "us-number-1" in told and "Kubernetes" in told
    for word in ("Topology=", "base size", "refused", "squeue", "Slurm 2", "owner", "undefined"):
        assert word not in told, word
    names = "[...document.querySelectorAll('.leaf .name')].map(e => e.scrollWidth <= e.clientWidth)"
    assert page_.evaluate(names) == [True, True], "a block of two nodes has no room for its name"


def test_the_captured_cluster_is_drawn_as_slurmctld_has_it(browser: Browser, directory: Path) -> None:
    of, seen = captured()
    page_ = browser.open(written(directory, of, seen, "captured.html"))
    assert page_.errors() == []
    drawn = page_.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#stage .leaf')].map(l => [l.querySelector('.uh').title,"
        " [...l.querySelectorAll('i.n')].map(i => i.getAttribute('aria-label').split(',')[0])]))"
    )
    tree = of.in_force.topology("tree") if of.in_force else None
    assert tree is not None
    leaves = {s.name: list(s.nodes) for s in tree.body.switches if s.nodes}  # type: ignore[union-attr]
    assert {name: sorted(nodes) for name, nodes in drawn.items()} == {
        name: sorted(nodes) for name, nodes in leaves.items() if not name.startswith("unplaced")
    }
