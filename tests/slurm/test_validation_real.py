"""Every rule that stops slurmctld, each broken alone: slurmctld really dies, and a rehearsal says so beforehand.

The same configurations are put to our rules in tests/core/test_validation.py.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.broken import BREAKS_24, BREAKS_26, IDLE_24, STARTS_24, STARTS_26, V24, V26, Files
from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.adapters.private_slurmctld import SlurmctldDied
from topology_plugin.adapters.rehearsal import NamespaceRehearsal
from topology_plugin.core import slurm_conf, topology_conf, topology_yaml
from topology_plugin.core.rules import RULES
from topology_plugin.core.stage import Stage, external, scene
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.core.validation import check_configuration, check_files, refusing, saved_words, unhealthy

WAITS_A_MINUTE = "conf-missing"


def prepared(slurmctld: NewCluster, slurm_bin: Path, files: Files) -> Cluster:
    """The cluster with these files, not started."""
    cluster = slurmctld(files.nodes, files.partitions, extra=files.extra, slurm_bin=slurm_bin, start=False)
    for name, data in (("topology.yaml", files.yaml_bytes), ("topology.conf", files.conf_bytes)):
        if data is not None:
            (cluster.conf.parent / name).write_bytes(data)
    return cluster


def gone(cluster: Cluster) -> bool:
    deadline = time.monotonic() + 10
    while cluster.alive() and time.monotonic() < deadline:
        time.sleep(0.02)
    return not cluster.alive()


def ids(cases: Iterable[Files]) -> list[str]:
    return [files.id for files in cases]


@pytest.fixture
def bin_of(request: pytest.FixtureRequest) -> dict[tuple[int, int, int], Path]:
    """Only what the case needs is built."""
    files = request.getfixturevalue("files")
    return {files.version: request.getfixturevalue("slurm_bin" if files.version == V26 else "slurm_bin_24")}


@pytest.mark.parametrize("files", [*BREAKS_26, *BREAKS_24], ids=ids([*BREAKS_26, *BREAKS_24]))
def test_slurmctld_dies_of_it_and_a_rehearsal_says_so(
    slurmctld: NewCluster, bin_of: dict[tuple[int, int, int], Path], files: Files, tmp_path: Path
) -> None:
    slurm_bin = bin_of[files.version]
    cluster = prepared(slurmctld, slurm_bin, files)
    if files.rule == WAITS_A_MINUTE:
        with pytest.raises(TimeoutError):
            cluster.start(timeout=2)
        assert "retrying in 1sec up to 60sec" in cluster.log
    else:
        with pytest.raises(SlurmctldDied) as died:
            cluster.start()
        assert (died.value.code < 0) == (RULES[files.rule].severity == "crashes"), died.value
    if not files.seen_by_rehearsal:
        return
    stage = Stage(
        scene(files.conf, files.yaml_bytes, files.conf_bytes, files.version), external=external(files.version)
    )
    outcome = NamespaceRehearsal(slurm_bin, budget=3, directory=tmp_path).rehearse(stage)
    assert not outcome.started
    assert outcome.error


@pytest.mark.parametrize("files", [*STARTS_26, *STARTS_24], ids=ids([*STARTS_26, *STARTS_24]))
def test_slurmctld_starts_with_it(
    slurmctld: NewCluster, bin_of: dict[tuple[int, int, int], Path], files: Files
) -> None:
    cluster = prepared(slurmctld, bin_of[files.version], files)
    cluster.start()
    assert not unhealthy(check_files(files.conf, files.yaml_bytes, files.conf_bytes, files.version))


@pytest.mark.parametrize("files", IDLE_24, ids=ids(IDLE_24))
def test_slurmctld_starts_with_it_and_refuses_every_job(
    slurmctld: NewCluster, bin_of: dict[tuple[int, int, int], Path], files: Files
) -> None:
    cluster = prepared(slurmctld, bin_of[files.version], files)
    cluster.start()
    assert not cluster.accepts("-N1")


@pytest.mark.parametrize(("version", "release"), [(V26, "slurm_bin"), (V24, "slurm_bin_24")], ids=["26.05", "24.11"])
def test_leaves_at_different_depths_let_any_user_crash_slurmctld(
    slurmctld: NewCluster, request: pytest.FixtureRequest, version: tuple[int, int, int], release: str
) -> None:
    switches = (
        Switch("a", ("n1", "n2")),
        Switch("b", ("n3", "n4")),
        Switch("m", (), ("a",)),
        Switch("r", (), ("m", "b")),
    )
    topology = Topology("t", Tree(switches), default=True)
    files = Files(
        "", "uneven",
        topology_yaml.render(Configuration((topology,))) if version == V26 else None,
        topology_conf.render(topology) if version == V24 else None,
        extra="TopologyPlugin=topology/tree", version=version,
    )  # fmt: skip
    cluster = prepared(slurmctld, request.getfixturevalue(release), files)
    cluster.start()
    assert "depth-uneven" in {f.rule for f in check_files(files.conf, files.yaml_bytes, files.conf_bytes, version)}
    cluster.run("sbatch", "-N2-20", "--wrap", "true", check=False)
    assert gone(cluster)


def test_a_dynamic_node_whose_saved_topology_is_gone_stops_the_next_start(
    slurmctld: NewCluster, slurm_bin: Path, tmp_path: Path
) -> None:
    def tree(*leaves: Switch) -> Configuration:
        root = Switch("root", (), tuple(leaf.name for leaf in leaves))
        return Configuration((Topology("t", Tree((*leaves, root)), default=True),))

    before = tree(Switch("a", ("n1", "n2")), Switch("b", ("n3", "n4")))
    after = tree(Switch("a", ("n1", "n2", "n3", "n4")))
    partition = "PartitionName=p Nodes=n[1-4] Default=YES"
    cluster = slurmctld(
        "NodeName=n[1-4] State=CLOUD CPUs=1", partition, extra="MaxNodeCount=9", topology=topology_yaml.render(before)
    )
    cluster.scontrol("create", "NodeName=d1", "CPUs=1", "State=CLOUD", "Topology=t:b")
    saved = saved_words(cluster.slurm.nodes() or ())
    assert saved == {"d1": "t:b"}
    conf = slurm_conf.parse("/s", {"/s": f"NodeName=n[1-4]\n{partition}\n"}.get)
    assert check_configuration(before, conf, V26, saved=saved) == []
    assert [finding.rule for finding in check_configuration(after, conf, V26, saved=saved)] == ["saved-word-unknown"]
    text = topology_yaml.render(after)
    rehearsed = NamespaceRehearsal(slurm_bin, directory=tmp_path).rehearse(
        Stage(scene(conf, text.encode(), None, V26, dynamic=[("d1", ())], saved=saved))
    )
    assert "Invalid node topology" in rehearsed.error
    cluster.write_topology(text)
    with pytest.raises(SlurmctldDied):
        cluster.restart()


NAMES = [f"n{number}" for number in range(1, 13)]


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    """Any valid configuration of twelve nodes: level trees, blocks of any shape, flat; one or two partitions."""

    def shares(label: str) -> list[list[str]]:
        cuts = sorted(draw(st.sets(st.integers(1, 11), max_size=5), label=label))
        return [NAMES[low:high] for low, high in zip([0, *cuts], [*cuts, 12], strict=True)]

    def made(kind: str) -> Tree | Blocks | Flat:
        if kind == "flat":
            return Flat()
        parts = [tuple(part) for part in shares(kind)]
        if kind == "block":
            base = draw(st.integers(1, 20))
            levels = draw(st.sets(st.integers(1, 15), max_size=3))
            pads = tuple(Block(f"pad-{i}") for i in range(draw(st.integers(0, 2))))
            blocks = tuple(Block(f"us-{i}", part) for i, part in enumerate(parts))
            return Blocks((base, *(base << level for level in sorted(levels) if base << level < 65536)), blocks + pads)
        switches = [Switch(f"leaf-{i}", part) for i, part in enumerate(parts)]
        top = [switch.name for switch in switches]
        for level in range(draw(st.integers(0, 3))):
            width = draw(st.integers(1, 3))
            above = [Switch(f"s{level}-{at}", (), tuple(top[at : at + width])) for at in range(0, len(top), width)]
            switches += above
            top = [switch.name for switch in above]
        return Tree((*switches, Switch("root", (), tuple(top))))

    kinds = draw(st.lists(st.sampled_from(["tree", "block", "flat"]), min_size=1, max_size=3, unique=True))
    topologies = tuple(Topology(kind, made(kind), default=kind == kinds[0]) for kind in kinds)
    words = st.sampled_from([None, *kinds])
    return Configuration(topologies, {"p": draw(words), "q": draw(words)})


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(configurations())
def test_whatever_passes_the_rules_starts_and_is_loaded_as_it_was_meant(
    slurmctld: NewCluster, slurm_bin: Path, configuration: Configuration
) -> None:
    def line(name: str) -> str:
        word = configuration.words[name]
        return f"PartitionName={name} Nodes=ALL" + (f" Topology={word}" if word else "")

    nodes, partitions = "NodeName=n[1-12] State=CLOUD CPUs=1", f"{line('p')} Default=YES\n{line('q')}"
    conf = slurm_conf.parse("/slurm.conf", {"/slurm.conf": f"{nodes}\n{partitions}\n"}.get)
    assert refusing(check_configuration(configuration, conf, V26)) == []
    text = topology_yaml.render(configuration)
    assert not unhealthy(check_files(conf, text.encode(), None, V26))
    cluster = slurmctld(nodes, partitions, topology=text, slurm_bin=slurm_bin)
    assert topology_yaml.same(configuration, cluster.topoconf()) == []
    cluster.run("sbatch", "-N1-20", "--test-only", "--wrap", "true", check=False)
    assert cluster.alive()
    cluster.stop()
