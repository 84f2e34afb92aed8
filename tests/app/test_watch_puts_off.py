"""A pass that is due and waits all the same: for the distance between reconfigures, for jobs, for a hold's end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.app.stage import Stage, labelled, small
from tests.clusters import CPU, P5
from topology_plugin.core import state_json
from topology_plugin.jobs.simulated_cluster import cluster, in_tree, without_network_data


def test_reconfigures_keep_their_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="0", min_reconfigure_interval="120", poll_seconds="20")
    machines = in_tree("worker-p5", "ml.p5.48xlarge", 60)
    counter = iter(range(17, 60))
    stage.go(600, lambda now: stage.room.write(cluster(P5).with_machines(machines[: next(counter)])))
    assert 4 <= stage.ctld.reconfigures <= 6


def test_what_needs_no_reconfigure_does_not_wait_for_the_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="10", min_reconfigure_interval="600")
    stage.go(30)
    assert stage.ctld.reconfigures == 1
    same = small().with_changed(labelled(small())[0].name, instance_id="i-0fff0000000000001")
    stage.lists(same)
    assert stage.go(30) == ["unchanged"]
    nodes = state_json.load(stage.state()).inventory.nodes
    assert nodes[labelled(small())[0].name].instance_id == "i-0fff0000000000001"


def test_a_change_that_waits_for_the_distance_says_so_and_comes_as_soon_as_it_is_over(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="10", min_reconfigure_interval="250")
    stage.go(30)
    stage.agent(small(24))
    assert stage.go(200) == ["pending"]
    assert "last reconfigure" in stage.state()["last"]["error"]
    assert stage.go(60) == ["applied"]


def test_what_slurmctld_would_die_of_waits_for_no_distance(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small(), settle_seconds="10", min_reconfigure_interval="3000")
    stage.go(30)
    good = stage.yaml.read_bytes()
    stage.yaml.write_text("[]\n")
    assert stage.go(30) == ["applied"]
    assert stage.yaml.read_bytes() == good


def waiting_job(node: str) -> dict[str, Any]:
    return {"job_id": 7, "job_state": ["PENDING"], "partition": "train", "required_nodes": node, "node_count": 1}


def test_pending_jobs_are_waited_for_at_most_max_wait(stage: Stage) -> None:
    stage.go(120)
    *_, last = small().members("worker-p5")
    stage.ctld.job_rows = [waiting_job(last.name)]
    stage.agent(small().without([last.name]))
    assert stage.go(180)[:1] == ["pending"]
    assert "7" in stage.state()["last"]["error"]
    assert last.name in stage.loaded().topologies[0].body.nodes()
    stage.go(60)
    assert last.name not in stage.loaded().topologies[0].body.nodes()


def test_a_change_goes_on_once_the_job_it_waited_for_is_gone(stage: Stage) -> None:
    stage.go(120)
    *_, last = small().members("worker-p5")
    stage.ctld.job_rows = [waiting_job(last.name)]
    stage.agent(small().without([last.name]))
    assert stage.go(60) == ["pending"]
    stage.ctld.job_rows = []
    assert stage.go(60) == ["applied"]


def test_a_hold_is_heeded_and_its_end_is_noticed_at_once(stage: Stage) -> None:
    hold = stage.room.registry / "hold.json"
    stage.room.registry.mkdir(parents=True, exist_ok=True)
    hold.write_text(json.dumps({"reason": "maintenance"}))
    stage.agent(small(24))
    stage.go(200)
    joiner = small(24).members("worker-p5")[-1].name
    assert stage.leaf_of(joiner) == f"unplaced-{joiner}"
    hold.unlink()
    stage.go(60)
    assert stage.leaf_of(joiner) == "nn-la2"


def test_a_hold_keeps_the_words_that_the_agent_takes_out(tmp_path: Path) -> None:
    """Else a scale-up during a hold would leave every partition flat, as the default is where there are CPU nodes."""
    cpus = without_network_data("worker-cpu", "ml.c5.9xlarge", 2)
    groups = (P5, CPU)
    p5 = in_tree("worker-p5", "ml.p5.48xlarge", 17)
    stage = Stage(tmp_path, cluster(*groups).with_machines([*p5[:16], *cpus]))
    stage.go(200)
    (stage.room.registry / "hold.json").write_text(json.dumps({"reason": "maintenance"}))
    stage.agent(cluster(*groups).with_machines([*p5, *cpus]))
    stage.go(200)
    assert stage.loaded().words["train"] == "tree"
    assert stage.leaf_of(p5[16].name) == f"unplaced-{p5[16].name}"
    assert stage.leaf_of(p5[0].name) == "nn-la0"


@pytest.mark.parametrize("mode", ["observe", "off"])
def test_in_these_modes_slurms_files_are_never_touched(tmp_path: Path, mode: str) -> None:
    stage = Stage(tmp_path, small(), mode=mode)
    before = {path: path.read_bytes() for path in stage.room.conf.parent.iterdir()}
    assert set(stage.go(1000)) == {"observed"}
    assert {path: path.read_bytes() for path in stage.room.conf.parent.iterdir()} == before
    assert stage.ctld.reconfigures == 0
    assert stage.said.count(f"observed: mode is {mode} (flag --mode): nothing is written") == 1
