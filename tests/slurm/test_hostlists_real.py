"""Node lists read and written by Slurm and by us: hundreds of random sets, and every oddity of the tables."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.core.test_hostlists import EXPANDED, REFUSED
from tests.slurm.cluster import Cluster
from topology_plugin.core.hostlists import HostlistError, expand, fold

# Between the sets of one call; Slurm folds neighbours only, and keeps the order.
MARK = "between-sets"
# Longest single argument Linux passes on is 128 KiB.
ARGUMENT = 120_000
# What Slurm takes and we refuse: names with a bracket in them, and lists that only slurmctld, or nobody, can hold.
STRICTER = {"closing bracket alone", "nested", "billions of names", "hostlist function"}


@pytest.fixture(scope="module", params=["slurm_bin", "slurm_bin_24"])
def scontrol(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A cluster that never starts: reading lists needs a slurm.conf and no slurmctld."""
    slurm_bin: Path = request.getfixturevalue(request.param)
    cluster = Cluster(tmp_path_factory.mktemp("cluster"), slurm_bin)
    cluster.write_conf("NodeName=n1 State=CLOUD", "PartitionName=p Nodes=ALL")
    try:
        yield cluster
    finally:
        cluster.stop()


def random_sets(count: int, longest: int) -> list[list[str]]:
    """Sets of up to 40 names: HyperPod's names, mixed widths, several prefixes, suffixes, duplicates, numbers alone.

    Numbers that stay outside brackets with us (16 digits and more) only if `longest` allows them.
    """
    rng = random.Random(20_240)
    prefixes = ["ip-10-3-17-", "ip-10-3-2-", "worker-a-", "n", "a0b", "x-", "rack1n", "", "login", "gpu.", "N"]
    suffixes = ["", "", "", "", "", "-ib", "x"]

    def tail() -> str:
        kind = rng.randrange(8)
        if kind == 0:
            return str(
                rng.choice([rng.randrange(10), 10**14 + rng.randrange(3), 10 ** (longest - 1) + rng.randrange(3)])
            )
        if kind == 1:
            return "0" * rng.randrange(1, 5)
        if kind in (2, 3):
            return f"{rng.randrange(98, 103):0{rng.randrange(1, 6)}d}"
        return f"{rng.randrange(8, 13):0{rng.randrange(1, 4)}d}" if kind < 6 else str(rng.randrange(1, 256))

    sets = []
    for _ in range(count):
        chosen = rng.sample(prefixes, rng.randrange(1, 5))
        names = [rng.choice(chosen) + tail() + rng.choice(suffixes) for _ in range(rng.randrange(1, 40))]
        sets.append(names + rng.sample(names, rng.randrange(len(names)) if rng.random() < 0.2 else 0))
    return sets


def batches(lists: list[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size = 0
    for one in lists:
        if batch and size + len(one) > ARGUMENT:
            yield batch
            batch, size = [], 0
        batch.append(one)
        size += len(one) + len(MARK) + 2
    yield batch


def expanded_by_slurm(scontrol: Cluster, lists: list[str]) -> list[list[str]]:
    sets: list[list[str]] = []
    for batch in batches(lists):
        printed = scontrol.scontrol("show", "hostnames", f",{MARK},".join(batch)).stdout.split("\n")
        sets.append([])
        for name in printed[:-1]:
            if name == MARK:
                sets.append([])
            else:
                sets[-1].append(name)
    return sets


def folded_by_slurm(scontrol: Cluster, sets: list[list[str]]) -> list[str]:
    lists: list[str] = []
    for batch in batches([",".join(names) for names in sets]):
        printed = scontrol.scontrol("show", "hostlist", f",{MARK},".join(batch)).stdout.rstrip("\n")
        lists += printed.split(f",{MARK},")
    return lists


def test_what_we_fold_slurm_reads_as_the_same_names(scontrol: Cluster) -> None:
    sets = random_sets(600, longest=19)
    lists = [fold(names) for names in sets]
    answers = expanded_by_slurm(scontrol, lists)
    assert len(answers) == len(sets)
    for names, text, answer in zip(sets, lists, answers, strict=True):
        assert Counter(answer) == Counter(names), text
        assert answer == expand(text), text


def test_names_in_our_order_fold_to_the_same_text_in_slurm(scontrol: Cluster) -> None:
    lists = [fold(names) for names in random_sets(600, longest=15)]
    assert folded_by_slurm(scontrol, [expand(text) for text in lists]) == lists


def test_what_slurm_folds_we_read_as_slurm_does(scontrol: Cluster) -> None:
    sets = random_sets(400, longest=19)
    for names, text in zip(sets, folded_by_slurm(scontrol, sets), strict=True):
        assert expand(text) == names, text


def test_ten_thousand_names_and_the_widest_range_survive_the_way_through_slurm(scontrol: Cluster) -> None:
    names = [f"ip-10-{2 + i // 62500}-{i // 250 % 250}-{i % 250 + 1}" for i in range(10_000)]
    names += [f"n{i}" for i in range(1, 70_001)]
    (answer,) = expanded_by_slurm(scontrol, [fold(names)])
    assert answer == names


def test_lists_with_several_brackets_come_in_slurms_order(scontrol: Cluster) -> None:
    rng = random.Random(7)
    lists = []
    for _ in range(200):
        groups = [
            f"{rng.choice('abc')}[{rng.choice(['1-2', '01,3', '9-11', '5', '008-9'])}]"
            for _ in range(rng.randrange(1, 6))
        ]
        lists.append("".join(groups) + rng.choice(["", "x", "7", "-ib"]))
    assert expanded_by_slurm(scontrol, lists) == [expand(text) for text in lists]


@pytest.mark.parametrize(("text", "names"), EXPANDED.values(), ids=EXPANDED)
def test_the_table_says_what_slurm_prints(scontrol: Cluster, text: str, names: list[str]) -> None:
    assert scontrol.scontrol("show", "hostnames", text).stdout.split() == names


@pytest.mark.parametrize("name", sorted(set(REFUSED) - STRICTER))
def test_what_we_refuse_slurm_refuses(scontrol: Cluster, name: str) -> None:
    text = REFUSED[name][0]
    done = scontrol.scontrol("show", "hostnames", text, check=False)
    assert "Invalid hostlist" in done.stdout + done.stderr
    with pytest.raises(HostlistError):
        expand(text)
