"""Required means one domain or none; preferred never waits for long; both say what they did."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests import states
from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError
from topology_plugin.core.live import Live
from topology_plugin.core.topology import Blocks
from topology_plugin.jobs import distance, levels, submission
from topology_plugin.jobs.distance import Network
from topology_plugin.jobs.submission import Plan, Remark, Wish

STATE = states.state()
TRAIN, ULTRA = distance.of_state(STATE, "train"), distance.of_state(STATE, "ultra")
TREE, BLOCK = STATE.desired.of_partition("train"), STATE.desired.of_partition("ultra")


def live(busy: list[str] | None = None, out: list[str] | None = None) -> Live:
    found = dict.fromkeys(STATE.inventory.nodes, "idle")
    return Live({**found, **dict.fromkeys(busy or [], "allocated"), **dict.fromkeys(out or [], "drained")})


def require(word: str, size: int, seen: Live | None = None, wish: Wish | None = None, ultra: bool = False) -> Plan:
    network, topology, name = (ULTRA, BLOCK, "ultra") if ultra else (TRAIN, TREE, "train")
    level = levels.parse(word, network, name)
    return submission.required(level, wish or Wish(size, size), network, topology, seen, name)


def prefer(word: str, size: int, seen: Live | None, wait: int = 300, max_wait: int = 300, ultra: bool = False) -> Plan:
    network, topology, name = (ULTRA, BLOCK, "ultra") if ultra else (TRAIN, TREE, "train")
    level = levels.parse(word, network, name)
    return submission.preferred(level, Wish(size, size), network, topology, seen, wait, max_wait)


def allowed(plan: Plan, network: Network = TRAIN) -> set[str]:
    excluded = [n for option in plan.options if option.startswith("--exclude=") for n in expand(option[10:])]
    return set(network.nodes) - set(excluded)


@given(
    st.sampled_from(["leaf", "layer-2", "layer-1"]),
    st.integers(1, 64),
    st.sets(st.sampled_from(TRAIN.nodes)),
    st.sets(st.sampled_from(TRAIN.nodes), max_size=10),
)
def test_whatever_is_busy_a_required_job_is_left_with_one_domain_that_can_hold_it_or_refused(
    word: str, size: int, busy: set[str], excluded: set[str]
) -> None:
    level = levels.parse(word, TRAIN, "train")
    wish = Wish(size, size, excluded=tuple(excluded))
    try:
        plan = require(word, size, live(list(busy)), wish)
    except InputError:
        assert all(len(set(nodes) - excluded) < size for nodes in level.domains(TRAIN).values())
        return
    left = allowed(plan) - excluded
    assert len({level.domain(TRAIN, node) for node in left}) == 1
    assert len(left) >= size
    room = max(len(set(nodes) - excluded - busy) for nodes in level.domains(TRAIN).values())
    assert (len(left - busy) >= size) == (room >= size)  # a domain with room is taken if there is one


def test_of_domains_with_room_the_tightest_is_taken() -> None:
    plan = require("leaf", 3, live(list(TRAIN.nodes[8:12]) + list(TRAIN.nodes[16:22])))
    assert allowed(plan) == set(TRAIN.nodes[8:16])
    assert "fixed now" in plan.notes[-1]


def test_without_room_anywhere_the_one_with_most_idle_nodes_is_taken_and_told() -> None:
    busy = [n for i, n in enumerate(TRAIN.nodes) if i % 8 >= 2 and not 40 <= i < 46]
    plan = require("leaf", 7, live(busy, out=[TRAIN.nodes[41]]))
    assert allowed(plan) == set(TRAIN.nodes[40:48])
    assert "no domain has room for 7 nodes now" in plan.notes[0]


def test_where_slurm_cannot_be_asked_size_decides_and_it_says_so() -> None:
    assert "could not be asked" in require("layer-2", 20).notes[0]


def test_named_nodes_decide_the_domain() -> None:
    plan = require("leaf", 2, live(), Wish(2, 2, named=(TRAIN.nodes[20], TRAIN.nodes[21])))
    assert allowed(plan) == set(TRAIN.nodes[16:24])
    with pytest.raises(InputError, match="not in one domain"):
        require("leaf", 2, live(), Wish(2, 2, named=(TRAIN.nodes[0], TRAIN.nodes[63])))


def test_nodes_that_the_user_excludes_stay_excluded() -> None:
    plan = require("layer-2", 28, live(), Wish(28, 28, excluded=TRAIN.nodes[:4]))
    assert not allowed(plan) & set(TRAIN.nodes[:4])
    assert set(plan.excluded) >= set(TRAIN.nodes[:4])


def test_what_no_domain_can_ever_hold_is_refused_with_the_most_that_one_can() -> None:
    with pytest.raises(InputError, match="can hold 9 nodes \\(most: 8\\)"):
        require("leaf", 9, live())


def test_a_level_of_one_domain_needs_nothing() -> None:
    assert require("layer-1", 64, live()).options == ()


def test_up_to_the_base_size_slurm_itself_keeps_a_job_in_one_ultraserver() -> None:
    plan = require("ultraserver", 18, live(), ultra=True)
    assert (plan.options, plan.domain) == ((), None)
    assert "18 nodes one UltraServer" in plan.notes[0]


@pytest.mark.parametrize(
    "wish",
    [pytest.param(Wish(4, 4, segment=True), id="segments may be apart"), pytest.param(Wish(4, 40), id="a range")],
)
def test_what_slurm_might_spread_is_fixed_to_one_ultraserver(wish: Wish) -> None:
    plan = require("ultraserver", 0, live(), wish, ultra=True)
    assert len({ULTRA.blocks[node] for node in allowed(plan, ULTRA)}) == 1


def test_an_ultraserver_of_which_the_partition_has_too_few_nodes_holds_no_job() -> None:
    half = replace(ULTRA, nodes=ULTRA.nodes[::2])  # nine nodes of each
    level = levels.parse("ultraserver", half, "half")
    assert submission.required(level, Wish(9, 9), half, BLOCK, live(), "half").options == ()
    with pytest.raises(InputError, match=r"can hold 12 nodes \(most: 9\)"):
        submission.required(level, Wish(12, 12), half, BLOCK, live(), "half")


def test_nodes_in_no_block_are_never_left_to_slurm() -> None:
    assert BLOCK is not None and isinstance(BLOCK.body, Blocks)
    partial = replace(BLOCK, body=replace(BLOCK.body, blocks=BLOCK.body.blocks[:1]))
    plan = submission.required(levels.parse("ultraserver", ULTRA, "ultra"), Wish(4, 4), ULTRA, partial, live(), "ultra")
    assert len({ULTRA.blocks[node] for node in allowed(plan, ULTRA)}) == 1
    assert plan.options


def test_an_ultraserver_larger_than_the_base_size_is_fixed() -> None:
    assert BLOCK is not None and isinstance(BLOCK.body, Blocks)
    small = replace(BLOCK, body=replace(BLOCK.body, sizes=(9,)))
    level = levels.parse("ultraserver", ULTRA, "ultra")
    plan = submission.required(level, Wish(16, 16), ULTRA, small, live(), "ultra")
    assert len({ULTRA.blocks[node] for node in allowed(plan, ULTRA)}) == 1


@pytest.mark.parametrize(
    ("word", "size", "busy", "option"),
    [
        pytest.param("leaf", 8, [], "--switches=1@05:00", id="one leaf"),
        pytest.param("leaf", 20, [], "--switches=3@05:00", id="fewest leaves where one is too small"),
        pytest.param("layer-2", 20, [], "--switches=4@05:00", id="a spine has four"),
        pytest.param(
            "layer-2", 16, [n for i, n in enumerate(TRAIN.nodes) if i % 8 >= 3], "--switches=4@05:00",
            id="no spine has room, six leaves of two would do: wait for four",
        ),
        pytest.param(
            "layer-2", 10, [n for i, n in enumerate(TRAIN.nodes) if i % 16 >= 5], "--switches=4@05:00",
            id="a spine has room, in two leaves",
        ),
    ],
)  # fmt: skip
def test_preferred_asks_for_few_leaves_for_a_while(word: str, size: int, busy: list[str], option: str) -> None:
    plan = prefer(word, size, live(busy))
    assert plan.options == (option,)
    assert plan.domain is None


def test_preferred_never_waits_longer_than_the_cluster_allows() -> None:
    plan = prefer("leaf", 8, live(), wait=3600, max_wait=120)
    assert plan.options == ("--switches=1@02:00",)
    assert "at most 120 s" in plan.notes[0]


def test_preferred_over_two_spines_says_when_slurm_cannot_be_made_to_wait() -> None:
    busy = [*TRAIN.nodes[8:32], *TRAIN.nodes[40:]]  # a leaf free under each spine
    plan = prefer("layer-2", 16, live(busy))
    assert plan.options == ("--switches=2@05:00",)
    assert "right away" in plan.notes[0]


def test_preferred_where_nothing_fits_asks_for_the_fewest_leaves() -> None:
    plan = prefer("layer-2", 40, live())
    assert plan.options == ("--switches=5@05:00",)
    assert "no domain" in plan.notes[0]


@pytest.mark.parametrize(
    ("size", "options"),
    [(16, ("--segment=8",)), (17, ("--segment=1",)), (32, ("--segment=16",)), (36, ("--segment=18",)), (1, ())],
)
def test_preferred_ultraservers_become_segments_that_may_part(size: int, options: tuple[str, ...]) -> None:
    assert prefer("ultraserver", size, live(), ultra=True).options == options


def test_preferred_where_slurm_has_no_word_is_submitted_as_it_is() -> None:
    plan = prefer("layer-1", 30, live(), ultra=True)
    assert plan.options == ()
    assert "no word" in plan.notes[0]
    flat = distance.of_state(STATE, "dev")
    level = levels.parse("leaf", flat, "dev")
    assert submission.preferred(level, Wish(8, 8), flat, STATE.desired.of_partition("dev"), live(), 60).options == ()


@pytest.mark.parametrize(
    "remark", [Remark("leaf"), Remark("topology.k8s.aws/network-node-layer-2", ("ip-1-2-3-4", "n7"))]
)
def test_the_remark_in_the_comment_is_read_back(remark: Remark) -> None:
    assert Remark.parse(str(remark)) == remark


@pytest.mark.parametrize("comment", ["", "my own words", "hyperpod-topology: nothing"])
def test_a_comment_of_the_users_is_no_remark(comment: str) -> None:
    assert Remark.parse(comment) is None
