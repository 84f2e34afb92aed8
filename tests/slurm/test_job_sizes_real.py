"""The job sizes that we compute as refused are those that the real slurmctld refuses, every size of every shape."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.core.test_job_sizes import SEEN, STALLS_BY_ORDER, blocks, nodes
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.core import topology_conf, topology_yaml
from topology_plugin.core.job_sizes import refused
from topology_plugin.core.topology import Configuration, Switch, Topology, Tree

PARTITION = "PartitionName=p Nodes=ALL Default=YES"


def start(slurmctld: NewCluster, slurm_bin: Path, topology: Topology, count: int, classic: bool = False) -> Cluster:
    kind = f"TopologyPlugin=topology/{topology.kind}" if classic else ""
    cluster = slurmctld(
        f"NodeName=n[1-{count}] State=CLOUD CPUs=1", PARTITION, extra=kind, slurm_bin=slurm_bin, start=False
    )
    if classic:
        cluster.write_topology(topology_conf.render(topology), "topology.conf")
    else:
        cluster.write_topology(topology_yaml.render(Configuration((topology,))))
    cluster.start()
    return cluster


def refused_by_slurm(cluster: Cluster, slurm_bin: Path, count: int) -> list[int]:
    """Every size from 1 to `count`, asked by one shell: a process less for each."""
    sbatch = shlex.quote(str(slurm_bin / "sbatch"))
    script = f"for k in $(seq {count}); do {sbatch} --test-only -N $k --wrap true >/dev/null 2>$k.err || echo $k; done"
    done = subprocess.run(
        ["sh", "-c", script], cwd=cluster.directory, env=cluster.env, capture_output=True, text=True, check=True
    )
    sizes = [int(line) for line in done.stdout.split()]
    for size in sizes:
        said = (cluster.directory / f"{size}.err").read_text()
        assert "allocation failure" in said, said
    return sizes


def computed(topology: Topology, count: int) -> list[int]:
    return [size for low, high in refused(topology, nodes(count)) for size in range(low, high + 1)]


@pytest.mark.parametrize(("counts", "sizes"), [row[:2] for row in SEEN], ids=[f"{c}-{s}" for c, s, _ in SEEN])
def test_block_sizes_of_shapes_from_practice(
    slurmctld: NewCluster, slurm_bin: Path, counts: list[int], sizes: list[int]
) -> None:
    topology = blocks(counts, sizes)
    cluster = start(slurmctld, slurm_bin, topology, sum(counts))
    assert refused_by_slurm(cluster, slurm_bin, sum(counts)) == computed(topology, sum(counts))


@pytest.mark.parametrize("in_blocks", [1, -1], ids=["named as the blocks", "named the other way round"])
@pytest.mark.parametrize("in_conf", [1, -1], ids=["listed by name", "listed the other way round"])
def test_block_sizes_by_the_order_of_names(
    slurmctld: NewCluster, slurm_bin: Path, in_blocks: int, in_conf: int
) -> None:
    topology = blocks(*STALLS_BY_ORDER, nodes(13)[::in_blocks])
    lines = "\n".join(f"NodeName={name} State=CLOUD CPUs=1" for name in nodes(13)[::in_conf])
    yaml = topology_yaml.render(Configuration((topology,)))
    cluster = slurmctld(lines, PARTITION, topology=yaml, slurm_bin=slurm_bin)
    assert refused_by_slurm(cluster, slurm_bin, 13) == computed(topology, 13)


@st.composite
def shapes(draw: st.DrawFn) -> tuple[list[int], list[int], int]:
    """Short, long, empty blocks; up to three levels, above what there is too; nodes in no block."""
    base = draw(st.integers(1, 5))
    count = st.one_of(st.just(base), st.integers(0, base + 2))
    counts = draw(st.lists(count, min_size=1, max_size=12).filter(any))
    sizes = [base, *(base << level for level in sorted(draw(st.sets(st.integers(1, 6), max_size=3))))]
    return counts, sizes, draw(st.sampled_from([0, 0, 1, 3]))


TEN = settings(max_examples=10, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@TEN
@given(shapes())
def test_block_sizes_of_any_shape(
    slurmctld: NewCluster, slurm_bin: Path, shape: tuple[list[int], list[int], int]
) -> None:
    counts, sizes, outside = shape
    topology = blocks(counts, sizes)
    cluster = start(slurmctld, slurm_bin, topology, sum(counts) + outside)
    assert refused_by_slurm(cluster, slurm_bin, sum(counts) + outside) == computed(topology, sum(counts) + outside)
    cluster.stop()


@settings(TEN, max_examples=4)
@given(st.lists(st.integers(3, 6), min_size=1, max_size=7), st.sets(st.integers(1, 4), max_size=2))
def test_block_sizes_under_24_11(
    slurmctld: NewCluster, slurm_bin_24: Path, counts: list[int], levels: set[int]
) -> None:
    topology = blocks(counts, [3, *(3 << level for level in sorted(levels))])
    cluster = start(slurmctld, slurm_bin_24, topology, sum(counts), classic=True)
    assert refused_by_slurm(cluster, slurm_bin_24, sum(counts)) == computed(topology, sum(counts))
    cluster.stop()


def test_a_tree_that_is_optional_refuses_nothing(slurmctld: NewCluster, slurm_bin: Path) -> None:
    two_roots = switches(4, 2)
    cluster = start(slurmctld, slurm_bin, two_roots, 6)
    assert refused_by_slurm(cluster, slurm_bin, 6) == [5, 6]
    cluster.edit_conf("MailProg", "TopologyParam=TopoOptional\nMailProg")
    cluster.restart()
    assert refused_by_slurm(cluster, slurm_bin, 6) == []
    assert refused(two_roots, nodes(6), topo_optional=True) == ()
    assert refused(blocks([4, 2], [4]), nodes(6), topo_optional=True) == refused(blocks([4, 2], [4]), nodes(6))


def switches(*leaves: int, roots: tuple[tuple[int, ...], ...] = ()) -> Topology:
    names = iter(nodes(sum(leaves)))
    made = [Switch(f"leaf-{i}", tuple(next(names) for _ in range(count))) for i, count in enumerate(leaves)]
    made += [Switch(f"root-{i}", (), tuple(f"leaf-{leaf}" for leaf in root)) for i, root in enumerate(roots)]
    return Topology("t", Tree(tuple(made)), True)


TREES = [
    ("one root", switches(4, 2, roots=((0, 1),)), 6),
    ("two roots", switches(4, 2, 3, roots=((0, 1), (2,))), 9),
    ("no root", switches(4, 2, 3), 9),
    ("roots of unlike depth", switches(4, 2, 8, roots=((0, 1),)), 14),
    ("nodes outside", switches(4, 2, roots=((0, 1),)), 9),
    ("nodes outside, no root", switches(4, 2), 9),
]


@pytest.mark.parametrize(("topology", "count"), [row[1:] for row in TREES], ids=[row[0] for row in TREES])
@pytest.mark.parametrize("release", ["slurm_bin", "slurm_bin_24"], ids=["26.05", "24.11"])
def test_tree_sizes(
    slurmctld: NewCluster, request: pytest.FixtureRequest, release: str, topology: Topology, count: int
) -> None:
    slurm_bin: Path = request.getfixturevalue(release)
    cluster = start(slurmctld, slurm_bin, topology, count, classic=release == "slurm_bin_24")
    assert refused_by_slurm(cluster, slurm_bin, count) == computed(topology, count)
