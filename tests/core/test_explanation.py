"""Why a node and a partition are as they are: nothing that was believed or refused stays unsaid."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.states import changed, inventory, state, without
from topology_plugin.core import state_json
from topology_plugin.core.diff import compare
from topology_plugin.core.explanation import explain_node, explain_partition
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.issues import Issue
from topology_plugin.core.job_explanation import explain_job
from topology_plugin.core.live import Job, Live
from topology_plugin.core.position import Position
from topology_plugin.core.settings import PartitionSettings, Settings
from topology_plugin.core.state import Owner, State
from topology_plugin.core.topology import FLAT_ONLY, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.views import words
from topology_plugin.views.explained import partition_lines
from topology_plugin.views.scene import arrange
from topology_plugin.views.text import plain


def test_every_answer_and_every_silence_of_a_node_is_told_and_the_believed_one_marked() -> None:
    why = explain_node(state(), "ip-10-1-0-1")
    said = {s.source: s for s in why.said}
    assert set(said) == {"resource-config", "records", "sagemaker", "ec2"}
    assert said["resource-config"].fits == ("tree",) and said["records"].fits == ()
    assert said["ec2"].position is None and said["ec2"].silent == "UnauthorizedOperation"
    assert why.partitions == ("dev", "train")


def test_a_node_has_a_seat_in_each_topology_that_serves_it() -> None:
    seats = {seat.topology: seat for seat in explain_node(state(), "ip-10-1-0-1").seats}
    assert set(seats) == {"flat", "tree"}
    assert seats["flat"].partitions == ("dev",) and seats["tree"].partitions == ("train",)
    assert seats["tree"].in_force == seats["tree"].desired and seats["tree"].desired is not None


def test_the_id_space_that_won_says_how_many_nodes_each_would_place() -> None:
    seen = inventory(8, 0, 0)
    for number in range(8):
        name = f"ip-10-1-0-{number + 1}"
        other = Position(("e1", "e2", "e3"))
        answers = {"ec2": other} if number < 6 else {}
        if number >= 5:
            answers["records"] = seen.nodes[name].answers["records"]
        seen = changed(seen, name, answers=answers)
    why = explain_node(state(seen), "ip-10-1-0-8")
    (seat,) = [s for s in why.seats if s.topology == "tree"]
    assert seat.space == "ec2" and seat.won == "ec2 places 6 of 8 nodes, the most (labels: 3)"
    assert seat.unplaced == "only a source other than ec2 knows it"
    assert {s.source: s.fits for s in why.said}["records"] == ()


def test_an_unplaced_node_says_why_and_what_to_do() -> None:
    seen = changed(inventory(), "ip-10-1-0-4", answers={}, silent={"records": "it has not registered"})
    why = explain_node(state(seen), "ip-10-1-0-4")
    (seat,) = [s for s in why.seats if s.topology == "tree"]
    assert "it has not registered" in seat.unplaced
    assert any("register" in sentence for sentence in why.advice)
    silent = changed(inventory(), "ip-10-1-0-4", answers={}, silent={"records": "its own label is empty"})
    assert not any("register`" in sentence for sentence in explain_node(state(silent), "ip-10-1-0-4").advice)


def test_what_was_heard_before_is_among_the_answers_and_counts_for_its_id_space() -> None:
    now = inventory()
    seen = state(now)
    silent = {n: replace(node, answers={}, silent={"records": "throttled"}) for n, node in now.nodes.items()}
    later = state(replace(now, nodes=silent), memory=seen.decision.memory)
    why = explain_node(later, "ip-10-1-0-4")
    [heard] = [said for said in why.said if said.source == "last-known:labels"]
    assert heard.position == now.nodes["ip-10-1-0-4"].answers["records"] and "tree" in heard.fits
    (seat,) = [s for s in why.seats if s.topology == "tree"]
    assert seat.won == "labels place 64 of 64 nodes; nobody else places any"


def test_a_pending_move_shows_both_places() -> None:
    then = state(inventory(unlabelled=(3,)))
    why = explain_node(state(inventory(), in_force=then.desired), "ip-10-1-0-4")
    (seat,) = [s for s in why.seats if s.topology == "tree"]
    assert seat.in_force == ("root", "unplaced", "unplaced-ip-10-1-0-4") and seat.desired != seat.in_force
    assert "a change is pending: `hyperpod-topology diff` shows it, `hyperpod-topology merge` makes it" in why.advice


def test_where_we_do_not_write_nobody_is_told_that_a_pass_makes_the_change() -> None:
    agents = Owner("agent", "HyperPod's agent manages the topology", writes=False)
    of = replace(state(in_force=FLAT_ONLY), owner=agents)
    why = explain_node(of, "ip-10-1-0-4")
    assert any(s.endswith("no pass makes it: HyperPod's agent manages the topology") for s in why.advice)
    told = plain(words.told(compare(of), of))
    assert told.startswith("Desired differs: 2 partitions changed; but no pass makes it so: HyperPod's agent")


def test_what_did_not_fit_together_about_this_node_is_told_and_not_what_is_about_others() -> None:
    issues = (
        Issue("ip-10-1-0-1", "two instances claim it", ""),
        Issue("resource_config", "10.1.0.1 stands there twice", ""),
        Issue("ip-10-1-0-11", "is something else", ""),
        Issue("i-0a0000000000000000", "is another instance", ""),
    )
    why = explain_node(state(replace(inventory(), issues=issues)), "ip-10-1-0-1")
    assert why.issues == ("ip-10-1-0-1: two instances claim it", "resource_config: 10.1.0.1 stands there twice")


def test_a_name_that_nobody_knows_is_no_error_here() -> None:
    why = explain_node(state(), "ip-10-1-0-999")
    assert why.node is None and why.partitions == () and why.seats == () and why.advice


@pytest.mark.parametrize(
    ("partition", "kind", "rule"),
    [
        ("train", "tree", "every group has network data: worker-a"),
        ("ultra", "block", "every group is of UltraServers: ultra"),
        ("dev", "flat", "groups without network data: cpu"),
        ("cpu", "flat", "no group has network data: cpu"),
    ],
)
def test_a_partition_says_its_kind_and_the_rule(partition: str, kind: str, rule: str) -> None:
    why = explain_partition(state(), partition)
    assert (why.kind, why.rule, why.in_force) == (kind, rule, (why.topology, kind))


def test_groups_are_told_with_what_they_are_capable_of_and_how_that_is_known() -> None:
    groups = {g.name: g for g in explain_partition(state(), "dev").groups}
    assert (groups["worker-a"].ability, groups["worker-a"].evidence, groups["worker-a"].nodes) == ("tree", True, 64)
    assert (groups["cpu"].ability, groups["cpu"].evidence) == (None, False)
    assert groups["ultra"].ability == "block"


def test_a_setting_behind_a_kind_is_named_with_its_origin() -> None:
    settings = Settings(
        partitions={"train": PartitionSettings(kind="flat")}, origins={"partitions": "/etc/hyperpod-topology.json"}
    )
    why = explain_partition(state(settings=settings), "train", settings)
    assert why.kind == "flat" and why.setting == "partitions.train: kind flat (/etc/hyperpod-topology.json)"
    assert "/etc/hyperpod-topology.json" in why.rule


def test_refused_sizes_unplaced_and_uncovered_nodes_are_listed() -> None:
    seen = without(inventory(0, 54, 0), "ip-10-9-0-1", "ip-10-9-1-1")
    ultra = explain_partition(state(seen), "ultra")
    assert ultra.refused == ((36, 36),) and (ultra.units, ultra.unit) == (3, "blocks")
    why = explain_partition(state(inventory(unlabelled=(3, 7))), "train")
    assert set(why.unplaced) == {"ip-10-1-0-4", "ip-10-1-0-8"} and why.uncovered == ()


def idle(of: State, job: Job) -> Live:
    return Live(dict.fromkeys(of.inventory.nodes, "idle"), (job,))


def two_roots(of: State) -> Configuration:
    """train under two roots: no job spans them."""
    nodes = of.inventory.partitions["train"].nodes
    half = len(nodes) // 2
    body = Tree((Switch("a", nodes[:half]), Switch("b", nodes[half:])))
    return Configuration((Topology("flat", Flat(), True), Topology("tree", body)), {"train": "tree"})


@pytest.mark.parametrize(
    ("in_force", "told"),
    [
        pytest.param("as desired", ["job sizes   none is refused"], id="same"),
        pytest.param(
            "two roots", ["job sizes   in force: refused: 9-16", "            desired: none is refused"], id="differ"
        ),
        pytest.param(
            "unknown", ["job sizes   in force: not known", "            desired: none is refused"], id="not-known"
        ),
    ],
)
def test_refused_sizes_say_whether_they_are_refused_now_or_after_a_change(in_force: str, told: list[str]) -> None:
    seen = state(inventory(16, 0, 0))
    made = {"as desired": seen.desired, "two roots": two_roots(seen), "unknown": None}[in_force]
    rows = [str(row)[2:] for row in partition_lines(explain_partition(replace(seen, in_force=made), "train"), None)]
    at = next(i for i, row in enumerate(rows) if row.startswith("job sizes"))
    assert rows[at : at + len(told)] == told


REFUSED: dict[str, Callable[[State], object]] = {
    "explain": lambda s: explain_partition(s, "train").refused_in_force,
    "show": lambda s: tuple(v.refused for v in arrange(s, None, desired=False, partition=None).views if v.refused),
    "diff": lambda s: tuple(compare(s).sizes),
    "job": lambda s: explain_job(s, idle(s, WIDE), WIDE).holds,
}
WIDE = Job(7, "j", "u", "PENDING", (), "train", "Resources", 12, priority=1)


@pytest.mark.parametrize("asked", REFUSED.values(), ids=REFUSED)
def test_a_tree_that_slurm_may_leave_aside_refuses_no_size(asked: Callable[[State], object]) -> None:
    seen = state(inventory(16, 0, 0))
    split = replace(seen, in_force=two_roots(seen))
    assert asked(split)
    assert not asked(replace(split, topo_optional=True))
    assert state_json.load(state_json.dump(replace(split, topo_optional=True))).topo_optional


def test_with_switches_a_job_needs_the_tree_all_the_same() -> None:
    seen = state(inventory(16, 0, 0))
    job = replace(WIDE, switches=1)
    split = replace(seen, in_force=two_roots(seen), topo_optional=True)
    assert "12 nodes is a size that train cannot run" in explain_job(split, idle(seen, job), job).holds[0].what


def test_what_is_in_force_is_told_apart_from_what_is_desired() -> None:
    assert explain_partition(state(in_force=FLAT_ONLY), "train").in_force == ("flat", "flat")
    assert explain_partition(state(in_force=None), "train").in_force is None


def test_a_tree_with_too_many_switches_says_what_that_costs() -> None:
    many: Inventory = inventory(750, 0, 0, per_leaf=1, leaves=30)
    assert any("cube" in note for note in explain_partition(state(many), "train").notes)
