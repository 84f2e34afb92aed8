"""What a pass costs grows with the nodes and not faster: counts and ratios, no seconds."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from benchmarks import bench
from benchmarks.large_cluster import large_cluster, record_of, write_records
from tests.app.stage import Stage, unlabelled
from topology_plugin.adapters.clock import SystemClock
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.core import records, resource_config, topology_yaml
from topology_plugin.core.decision import Memory
from topology_plugin.core.matching import ApiAnswers, SlurmNode, Sources, take_stock
from topology_plugin.jobs.simulated_cluster import CLUSTER_ARN

SMALL, LARGE = 256, 1024


def calls(nodes: int) -> int:
    """Python functions called from facts in memory to the text: the same on every machine."""
    known = bench.facts(large_cluster(nodes))
    count = 0

    def counted(frame: object, event: str, argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        bench.text_of(*known)
    finally:
        sys.setprofile(None)
    return count


def test_the_way_from_facts_to_text_grows_as_the_nodes_do() -> None:
    assert calls(LARGE) / calls(SMALL) < 4.6


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
        count = 0

        def counted(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += event in ("call", "c_call")

        sys.setprofile(counted)
        try:
            take_stock(nodes, [], sources, Memory())
        finally:
            sys.setprofile(None)
        return count

    assert looked(64) / looked(16) < 4.6


@pytest.mark.parametrize("nodes", [2048])
def test_a_boot_storm_takes_few_reconfigures_and_the_last_node_is_placed_in_time(tmp_path: Path, nodes: int) -> None:
    """All register within 10 minutes in no order; the clock is simulated."""
    simulated = large_cluster(nodes)
    stage = Stage(tmp_path, unlabelled(simulated))
    arrivals = list(simulated.members("worker-a"))
    directory = stage.room.registry / "nodes"
    directory.mkdir(parents=True)
    start, done = stage.clock.time, 0

    def arrive(now: float) -> None:
        nonlocal done
        due = min(nodes, int((now - start) / 600 * nodes))
        for machine in arrivals[done:due]:
            record = record_of(machine)
            (directory / record.file_name).write_bytes(records.dump(record))
        done = due

    stage.go(600, arrive)
    settings = stage.wiring.settings
    stage.go(settings.settle_seconds + settings.min_reconfigure_interval + 2 * settings.poll_seconds)
    assert done == nodes
    last = arrivals[-1]
    found = topology_yaml.parse(stage.yaml.read_text()).topology("tree")
    assert found is not None
    leaf = next(s for s in found.body.switches if last.name in s.nodes)  # type: ignore[union-attr]
    assert not leaf.name.startswith("unplaced")
    assert stage.ctld.reconfigures <= 6
