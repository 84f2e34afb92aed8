"""Field cases of HyperPod's agent writing the same files: who gives way, and that it comes to rest."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.stage import Stage, small
from tests.app.upkeep import settled
from topology_plugin.app import ownership


@pytest.mark.parametrize("enabled", [True, False])
def test_br_24_an_agent_that_rewrites_ten_times_in_ten_minutes_makes_no_loop_of_two_writers(
    tmp_path: Path, enabled: bool
) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.document("cluster_agent.json", {"SlurmConfiguration": {"EnableTopology": enabled, "UseInstanceNames": False}})
    stage.go(200)
    agents = stage.room.conf.read_text().replace(" Topology=tree", "") + "# the agent's own line\n"
    before, start = stage.ctld.reconfigures, stage.clock.time

    def rewrite(now: float) -> None:
        if int(now - start) % 60 == 0:
            stage.room.conf.write_text(agents)
            stage.yaml.write_text("[]\n")

    stage.go(600, rewrite)
    assert stage.ctld.reconfigures - before == 6, "once per settled change, and then no more"
    assert stage.room.conf.read_text() == agents
    assert len([said for said in stage.said if "standing back" in said]) == 1
    assert set(stage.go(600)) == {"observed"}
    ownership.resume(stage.wiring.doors())
    assert stage.go(60) == ["applied"]
    assert "# the agent's own line" in stage.room.conf.read_text()
    settled(stage)


def test_br_24_with_enable_topology_a_healthy_file_of_the_agent_makes_us_stand_back_and_say_so(tmp_path: Path) -> None:
    stage = Stage(tmp_path, small())
    stage.document("cluster_agent.json", {"SlurmConfiguration": {"EnableTopology": True}})
    stage.go(200)
    theirs = "- topology: theirs\n  cluster_default: true\n  flat: true\n"
    before = stage.ctld.reconfigures
    for _ in range(10):
        stage.agent(small())
        stage.yaml.write_text(theirs)
        stage.go(60)
    stage.go(300)
    assert stage.yaml.read_text() == theirs
    assert stage.ctld.reconfigures == before
    assert len([said for said in stage.said if "HyperPod's agent manages the topology" in said]) == 1


def test_br_24_words_that_the_agent_takes_out_come_back_once_per_settled_change(tmp_path: Path) -> None:
    simulated = small()
    stage = Stage(tmp_path, simulated)
    stage.go(200)
    before = stage.ctld.reconfigures
    stage.agent(simulated)
    assert "Topology=" not in stage.room.conf.read_text()
    assert stage.go(400).count("applied") == 1
    assert "Topology=tree" in stage.room.conf.read_text()
    assert stage.ctld.reconfigures - before == 1
