"""Captures a cluster of 108 compute nodes for the golden files: real hooks, a real merge, a real slurmctld with jobs.

    .venv/bin/python -m tests.captured.capture

writes cluster-108-{state,nodes,squeue}.json beside this file. Run it when state.json changes its form; then renew the
golden files (see tests/views/test_golden.py).
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.slurm.slurm_root import provide
from topology_plugin.app.machine_room import MachineRoom
from topology_plugin.jobs.simulated_cluster import mixed

HERE = Path(__file__).parent
KEYS = {
    "nodes": ("name", "state", "reason", "partitions"),
    "jobs": (
        "job_id", "name", "user_name", "job_state", "nodes", "partition", "state_reason", "state_description",
        "node_count", "required_nodes", "excluded_nodes", "required_switches", "maximum_switch_wait_time",
        "segment_size", "array_job_id", "array_task_id", "array_task_string", "priority", "hold", "tasks",
    ),
}  # fmt: skip


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="capture-") as directory:
        room = MachineRoom(Path(directory), provide("forky"))
        # One label is late, one UltraServer has lost a node and another has only one: what clusters look like.
        cluster = mixed(64, (18, 17, 1), 8)
        late = cluster.members("worker-p5")[9]
        cluster = cluster.with_changed(late.name, label=None)
        room.write(cluster)
        assert room.slurmctld is not None
        room.slurmctld.start()
        try:
            room.register([m for m in cluster.nodes if m.group != "login-group"])
            merged = room.on_controller("merge")
            print(merged.stdout, merged.stderr, file=sys.stderr)
            _jobs(room, cluster)
            (state,) = Path(directory).rglob("fsx/**/state.json")
            _write("state", _cleaned(state.read_text(), directory))
            _write("nodes", _columns(_asked(room, "scontrol", "show", "nodes", "--json"), "nodes"))
            _write("squeue", _columns(_asked(room, "squeue", "--json"), "jobs"))
        finally:
            room.slurmctld.stop()
    return 0


def _jobs(room: MachineRoom, cluster: Any) -> None:
    p5 = [m.name for m in cluster.members("worker-p5")]
    for arguments in (
        ("-p", "train", "-N16", "--exclusive", "-J", "llama-pretrain"),
        ("-p", "train", "-N5", "--exclusive", "-J", "eval"),
        ("-p", "gb200", "-N16", "--segment=16", "--exclusive", "-J", "moe"),
        ("-p", "train", "-N60", "--exclusive", "-J", "big"),
        ("-p", "train", "-N8", "--switches=1@1:00:00", "--exclusive", "-J", "close"),
    ):
        assert room.slurmctld is not None
        room.slurmctld.run("sbatch", *arguments, "--wrap", "sleep 3600")
    assert room.slurmctld is not None
    room.slurmctld.scontrol("update", f"nodename={p5[40]}", "state=drain", "reason=Kicked by health check: NVLink")
    room.slurmctld.scontrol("update", f"nodename={p5[41]}", "state=down", "reason=Not responding")
    import time

    time.sleep(5)  # squeue's reasons come with the scheduler's next round


def _asked(room: MachineRoom, program: str, *arguments: str) -> Any:
    assert room.slurmctld is not None
    return json.loads(room.slurmctld.run(program, *arguments).stdout)


def _columns(document: Any, key: str) -> Any:
    return {key: [{k: row[k] for k in KEYS[key] if k in row} for row in document[key]]}


def _cleaned(text: str, directory: str) -> Any:
    """Without this machine's paths and times."""
    text = text.replace(directory, "")
    return json.loads(re.sub(r'("(?:time|last_success|reconfigure_seconds)": )[0-9.]+', r"\g<1>1800000000.0", text))


def _write(name: str, document: Any) -> None:
    (HERE / f"cluster-108-{name}.json").write_text(json.dumps(document, indent=None, sort_keys=True) + "\n")


if __name__ == "__main__":
    sys.exit(main())
