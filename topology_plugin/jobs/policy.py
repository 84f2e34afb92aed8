"""The policy plugin's two files: job_submit.lua as packaged, and job_submit_policy.lua for one cluster."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any

from topology_plugin.jobs.submission import MAX_SWITCH_WAIT

SCRIPT, POLICY = "job_submit.lua", "job_submit_policy.lua"


@dataclass(frozen=True)
class PartitionFacts:
    """`topology`: name of the one it uses; `uniform`: all its nodes have equal CPUs, memory, GPUs and features."""

    topology: str
    kind: str
    uniform: bool


def script() -> str:
    return resources.files("topology_plugin.jobs").joinpath(SCRIPT).read_text(encoding="utf-8")


def uniform(nodes: Sequence[Mapping[str, Any]], names: Sequence[str]) -> bool:
    """From `scontrol show nodes --json`. False where a node is unknown: then jobs that ask for more are left alone."""
    wanted = set(names)
    rows = [node for node in nodes if node.get("name") in wanted]
    seen = {
        repr([node.get(key) for key in ("cpus", "real_memory", "gres", "temporary_disk", "sockets", "cores", "threads",
                                        "specialized_cores", "weight")] + [sorted(node.get("features") or [])])
        for node in rows
    }  # fmt: skip
    return bool(wanted) and len(rows) == len(wanted) and len(seen) == 1


def policy(
    partitions: Mapping[str, PartitionFacts], enforces_all_limits: bool = False, wait: int = MAX_SWITCH_WAIT
) -> str:
    """A policy with our defaults: few leaves in trees for up to `wait` seconds, segments in blocks, no routes."""
    lines = []
    for name, facts in sorted(partitions.items()):
        if facts.kind != "flat":
            same = "true" if facts.uniform else "false"
            lines.append(f"    [{_text(name)}] = {{ topology = {_text(facts.topology)}, uniform = {same} }},")
    filled = _TEMPLATE.replace("@PARTITIONS@", "\n".join(lines)).replace("@WAIT@", str(wait))
    return filled.replace("@ENFORCES@", "true" if enforces_all_limits else "false")


def _text(name: str) -> str:
    """A Lua string. Bytes outside printable ASCII as decimal escapes."""
    escaped = "".join(
        chr(byte) if 32 <= byte < 127 and chr(byte) not in '"\\' else f"\\{byte:03d}" for byte in name.encode()
    )
    return f'"{escaped}"'


def installed_policy(text: str) -> bool:
    """Whether a file is one of ours (an operator's own job_submit.lua must not be overwritten)."""
    return bool(re.search(r"hyperpod-topology", text))


_TEMPLATE = """\
-- What job_submit.lua of hyperpod-topology gives to jobs that do not say it themselves. Read anew at each submission
-- after a change; a file with an error is ignored (slurmctld.log says so). Made by `advise --policy --write`.
return {
  -- Partitions that are left alone are not listed. `uniform`: all nodes have equal CPUs, memory, GPUs and features;
  -- where they differ, only jobs that ask for none of these get a default. A partition may have a `tree` and `segments`
  -- of its own, as below, or `tree = false`.
  partitions = {
@PARTITIONS@
  },

  -- In trees: batch jobs from so many nodes wait up to `wait` seconds for the fewest leaves that can hold them.
  -- (Slurm waits no longer than SchedulerParameters=max_switch_wait, 300 s where that is not set.)
  tree = { min_nodes = 2, wait = @WAIT@ },

  -- In blocks, for batch jobs: the first rule that fits. Only segments are used that divide the job's size, are at
  -- most the base size and that the UltraServers can hold. Jobs up to the base size get one UltraServer anyway.
  segments = {
    { min_nodes = 19, segment = 18 },
    { min_nodes = 17, segment = 16 },
    { min_nodes = 10, segment = 9 },
    { min_nodes = 9, segment = 8 },
  },

  -- For jobs that name no partition: the first rule that fits, by text that --gres and --gpus… must hold (gres) or
  -- --constraint (features), and by nodes. The cluster's default partition stays as the second choice. Example:
  --   routes = { { gres = "gpu:h100", min_nodes = 2, partition = "train" } },
  routes = {},

  -- EnforcePartLimits=ALL refuses a job that any of its partitions refuses: no routes then.
  enforces_all_limits = @ENFORCES@,

  -- Tell users which default they got (a line on sbatch's stderr).
  tell = true,
}
"""
