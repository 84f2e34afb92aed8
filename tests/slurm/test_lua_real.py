"""The policy plugin inside a real slurmctld: defaults for those who say nothing, and harm to nobody."""

from __future__ import annotations

import json
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.slurm.cluster import Cluster
from tests.slurm.conftest import NewCluster
from topology_plugin.core.topology import Block, Blocks, Configuration, Flat, Switch, Topology, Tree
from topology_plugin.core.topology_yaml import render
from topology_plugin.jobs import policy
from topology_plugin.jobs.policy_trial import trial


def names(prefix: str, first: int, last: int) -> tuple[str, ...]:
    return tuple(f"{prefix}{number}" for number in range(first, last + 1))


def tree(name: str, prefix: str, leaves: Sequence[int], roots: int = 1) -> Topology:
    switches, at = [], 1
    for number, size in enumerate(leaves):
        switches.append(Switch(f"{name}-leaf{number}x", names(prefix, at, at + size - 1)))
        at += size
    each = -(-len(switches) // roots)
    tops = [
        Switch(f"{name}-root{r}x", (), tuple(s.name for s in switches[r * each : (r + 1) * each])) for r in range(roots)
    ]
    return Topology(name, Tree((*switches, *tops)))


def blocks(name: str, prefix: str, sizes: Sequence[int], base: Sequence[int]) -> Topology:
    made, at = [], 1
    for number, size in enumerate(sizes):
        made.append(Block(f"{name}-us{number}x", names(prefix, at, at + size - 1)))
        at += size
    return Topology(name, Blocks(tuple(base), tuple(made)))


CONFIGURATION = Configuration(
    (
        Topology("flat", Flat(), True),
        tree("tree", "t", (4, 4, 4, 4)),
        tree("split", "s", (4, 3, 4, 2), roots=2),
        blocks("block", "b", (18, 17, 1), (18,)),
        blocks("nines", "c", (18, 18, 9), (9,)),
        blocks("levels", "d", (4, 4, 4, 4), (4, 8)),
    )
)
NODES = """
NodeName=f[1-12] State=CLOUD CPUs=8 RealMemory=1000 Features=cpu
NodeName=t[1-16] State=CLOUD CPUs=8 RealMemory=2000 Features=gpu
NodeName=s[1-6] State=CLOUD CPUs=8 RealMemory=1000 Features=gpu,old
NodeName=s[7-13] State=CLOUD CPUs=16 RealMemory=4000 Features=gpu,new
NodeName=b[1-36] State=CLOUD CPUs=8 RealMemory=2000 Features=nvl
NodeName=c[1-45] State=CLOUD CPUs=8 RealMemory=2000 Features=nvl
NodeName=d[1-16] State=CLOUD CPUs=8 RealMemory=2000 Features=nvl
"""
PARTITIONS = """
PartitionName=plain Nodes=f[1-12] Default=YES State=UP MaxTime=1-0
PartitionName=tree Nodes=t[1-16] State=UP Topology=tree
PartitionName=half Nodes=t[1-2],t[5-6],t[9-10],t13 State=UP Topology=tree
PartitionName=split Nodes=s[1-13] State=UP Topology=split
PartitionName=block Nodes=b[1-36] State=UP Topology=block
PartitionName=some Nodes=b[1-9],b[19-27],b36 State=UP Topology=block MaxNodes=18
PartitionName=nines Nodes=c[1-45] State=UP Topology=nines
PartitionName=levels Nodes=d[1-16] State=UP Topology=levels
"""
TOPOLOGY_OF = {"plain": "flat", "tree": "tree", "half": "tree", "split": "split", "block": "block", "some": "block",
               "nines": "nines", "levels": "levels"}  # fmt: skip
ROUTES = """routes = {
    { features = "gpu", min_nodes = 2, partition = "tree" },
    { features = "nvl", partition = "nines" },
    { min_nodes = 10, partition = "block" },
  },"""


@dataclass(frozen=True)
class Twins:
    """The same cluster twice, with the plugin and without."""

    plain: Cluster
    guided: Cluster

    def policy(self, text: str) -> None:
        (self.guided.conf.parent / policy.POLICY).write_text(text)


@pytest.fixture
def twins(slurmctld: NewCluster) -> Iterator[Twins]:
    made = []
    for extra in ("", "JobSubmitPlugins=lua"):
        cluster = slurmctld(NODES, PARTITIONS, topology=render(CONFIGURATION), extra=extra, start=False)
        if extra:
            (cluster.conf.parent / policy.SCRIPT).write_text(policy.script())
            (cluster.conf.parent / policy.POLICY).write_text("return {}")
        cluster.start()
        cluster.scontrol("update", "NodeName=b3,c4,t6", "State=DRAIN", "Reason=broken")
        cluster.scontrol("update", "NodeName=c20,s2", "State=DOWN", "Reason=broken")
        made.append(cluster)
    both = Twins(*made)
    both.policy(made_policy(both.plain))
    yield both


def made_policy(cluster: Cluster) -> str:
    nodes = cluster.slurm.nodes() or []
    members = {p["name"]: cluster.expand(p["nodes"]["configured"]) for p in partitions(cluster)}
    kinds = {topology.name: topology.kind for topology in CONFIGURATION.topologies}
    facts = {
        name: policy.PartitionFacts(TOPOLOGY_OF[name], kinds[TOPOLOGY_OF[name]], policy.uniform(nodes, members[name]))
        for name in members
    }
    assert facts["tree"].uniform
    assert not facts["split"].uniform
    return policy.policy(facts, False).replace("routes = {},", ROUTES)


def partitions(cluster: Cluster) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(cluster.scontrol("show", "partitions", "--json").stdout)["partitions"]
    return found


def accepted(cluster: Cluster, arguments: Sequence[str]) -> str | None:
    """The job's id; None: refused. The job is gone again afterwards."""
    done = cluster.run("sbatch", "--parsable", "-t", "9", "-o", "/dev/null", *arguments, "--wrap", "true", check=False)
    if done.returncode:
        return None
    if "--test-only" not in arguments:
        cluster.run("scancel", done.stdout.strip(), check=False)
    return done.stdout.strip() or "accepted"


def optional(option: str, values: st.SearchStrategy[str]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), st.just([]), values.map(lambda value: [f"{option}{value}"]))


sizes = st.integers(1, 48)
where = st.sampled_from([*TOPOLOGY_OF, "tree,plain", "nines,block", None, None, None, None])
job_descriptions = st.tuples(
    where.map(lambda name: [f"-p{name}"] if name else []),
    st.one_of(
        sizes.map(lambda n: [f"-N{n}"]),
        st.sampled_from([16, 18, 32, 34, 36]).map(lambda n: [f"-N{n}"]),
        st.tuples(sizes, st.integers(0, 9)).map(lambda pair: [f"-N{pair[0]}-{sum(pair)}"]),
        st.integers(1, 400).map(lambda n: [f"-n{n}"]),
        sizes.map(lambda n: [f"-N{n}", "--ntasks-per-node=2"]),
        st.just([]),
    ),
    optional("--mem=", st.sampled_from(["500", "1500", "3000"])),
    optional("--constraint=", st.sampled_from(["gpu", "nvl", "new", "old|new", "[old|new]", "gpu&new"])),
    optional("-t", st.sampled_from(["30", "2-0", "9-0"])),
    optional("--mincpus=", st.sampled_from(["8", "16"])),
    optional("-c", st.sampled_from(["1", "8", "12"])),
    optional("-w", st.sampled_from(["t1,t5", "b1,b20", "c[1-3]", "s1", "b3"])),
    optional("-x", st.sampled_from(["t[1-4]", "b[1-9]", "c[1-18]", "s[1-6]"])),
    optional("--switches=", st.sampled_from(["1", "2@5"])),
    optional("--segment=", st.sampled_from(["1", "2", "4", "8"])),
    st.sampled_from([[], [], ["--exclusive"], ["--exclusive=topo"], ["--contiguous"], ["--spread-job"], ["-H"]]),
    st.sampled_from([[], [], [], ["--array=1-3"], ["--test-only"], ["--prefer=new"], ["--use-min-nodes"]]),
).map(lambda parts: [word for part in parts for word in part])


def test_no_job_that_slurm_would_have_accepted_is_refused_because_of_the_plugin(twins: Twins) -> None:
    told: dict[str, int] = {"accepted": 0, "refused": 0}

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(job_descriptions)
    @example(["-pblock", "-N36", "--segment=1"])
    @example(["-pblock", "-N34"])
    @example(["-psome", "-N18"])
    @example(["-phalf", "-N7"])
    @example(["-psplit", "-N7", "--mem=3000"])
    @example(["-psplit", "-N4", "--constraint=new", "--test-only"])
    @example(["-N20"])
    @example(["-N4", "--constraint=gpu"])
    @example(["-N13", "--prefer=new"])
    @example(["-N13", "--mem=3000"])
    @example(["-n200", "--mem=3000"])
    @example(["-N2", "-t", "9-0", "--mem=3000"])
    @example(["-pnines", "-N32", "-x", "c[1-18]"])
    def holds(arguments: list[str]) -> None:
        plain = accepted(twins.plain, arguments)
        told["accepted" if plain else "refused"] += 1
        if plain is not None:
            assert accepted(twins.guided, arguments) is not None, arguments

    holds()
    assert min(told.values()) > 20, told  # both kinds of jobs were tried
    assert "job_submit.lua:" not in twins.guided.log  # and no error of ours was swallowed


def described(cluster: Cluster, *arguments: str) -> dict[str, Any]:
    job = cluster.run("sbatch", "--parsable", "-H", "-o", "/dev/null", *arguments, "--wrap", "true").stdout.strip()
    rows = [row for row in cluster.slurm.jobs() or [] if row["job_id"] == int(job)]
    cluster.run("scancel", job)
    return {
        "switches": rows[0]["required_switches"],
        "wait": rows[0]["maximum_switch_wait_time"],
        "segment": (rows[0].get("segment_size") or {}).get("number", 0) if isinstance(rows[0].get("segment_size"), dict)
        else rows[0].get("segment_size") or 0,
        "partition": rows[0]["partition"],
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        pytest.param(["-ptree", "-N4"], {"switches": 1, "wait": 300}, id="one leaf"),
        pytest.param(["-ptree", "-N9"], {"switches": 3, "wait": 300}, id="the fewest leaves that hold it"),
        pytest.param(["-phalf", "-N4"], {"switches": 2}, id="leaves as the partition has them"),
        pytest.param(["-ptree", "-N1"], {"switches": 0}, id="one node needs nothing"),
        pytest.param(["-ptree", "-N2-8"], {"switches": 0}, id="a range is left alone"),
        pytest.param(["-ptree", "-N4", "--switches=3@4"], {"switches": 3, "wait": 240}, id="the user's own"),
        pytest.param(["-ptree", "-N4", "-x", "t1"], {"switches": 0}, id="narrowed by names"),
        pytest.param(["-ptree", "-N4", "--mem=1500"], {"switches": 1}, id="equal nodes are not narrowed by memory"),
        pytest.param(["-psplit", "-N4", "--mem=1500"], {"switches": 0}, id="unequal ones are"),
        pytest.param(["-psplit", "-N4"], {"switches": 1}, id="unequal ones, a plain job"),
        pytest.param(["-pblock", "-N32"], {"segment": 16}, id="segments that the UltraServers hold"),
        pytest.param(["-pblock", "-N18"], {"segment": 0}, id="up to the base size Slurm needs no word"),
        pytest.param(["-pnines", "-N36"], {"segment": 9}, id="never above the base size"),
        pytest.param(["-pnines", "-N20", "--segment=5"], {"segment": 5}, id="the user's own segment"),
        pytest.param(["-N4", "--constraint=gpu"], {"partition": "tree,plain"}, id="a partition by what it asks for"),
        pytest.param(["-N12"], {"partition": "block,plain"}, id="a partition by size"),
        pytest.param(["-N2"], {"partition": "plain"}, id="no route fits"),
        pytest.param(["-pplain", "-N12"], {"partition": "plain"}, id="a named partition stays"),
    ],
)
def test_defaults_reach_the_jobs_that_say_nothing(twins: Twins, arguments: list[str], expected: dict[str, Any]) -> None:
    found = described(twins.guided, *arguments)
    assert {key: found[key] for key in expected} == expected


def test_the_user_is_told_unless_the_policy_says_no(twins: Twins) -> None:
    arguments = ("-ptree", "-N4", "-o", "/dev/null", "--wrap", "true")
    assert "--switches=1@05:00 (default of this cluster)" in twins.guided.run("sbatch", *arguments).stderr
    twins.policy(made_policy(twins.plain).replace("tell = true", "tell = false"))
    assert twins.guided.run("sbatch", *arguments).stderr == ""


@pytest.mark.parametrize(
    ("own", "arguments", "expected"),
    [
        pytest.param("tree = { min_nodes = 6, wait = 60 }", ["-ptree", "-N4"], {"switches": 0}, id="too small for it"),
        pytest.param("tree = { min_nodes = 6, wait = 60 }", ["-ptree", "-N6"], {"switches": 2, "wait": 60}, id="own"),
        pytest.param("tree = false", ["-ptree", "-N6"], {"switches": 0}, id="switched off"),
        pytest.param("segments = { { segment = 2 } }", ["-pnines", "-N36"], {"segment": 2}, id="its own segments"),
    ],
)
def test_a_partition_may_have_rules_of_its_own(
    twins: Twins, own: str, arguments: list[str], expected: dict[str, Any]
) -> None:
    name = arguments[0][2:]
    text = made_policy(twins.plain)
    assert f'["{name}"] = {{ ' in text
    twins.policy(text.replace(f'["{name}"] = {{ ', f'["{name}"] = {{ {own}, '))
    found = described(twins.guided, *arguments)
    assert {key: found[key] for key in expected} == expected


@pytest.mark.parametrize(
    "text",
    [
        "return {", "return 7", "return nil", "error('no')", "return { partitions = 3 }", "x = io", "while true do end",
        "return { partitions = { tree = { topology = 'tree' } }, tree = 7 }",
    ],
    ids=["broken", "a number", "nothing", "raises", "wrong type", "no table", "endless", "wrong rule"],
)  # fmt: skip
def test_a_broken_policy_changes_no_job(twins: Twins, text: str) -> None:
    twins.policy(text)
    assert described(twins.guided, "-ptree", "-N4")["switches"] == 0


@pytest.mark.parametrize(
    "text",
    [
        "",
        "- topology: tree\n  tree: {switches: [{switch: a, nodes: t1}]}\n",
        "- topology: tree\n  tree:\n    switches:\n    - switch: a\n      nodes: [t1]\n",
        "- topology: tree\n  tree:\n    switches:\n    - switch: a\n      nodes: t[1-\n",
        "- topology: other\n  flat: true\n",
        "nodes: t1\n",
    ],
    ids=["empty", "flow style", "a list", "half a list", "another one", "no list"],
)
def test_a_topology_that_the_plugin_cannot_read_means_no_default(twins: Twins, text: str) -> None:
    twins.guided.write_topology(text)  # slurmctld keeps what it has loaded
    assert described(twins.guided, "-ptree", "-N4")["switches"] == 0
    twins.guided.write_topology(render(CONFIGURATION))
    assert described(twins.guided, "-ptree", "-N4")["switches"] == 1


def test_a_changed_topology_is_followed_without_a_new_policy(twins: Twins) -> None:
    smaller = Configuration(
        tuple(tree("tree", "t", (2,) * 8) if t.name == "tree" else t for t in CONFIGURATION.topologies)
    )
    twins.guided.write_topology(render(smaller))
    assert twins.guided.reconfigure()
    assert described(twins.guided, "-ptree", "-N4")["switches"] == 2


@pytest.mark.parametrize("immediate", [["--immediate=5"], []], ids=["soon", "any time"])
def test_who_waits_before_a_terminal_is_not_made_to_wait_longer(twins: Twins, immediate: list[str]) -> None:
    twins.guided.wait_running(twins.guided.submit("-ptree", "-w", "t1,t5,t9,t13", "-N4", "--exclusive"))
    command = ["salloc", "-ptree", "-N4", *immediate, "--no-shell"]
    with subprocess.Popen(command, env=twins.guided.env, stderr=subprocess.PIPE, text=True) as salloc:
        patience = threading.Timer(60, salloc.kill)
        patience.start()
        assert salloc.stderr is not None
        said = ""
        while "Granted job allocation" not in said:
            line = salloc.stderr.readline()
            assert line, said
            said += line
        patience.cancel()
        salloc.terminate()  # CLOUD nodes never boot, so it never returns by itself
    assert "--switches" not in said


def test_a_trial_says_whether_this_slurm_can_load_it(slurm_bin: Path) -> None:
    assert trial(slurm_bin, policy.policy({}, False)).loads
    broken = trial(slurm_bin, "return {")
    assert not broken.loads
    assert "policy not used" in broken.words[0]


def test_the_older_slurm_loads_it_too(slurm_bin_24: Path) -> None:
    assert trial(slurm_bin_24, policy.policy({}, False)).loads
