"""What a pass costs grows with the nodes and not faster: counts and ratios, no seconds."""

from __future__ import annotations

import json
import os
import sys
import tracemalloc
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from benchmarks import bench
from benchmarks.large_cluster import PER_LEAF, large_cluster, record_of, write_records
from benchmarks.storm import bounds, storm
from topology_plugin.adapters.clock import SystemClock
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.core import resource_config, slurm_conf
from topology_plugin.core.decision import Memory
from topology_plugin.core.matching import take_stock
from topology_plugin.core.settings import Settings
from topology_plugin.core.sources import ApiAnswers, SlurmNode, Sources
from topology_plugin.core.stock import stock
from topology_plugin.jobs.simulated_cluster import CLUSTER_ARN

SMALL, LARGE = 256, 1024
BYTES_A_NODE = 2500  # 2,000 as measured


def calls(act: Callable[[], object]) -> int:
    """Python functions called by it: the same on every machine."""
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        act()
    finally:
        sys.setprofile(None)
    return count


def test_the_way_from_facts_to_text_grows_as_the_nodes_do() -> None:
    small, large = (bench.facts(large_cluster(nodes)) for nodes in (SMALL, LARGE))
    assert calls(lambda: bench.text_of(*large)) / calls(lambda: bench.text_of(*small)) < 4.6


def test_topology_yaml_grows_as_the_leaves_do() -> None:
    small, large = (len(bench.text_of(*bench.facts(large_cluster(n)))) for n in (SMALL, LARGE))
    assert large / small < 4.2
    assert large / LARGE * 16384 < 150_000


def test_one_node_replaced_changes_at_most_four_lines() -> None:
    simulated = large_cluster(LARGE)
    before = bench.text_of(*bench.facts(simulated))
    after = bench.text_of(*bench.facts(bench.replaced(simulated)))
    assert 1 <= bench.changed_lines(before, after) <= 4


def test_one_record_replaced_is_one_record_read(tmp_path: Path) -> None:
    simulated = large_cluster(SMALL)
    write_records(tmp_path, simulated)
    read: list[str] = []

    def counted(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        read.append(name)
        return os.open(name, flags, mode, dir_fd=dir_fd)

    registry = RegistryDirectory(tmp_path, RealFiles(), SystemClock(), open_file=counted)
    reading = registry.read_all(CLUSTER_ARN)
    assert len(read) == len(simulated.nodes)
    changed = record_of(simulated.members("worker-a")[0])
    assert registry.write(changed._replace(instance_name="renamed"))
    read.clear()
    registry.read_all(CLUSTER_ARN, reading)
    assert read == [changed.file_name]


def test_a_record_costs_four_calls_of_the_system_and_neighbours_share_what_they_say(tmp_path: Path) -> None:
    simulated = large_cluster(SMALL)
    write_records(tmp_path, simulated)
    registry = RegistryDirectory(tmp_path, RealFiles(), SystemClock())
    used: Counter[str] = Counter()

    def counted(frame: object, event: str, argument: object) -> None:
        if event == "c_call" and getattr(argument, "__module__", "") == "posix":
            used[argument.__name__] += 1  # type: ignore[attr-defined]

    sys.setprofile(counted)
    try:
        reading = registry.read_all(CLUSTER_ARN)
    finally:
        sys.setprofile(None)
    some = len(simulated.nodes)
    assert {name: count for name, count in used.items() if count >= some // 2} == {
        "open": some + 1,
        "fstat": some + 1,
        "read": some,
        "close": some + 1,
    }
    leaves = -(-SMALL // PER_LEAF)
    assert len({id(record.answers) for record in reading.records.values() if record.position}) == leaves


def test_what_a_pass_keeps_of_a_node_is_two_kilobytes(tmp_path: Path) -> None:
    """Records, resource_config, slurm.conf and the inventory that is made of them, all of them at once."""

    def kept(nodes: int) -> int:
        simulated = large_cluster(nodes)
        write_records(tmp_path / str(nodes), simulated)
        registry = RegistryDirectory(tmp_path / str(nodes), RealFiles(), SystemClock())
        document = json.dumps(simulated.resource_config())
        text = "\n".join([*simulated.node_lines(), *simulated.partition_lines(), ""])
        tracemalloc.start()
        try:
            reading = registry.read_all(CLUSTER_ARN)
            config = resource_config.parse(document)
            conf = slurm_conf.parse("/slurm.conf", {"/slurm.conf": text}.get)
            made = stock(conf, [], Sources(config, reading.records), Memory())
            assert len(made[0].nodes) > nodes
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()

    few, many = SMALL // 2, 2 * SMALL
    assert (kept(many) - kept(few)) / (many - few) < BYTES_A_NODE


def test_groups_do_not_multiply_with_nodes() -> None:
    """Many instance groups: each node is looked at once, not once for each group."""

    def looked(groups: int) -> int:
        instances = [
            {
                "Name": f"g{i}",
                "InstanceType": "ml.p6e-gb200.36xlarge",
                "Instances": [
                    {"InstanceId": f"i-0{i:03d}{n:03d}", "CustomerIpAddress": f"10.1.{i}.{n}"} for n in range(4)
                ],
            }
            for i in range(groups)
        ]
        config = resource_config.parse(json.dumps({"InstanceGroups": instances}))
        nodes = [SlurmNode(f"ip-10-1-{i}-{n}", f"10.1.{i}.{n}") for i in range(groups) for n in range(4)]
        told = {f"i-0{i:03d}{n:03d}": "u" for i in range(groups) for n in range(4)}
        sources = Sources(config, {}, answers={"sagemaker": ApiAnswers(ultraserver_types=told)})
        return calls(lambda: take_stock(nodes, [], sources, Memory()))

    assert looked(64) / looked(16) < 4.6


def test_a_boot_storm_takes_few_reconfigures_and_the_last_node_is_placed_in_time(tmp_path: Path) -> None:
    """All register within 10 minutes in no order; the clock is simulated."""
    found, bound = storm(tmp_path, 2048), bounds(Settings())
    assert 1 <= found.reconfigures <= bound.reconfigures == 6
    assert 0 < found.placed <= bound.placed == 140
