"""The reading commands beside a real slurmctld: what they say is what it has loaded."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.slurm.conftest import NewRoom
from tests.slurm.room import Room
from topology_plugin.jobs.simulated_cluster import mixed


def asked(room: Room, *arguments: str, code: int = 0) -> str:
    done = room.on_controller(*arguments)
    assert done.returncode == code, (done.stdout, done.stderr)
    return done.stdout


def data(room: Room, *arguments: str, code: int = 0) -> Any:
    return json.loads(asked(room, *arguments, "-o", "json", code=code))


def test_show_diff_explain_and_doctor_say_what_slurmctld_has_loaded(room: NewRoom) -> None:
    here = room()
    cluster = mixed(16, (18, 17, 1), 2)
    here.boot(cluster)
    asked(here, "diff", code=3)
    here.merge()

    shown = data(here, "show")
    loaded = {**here.leaves("tree"), **here.leaves("block")}
    units = [u for t in shown["topologies"] for u in _flat(t["units"]) if u["nodes"]]
    assert {u["name"]: tuple(u["nodes"]) for u in units} == loaded
    assert shown["partitions"]["gb200"]["refused_sizes"] == [[36, 36]]
    assert not here.ctld.accepts("-p", "gb200", "-N36") and here.ctld.accepts("-p", "gb200", "-N35")
    assert data(here, "diff")["pending"] is False

    job = here.ctld.submit("-p", "train", "-N8", "--exclusive")
    nodes = here.ctld.wait_running(job)
    lies = data(here, "explain", f"job:{job}")["lies"]
    leaves = {name for name, held in here.leaves("tree").items() if set(held) & set(nodes)}
    assert {name for name, _ in lies[0]["units"]} == leaves
    assert data(here, "show", "train")["nodes"][nodes[0]]["jobs"] == [job]

    checks = {check["id"]: check for check in data(here, "doctor", "--no-aws")["checks"]}
    assert [c["id"] for c in checks.values() if c["result"] == "bad"] == []
    for name in ("coverage", "drift", "files-startable", "slurmctld-answers", "way-back", "rehearsal"):
        assert checks[name]["result"] == "ok" or (name == "rehearsal" and os.geteuid() != 0), checks[name]
    assert "gb200 cannot run 36" in checks["refused-sizes"]["reason"]


def test_a_node_that_left_is_told_by_diff_until_a_pass_has_been(room: NewRoom) -> None:
    here = room()
    cluster = mixed(16, (18, 18), 2)
    here.boot(cluster)
    here.merge()
    gone = cluster.members("worker-p5")[3].name
    here.yaml.write_text("[]\n")  # slurmctld still runs the good one; its next start would be its end
    (stale,) = data(here, "diff", code=3)["other"]
    assert (
        "the files on disk do not say what slurmctld runs" in stale
        and "a pass mends them: replace topology.yaml (" in stale
    )
    here.merge()
    assert data(here, "diff")["pending"] is False
    here.change(cluster.without([gone]))
    found = data(here, "diff", code=3)
    assert found["partitions"], "the agent took our words"
    here.merge()
    assert data(here, "diff")["pending"] is False
    assert gone not in asked(here, "show", "-o", "table")


def _flat(units: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [one for unit in units for one in (unit, *_flat(unit["units"]))]
