"""Dynamic nodes, which only slurmctld knows: members of ALL, in the topology, and able to run jobs."""

from __future__ import annotations

from tests.clusters import P5
from tests.slurm.conftest import NewRoom
from topology_plugin.jobs.simulated_cluster import cluster, in_tree


def test_a_dynamic_node_joins_with_its_instance_and_leaves_when_slurmctld_forgets_it(room: NewRoom) -> None:
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 9)
    static, dynamic = machines[:8], machines[8]
    here = room(extra="MaxNodeCount=64\n")
    here.boot(cluster(P5).with_machines(static))
    here.merge()
    here.ctld.scontrol("create", f"NodeName={dynamic.name}", f"NodeAddr={dynamic.address}", "State=CLOUD", "CPUs=1")
    here._document(here.controller, "resource_config.json", cluster(P5).with_machines(machines).resource_config())
    here.merge()
    assert here.leaves("tree")["nn-la1"] == (dynamic.name,)
    assert here.runs_on("-p", "dev", "-w", dynamic.name) == [dynamic.name]
    assert here.merge().state.last.result == "unchanged"
    here.ctld.scontrol("delete", f"NodeName={dynamic.name}")
    here.merge()
    assert "nn-la1" not in here.leaves("tree")
