"""The simulator counts what a scheduler does; here one that takes the first nodes it finds."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from topology_plugin.core.issues import InputError
from topology_plugin.core.topology import Blocks, Configuration, Tree
from topology_plugin.jobs import outcome
from topology_plugin.jobs.columns import columns
from topology_plugin.jobs.outcome import Outcome
from topology_plugin.jobs.play import Play
from topology_plugin.jobs.policies import Place, place_of, policy
from topology_plugin.jobs.scheduler import Row
from topology_plugin.jobs.simulator import Player
from topology_plugin.jobs.traces import TraceJob


class FirstFit:
    """First come, first served, first nodes in the list; refuses what is larger than `most`."""

    def __init__(self, place: Place, most: int = 10_000) -> None:
        self.nodes = list(place.nodes)
        self.most = most
        self.down: set[str] = set()
        self.jobs: dict[int, tuple[int, tuple[str, ...]]] = {}
        self.reloads: list[Configuration] = []
        self.limits: list[Mapping[int, int]] = []
        self.held: set[int] = set()
        self.few: dict[int, int] = {}
        self.number = 0

    def submit(self, nodes: int, minutes: int, switches: int | None = None) -> int | str:
        if nodes > self.most:
            return "Requested node configuration is not available"
        self.number += 1
        if switches is not None:
            self.held.add(self.number)
            self.few[self.number] = switches
        self.jobs[self.number] = (nodes, ())
        return self.number

    def relax(self, job: int) -> None:
        self.held.discard(job)

    def end(self, jobs: Sequence[int]) -> None:
        for job in jobs:
            del self.jobs[job]

    def remaining(self, minutes: Mapping[int, int]) -> None:
        self.limits.append(dict(minutes))

    def fail(self, node: str) -> None:
        self.down.add(node)
        self.jobs = {job: (size, () if node in nodes else nodes) for job, (size, nodes) in self.jobs.items()}

    def restore(self, node: str) -> None:
        self.down.discard(node)

    def reload(self, configuration: Configuration) -> None:
        self.reloads.append(configuration)

    def queue(self) -> Mapping[int, Row]:
        return {
            job: Row(nodes, "" if nodes else "Resources", job in self.held) for job, (_, nodes) in self.jobs.items()
        }

    def settled(self, enough: Callable[[Mapping[int, Row]], bool]) -> Mapping[int, Row]:
        for job, (size, nodes) in self.jobs.items():
            if nodes or job in self.held:
                continue
            used = {n for _, taken in self.jobs.values() for n in taken} | self.down
            free = [node for node in self.nodes if node not in used]
            if len(free) < size:
                break
            self.jobs[job] = (size, tuple(free[:size]))
        return self.queue()


PLACE = place_of("p5:32x8", seed=2)


def play(trace: Sequence[TraceJob], name: str = "flat", **how: Any) -> tuple[Outcome, FirstFit]:
    scheduler = FirstFit(PLACE)
    return Player(policy(name), PLACE, scheduler, Play(**how)).run(trace), scheduler


def test_jobs_wait_for_each_other_in_the_traces_own_time() -> None:
    trace = [TraceJob(0, 32, 1000, 2000), TraceJob(100, 32, 500, 900), TraceJob(200, 1, 50, 60)]
    found, _ = play(trace)
    assert (found.started, found.waiting, found.refused) == (3, 0, 0)
    assert found.mean_wait == pytest.approx((0 + 900 + 1300) / 3)
    assert found.span == 1550


def test_slurm_plans_ahead_with_what_is_left_of_the_limits_in_the_traces_time() -> None:
    trace = [TraceJob(0, 16, 1000, 2000), TraceJob(100, 32, 500, 900), TraceJob(200, 4, 50, 60)]
    _, scheduler = play(trace)
    assert scheduler.limits[0] == {1: 30}  # 2,000 s less the 200 s that it ran, in minutes


def test_occupancy_is_the_share_of_node_time_until_the_last_arrival() -> None:
    trace = [TraceJob(0, 24, 1000, 1000), TraceJob(1000, 8, 10, 10)]
    found = play(trace)[0]
    assert found.occupancy == pytest.approx(24 / 32)


@pytest.mark.parametrize("how", [{}, {"occupancy": 0.9}], ids=["arrivals", "backlog"])
def test_a_cluster_that_never_was_full_was_not_empty(how: dict[str, float]) -> None:
    found = play([TraceJob(0, 8, 1000, 1000), TraceJob(0, 4, 500, 500)], **how)[0]
    assert found.occupancy == pytest.approx((8 * 1000 + 4 * 500) / (32 * 1000))


def test_a_backlog_keeps_the_cluster_as_full_as_asked() -> None:
    trace = [TraceJob(0, 4, 100 + i, 200) for i in range(80)]
    found = play(trace, occupancy=0.75)[0]
    assert found.started == 80
    assert 0.72 <= found.occupancy <= 0.8
    assert found.mean_wait == 0


def test_refused_and_held_jobs_are_counted_and_never_waited_for() -> None:
    trace = [TraceJob(0, 20, 100, 100), TraceJob(1, 8, 100, 100), TraceJob(2, 40, 100, 100)]
    scheduler = FirstFit(PLACE, most=16)
    scheduler.held = {1}
    found = Player(policy("flat"), PLACE, scheduler, Play()).run(trace)
    assert (found.refused, found.held, found.started, found.waiting) == (2, 1, 0, 0)
    assert [size for size, _ in found.never] == [20, 40]


def test_a_backlog_behind_a_job_that_never_starts_ends_the_play() -> None:
    scheduler = FirstFit(PLACE)
    scheduler.held = {1}
    found = Player(policy("flat"), PLACE, scheduler, Play(occupancy=0.5)).run(
        [TraceJob(0, 16, 9, 9), TraceJob(0, 1, 9, 9)]
    )
    assert (found.started, found.held, found.waiting) == (0, 1, 1)


def test_leaves_are_counted_in_the_real_network_also_where_slurm_knows_none() -> None:
    found = play([TraceJob(0, 8, 100, 100)])[0]
    names = PLACE.nodes[:8]
    leaves = len({PLACE.positions[name].path for name in names})
    assert leaves > 1  # names are shuffled
    assert found.near.leaf_ratio == leaves
    assert found.then == leaves
    assert found.by_size == ((8, 1, leaves, 1.0),)


def test_a_policy_that_waits_for_few_leaves_gives_up_after_its_time() -> None:
    found, scheduler = play([TraceJob(50, 8, 100, 100), TraceJob(60, 9, 100, 100), TraceJob(70, 1, 5, 5)], "ours+10")
    assert scheduler.few == {1: 1, 2: 2}  # the single node has nothing to wait for
    assert found.mean_wait == pytest.approx((600 + 600 + 0) / 3)
    assert play([TraceJob(0, 8, 100, 100)], "flat")[1].few == {}


def test_a_lost_node_costs_the_job_its_place_and_not_its_work() -> None:
    trace = [TraceJob(0, 30, 50_000, 90_000), TraceJob(200_000, 1, 1, 1)]
    found, scheduler = play(trace, losses=400.0, seed=4)
    assert found.lost_nodes > 0
    assert found.started == 2
    assert not scheduler.down
    waited_again = found.span - 200_000
    assert 0 <= waited_again < 60_000


def test_a_node_that_comes_back_elsewhere_reloads_the_topology_only_where_one_follows_the_network() -> None:
    trace = [TraceJob(t * 10_000, 1, 100, 100) for t in range(60)]
    ours, scheduler = play(trace, "ours", losses=300.0, same_place=0.0)
    assert ours.lost_nodes > 3
    assert len(scheduler.reloads) == ours.reloads > 0
    assert len(set(map(repr, scheduler.reloads))) > 1
    flat, scheduler = play(trace, "flat", losses=300.0, same_place=0.0)
    assert flat.lost_nodes == ours.lost_nodes
    assert scheduler.reloads == []


def test_the_same_seed_plays_the_same() -> None:
    trace = [TraceJob(t * 700, 1 + t % 9, 4000, 9000) for t in range(40)]
    first, again = (play(trace, losses=100.0, seed=9)[0] for _ in range(2))
    assert first == again


def test_tables_and_json_have_a_row_for_each_policy() -> None:
    found = [play([TraceJob(0, 8, 100, 100)], name)[0] for name in ("flat", "ours")]
    text = columns(outcome.HEAD, outcome.rows(found))
    assert [line.split()[0] for line in text.splitlines()] == ["policy", "flat", "ours"]
    assert json.loads(json.dumps(found[0].to_json()))["near"]["jobs"] == 1
    head, rows = outcome.size_rows(found, blocks=False)
    assert (head[1:], len(rows)) == (["8"], 2)


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0, "0 s"), (89, "89 s"), (90, "2 min"), (5399, "90 min"), (7200, "2.0 h")]
)
def test_times_are_shown_in_the_unit_that_fits(seconds: float, shown: str) -> None:
    assert outcome.span(seconds) == shown


@pytest.mark.parametrize(
    ("text", "nodes", "domains"),
    [("p5:64x16", 64, 4), ("p5:20", 20, 2), ("gb200:72", 72, 4), ("gb200:20x9", 20, 3)],
)
def test_clusters_by_name_have_shuffled_names_in_slurms_order(text: str, nodes: int, domains: int) -> None:
    place = place_of(text, seed=1)
    assert len(place.nodes) == nodes
    found = [p.ultraserver or p.path for p in place.positions.values()]
    assert len(set(found)) == domains
    assert len({*found[: max(2, nodes // domains)]}) > 1  # the first names are not one domain
    assert place == place_of(text, seed=1) != place_of(text, seed=2)


@pytest.mark.parametrize("text", ["p5", "p5:x", "p5:0", "h100:8", "p5:8x0", "gb200:99999999"])
def test_an_unknown_cluster_is_an_error_that_shows_how_to_write_one(text: str) -> None:
    with pytest.raises(InputError, match="p5:256x16"):
        place_of(text, 1)


def test_policies_make_what_a_merge_would_put_in_force() -> None:
    gb200 = place_of("gb200:36", 1)
    assert policy("flat").configuration(gb200).default.kind == "flat"
    assert isinstance(policy("ours").configuration(PLACE).default.body, Tree)
    bodies = [policy(name).configuration(gb200).default.body for name in ("ours", "block-17", "block-9,18")]
    assert [body.sizes for body in bodies if isinstance(body, Blocks)] == [(18,), (17,), (9, 18)]
    for name in ("block-", "block-0", "ours-2", "block-9,10"):
        with pytest.raises(InputError, match="no policy"):
            policy(name)
