"""Whose the topology is: the rule as a table, and reverts counted once each."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from tests.core.test_plan import configuration, disk, flat, tree
from topology_plugin.core import topology_conf, topology_yaml
from topology_plugin.core.generation import Generation
from topology_plugin.core.ownership import Facts, OwnershipNote, foreign, judge, reverted

FOREIGN = ("a topology.yaml that is not ours is there",)
FACTS = Facts("auto", "default", None, healthy=True)
FILE = replace(FACTS, foreign=FOREIGN, foreign_file=True)


@pytest.mark.parametrize(
    ("facts", "owner", "writes"),
    [
        pytest.param(FACTS, "us", True, id="nothing of others"),
        pytest.param(replace(FACTS, enable_topology=True), "us", True, id="agent enabled, but no file of its own"),
        pytest.param(
            replace(FILE, enable_topology=True), "agent", False, id="agent's file"
        ),
        pytest.param(
            replace(FILE, enable_topology=True, adopt=True),
            "agent",
            False,
            id="--adopt is not for the agent's",
        ),
        pytest.param(
            replace(FILE, enable_topology=True, healthy=False),
            "us",
            True,
            id="br-15: agent's file is unhealthy",
        ),
        pytest.param(
            replace(FILE, mode="manage", enable_topology=True),
            "us",
            True,
            id="manage takes over",
        ),
        pytest.param(FILE, "operator", False, id="hand-written file"),
        pytest.param(replace(FILE, enable_topology=False), "operator", False, id="br-24: not enabled"),
        pytest.param(replace(FACTS, foreign=("words",), enable_topology=True), "operator", False, id="foreign word"),
        pytest.param(replace(FILE, adopt=True), "us", True, id="--adopt"),
        pytest.param(replace(FILE, note=OwnershipNote(adopted=True)), "us", True, id="adopted once"),
        pytest.param(replace(FACTS, mode="observe", healthy=False), "nobody", False, id="observe"),
        pytest.param(replace(FACTS, mode="off", healthy=False), "nobody", False, id="off"),
        pytest.param(replace(FACTS, note=OwnershipNote(stood_back=True)), "nobody", False, id="stood back"),
        pytest.param(replace(FACTS, note=OwnershipNote(uninstalled=True)), "nobody", False, id="uninstalled"),
        pytest.param(
            replace(FACTS, mode="manage", note=OwnershipNote(stood_back=True)), "nobody", False, id="manage, stood back"
        ),
    ],
)  # fmt: skip
def test_the_rule(facts: Facts, owner: str, writes: bool) -> None:
    found = judge(facts)
    assert (found.owner, found.writes) == (owner, writes)
    assert found.reason or found.owner == "us"


@dataclass
class Kept:
    generations: list[Generation]

    def ours_text(self, data: bytes) -> bool:
        return any(generation.holds_text(data) for generation in self.generations)

    def ours_word(self, partition: str, word: str | None) -> bool:
        return any(generation.words.get(partition) == word for generation in self.generations)


MINE = configuration(flat(), tree(), p="tree", q=None)
YAML = topology_yaml.render(MINE).encode()
KEPT = Kept([Generation(1, YAML, words=MINE.words)])


def test_what_a_kept_generation_holds_is_ours_and_everything_else_foreign() -> None:
    assert foreign(disk({"p": "tree", "q": None}, YAML), KEPT) == ((), False)
    assert foreign(disk({"p": None, "q": None}), KEPT) == ((), False)
    assert foreign(disk({"p": "tree", "q": None}, YAML + b"# edited\n"), KEPT) == (FOREIGN, True)
    assert foreign(disk({"p": "tree", "q": "tree"}, YAML), KEPT) == (
        ("words that are not ours: q has Topology=tree",),
        False,
    )


def test_a_topology_conf_counts_only_where_it_is_in_use() -> None:
    conf = topology_conf.render(tree()).encode()
    in_use = "a topology.conf that is not ours is in use (TopologyPlugin=topology/tree)"
    assert foreign(disk({"p": None}, None, conf, "topology/tree"), KEPT, classic=True) == ((in_use,), True)
    assert foreign(disk({"p": None}, None, conf, "topology/tree"), KEPT) == ((in_use,), True)
    assert foreign(disk({"p": None}, None, conf, "topology/default"), KEPT, classic=True) == ((), False)
    assert foreign(disk({"p": "tree", "q": None}, YAML, conf, "topology/tree"), KEPT) == ((), False)
    ours = Kept([Generation(1, None, conf, plugin="topology/tree")])
    assert foreign(disk({"p": None}, None, conf, "topology/tree"), ours, classic=True) == ((), False)


IN_FORCE = disk({"p": "tree", "q": None}, YAML)
LOST = disk({"p": None, "q": None}, YAML)


def test_a_revert_counts_once_until_our_state_stands_there_again() -> None:
    current = KEPT.generations[0]
    assert not reverted(IN_FORCE, current) and reverted(LOST, current)
    assert reverted(replace(IN_FORCE, topology_yaml=b"[]\n"), current)
    assert not reverted(disk({"q": None}, YAML), current), "a partition that is gone reverts nothing"
    note = OwnershipNote()
    for seconds in (0.0, 10.0, 20.0):
        note = note.looked(LOST, current, seconds)
    assert (note.total, note.reverts) == (1, (0.0,))
    note = note.looked(IN_FORCE, current, 30.0).looked(LOST, current, 40.0)
    assert note.total == 2 and not note.stood_back


@pytest.mark.parametrize(("every", "stands_back_after"), [(60.0, 7), (599.0, 7), (601.0, None)])
def test_more_than_six_reverts_an_hour_make_us_stand_back_until_resume(
    every: float, stands_back_after: int | None
) -> None:
    current, note, stood_back = KEPT.generations[0], OwnershipNote(), None
    for number in range(1, 13):
        note = note.looked(LOST, current, number * every).looked(IN_FORCE, current, number * every + 1)
        if note.stood_back and stood_back is None:
            stood_back = number
    assert stood_back == stands_back_after
    assert OwnershipNote.from_json(note.to_json()) == note
    if stood_back:
        later = note.looked(IN_FORCE, current, 1e9)
        assert later.stood_back and not later.resumed().stood_back


def test_an_agent_that_rewrites_slurm_conf_because_nodes_come_and_go_undoes_nothing_on_purpose() -> None:
    """HyperPod's agent drops our words at each scale-up; that is answered, and never a reason to stand back."""
    current, note = KEPT.generations[0], OwnershipNote()
    for number in range(20):
        wider = disk({"p": "tree", "q": None}, YAML, extra=f"NodeName=new-{number}\n")
        lost = disk({"p": None, "q": None}, YAML, extra=f"NodeName=new-{number}\n")
        note = note.looked(lost, current, number * 60.0).looked(lost, current, number * 60.0 + 10)
        note = note.looked(wider, current, number * 60.0 + 20)
        if number == 0:
            assert note.total == 1, "nothing is known of what was there before"
    assert note.total == 1 and not note.stood_back
    assert note.looked(lost, current, 9e3).total == 2


@pytest.mark.parametrize("odd", [None, {}, {"reverts": "x", "total": "y", "adopted": 1}, {"seen": 3}])
def test_an_odd_note_is_a_fresh_one(odd: dict[str, object] | None) -> None:
    assert OwnershipNote.from_json(odd) == OwnershipNote()
