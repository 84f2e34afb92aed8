"""What the hook costs at boot with everything local, as a ratio to a Python that does nothing.

    python benchmarks/hook.py [--runs N] [--nodes N] [--limit RATIO]

The built bundle is installed into a directory, and its `register` runs there as the entry script runs it: the first
time on this node (a record is written) and again (nothing is). The same interpreter with the same options and an empty
program is the measure. Processor time, the least of all runs, each in turn, so that it matters least what else the
machine does (where one of the two looks dearer, that is it: they do the same work within 1%, counted in instructions).
Exit 1 above the limit.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent.parent
if __name__ == "__main__":
    sys.path.insert(0, str(HERE))

from topology_plugin.jobs.simulated_cluster import SimulatedCluster, SimulatedGroup, cluster, in_tree  # noqa: E402

LIMIT = 12.0


@dataclass(frozen=True)
class Cost:
    """Seconds: processor time and time on the clock, the least of all runs."""

    cpu: float
    wall: float


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="The hook's cost at boot.")
    parser.add_argument("--runs", type=int, default=40)
    parser.add_argument("--nodes", type=int, default=108, help="instances in resource_config.json")
    parser.add_argument("--limit", type=float, default=LIMIT)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="hook-") as temporary:
        root = Path(temporary) / "node"
        install(Path(temporary), root)
        bare, first, again = measure(root, options.nodes, options.runs)
    print(f"{'':28}{'cpu ms':>9}{'wall ms':>9}{'ratio':>8}")
    for name, cost in (("empty program", bare), ("register, first time", first), ("register, nothing new", again)):
        print(f"{name:28}{cost.cpu * 1000:9.1f}{cost.wall * 1000:9.1f}{cost.cpu / bare.cpu:8.1f}")
    worst = max(first.cpu, again.cpu) / bare.cpu
    print(
        f"{options.nodes} instances; the limit is {options.limit:g}: {'kept' if worst <= options.limit else 'EXCEEDED'}"
    )
    return 0 if worst <= options.limit else 1


def install(temporary: Path, root: Path) -> None:
    """The bundle as `make bundle` builds it, by its own installer."""
    builder = HERE / "lifecycle_scripts" / "build_bundle.py"
    subprocess.run([sys.executable, builder, "--dist", temporary / "dist"], check=True, stdout=subprocess.DEVNULL)
    sys.path.insert(0, str(HERE / "lifecycle_scripts"))
    from node_setup.install import install as put

    put(temporary / "dist/lifecycle_scripts/hyperpod-topology", root, sys.executable, lambda text: None)


def measure(root: Path, nodes: int, runs: int) -> tuple[Cost, Cost, Cost]:
    """Of an empty program, of the first registration and of a repeated one."""
    if not (root / "fsx").is_dir():
        describe(root, described(nodes))
    record = root / "fsx/hyperpod-topology"
    hook = [str(root / "opt/hyperpod-topology/current/bin/hyperpod-topology"), "register"]

    def forget() -> None:
        for file in record.rglob("*.json"):
            file.unlink()

    environment = {"PATH": os.defpath, "HYPERPOD_TOPOLOGY_ROOT": str(root), "AWS_EC2_METADATA_DISABLED": "true"}
    run(hook, environment)  # bytecode and caches, as on any node after the installer
    commands: dict[str, Sequence[str]] = {"bare": [sys.executable, "-IS", "-c", ""], "first": hook, "again": hook}
    costs: dict[str, list[Cost]] = {name: [] for name in commands}
    for _ in range(runs):  # in turn, so that a busy minute of the machine strikes all three
        forget()
        for name, command in commands.items():
            costs[name].append(run(command, environment))
    if not list(record.rglob("*.json")):
        raise SystemExit("the hook registered nothing, so nothing was measured")
    bare, first, again = (least(of) for of in costs.values())
    return bare, first, again


def described(nodes: int) -> SimulatedCluster:
    group = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train",))
    return cluster(group).with_machines(in_tree(group.name, group.instance_type, nodes))


def describe(root: Path, described: SimulatedCluster) -> None:
    """The node's files: it is the last instance, known by its DMI tag."""
    config = root / "opt/ml/config"
    config.mkdir(parents=True)
    (config / "resource_config.json").write_text(json.dumps(described.resource_config()))
    (config / "provisioning_parameters.json").write_text(json.dumps(described.provisioning_parameters()))
    tag = root / "sys/devices/virtual/dmi/id/board_asset_tag"
    tag.parent.mkdir(parents=True)
    tag.write_text(described.members("worker-p5")[-1].instance_id + "\n")
    (root / "fsx").mkdir()


def least(costs: Sequence[Cost]) -> Cost:
    return Cost(min(cost.cpu for cost in costs), min(cost.wall for cost in costs))


def run(command: Sequence[str], environment: dict[str, str]) -> Cost:
    started = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(usage.ru_utime + usage.ru_stime, wall)


if __name__ == "__main__":
    sys.exit(main())
