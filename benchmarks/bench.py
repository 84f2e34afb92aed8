"""What the product costs on a large cluster, one row for each promise: `make bench`.

    python -m benchmarks.bench [--nodes N] [--runs N]

Processor time (the least of several runs) and not the clock's, so that it matters little what else the machine does;
beside it how many starts of a bare Python that is, measured in the same run. Slurm's commands are stood in for by files
with their answers; a real slurmctld's reconfigure is in tests/slurm/test_reconfigure_cost.py. Exit 1 when a bound is
broken by more than twice. Bounds in seconds are for 16,384 nodes and shrink with the
size, but never below what Python needs to start all of it.
"""

from __future__ import annotations

import argparse
import difflib
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.large_cluster import large_cluster, record_of, write_records, write_scontrol
from topology_plugin.adapters.clock import SystemClock
from topology_plugin.adapters.collector import paused
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.registry import RegistryDirectory
from topology_plugin.adapters.signs import Signs
from topology_plugin.app.machine_room import MachineRoom
from topology_plugin.core import hostlists, provisioning, resource_config, slurm_conf, topology_yaml, validation
from topology_plugin.core.decision import Memory
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.merge import merge
from topology_plugin.core.settings import Settings
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.sources import Sources
from topology_plugin.core.stock import stock
from topology_plugin.jobs.simulated_cluster import CLUSTER_ARN, SimulatedCluster

FULL = 16384
UNLOADED = "%YAML 1.1\n---\n- topology: default\n  flat: {}\n...\n"


@dataclass(frozen=True)
class Row:
    """`value` and `bound` in `unit`: s, x (a ratio), kB, MB or "" (a count)."""

    name: str
    value: float
    bound: float
    unit: str

    @property
    def broken(self) -> bool:
        return self.value > 2 * self.bound


def least(runs: int, work: Callable[[], object]) -> float:
    """Seconds of processor time."""
    best = float("inf")
    for _ in range(runs):
        begin = time.process_time()
        work()
        best = min(best, time.process_time() - begin)
    return best


# Started in between, as small as a process can be: one that we start ourselves would begin with our size, and count it
# as its own largest.
_LAUNCHER = """\
import os, sys
child = os.fork()
if not child:
    os.execve(sys.argv[1], sys.argv[1:], os.environ)
_, status, used = os.wait4(child, 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, file=sys.stderr)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def process(
    command: Sequence[str], environment: dict[str, str], out: Path | None = None, *, code: int = 0
) -> tuple[float, float]:
    """(seconds of processor time of this process and those it started, MB of the largest). RuntimeError if it does not
    end with `code`: what failed costs nothing."""
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, *command]
    with (out or Path(os.devnull)).open("wb") as file:
        done = subprocess.run(launcher, env=environment, stdout=file, stderr=subprocess.PIPE, text=True, check=False)
    if done.returncode != code:
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    seconds, size = done.stderr.split()[-2:]
    return float(seconds), float(size)


def compiled(environment: dict[str, str], directory: Path) -> dict[str, str]:
    """An environment in which the package runs from bytecode, as it does once installed, whoever forbids it here."""
    kept = {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}


def bare(runs: int) -> float:
    command = [sys.executable, "-I", "-S", "-c", "pass"]
    return min(process(command, dict(os.environ))[0] for _ in range(max(runs, 10)))


def facts(simulated: SimulatedCluster) -> tuple[Inventory, Memory, SlurmConf]:
    text = "\n".join([*simulated.node_lines(), *simulated.partition_lines(), ""])
    conf = slurm_conf.parse("/slurm.conf", lambda path: text if path == "/slurm.conf" else None)
    sources = Sources(
        resource_config.parse(json.dumps(simulated.resource_config())),
        {m.instance_id: record_of(m) for m in simulated.nodes},
        provisioning.parse(json.dumps(simulated.provisioning_parameters())),
    )
    inventory, memory = stock(conf, [], sources, Memory())
    return inventory, memory, conf


def text_of(inventory: Inventory, memory: Memory, conf: SlurmConf) -> str:
    decision = merge(inventory, Settings(), memory)
    validation.check_configuration(decision.configuration, conf, (26, 5, 5))
    return topology_yaml.render(decision.configuration)


def replaced(simulated: SimulatedCluster) -> SimulatedCluster:
    """One machine is another instance, on the next leaf."""
    workers = sorted(simulated.members("worker-a"), key=lambda m: m.number)
    label = workers[-1].label
    return simulated.with_changed(workers[0].name, instance_id="i-0ffffffffffffffff", label=label)


def changed_lines(before: str, after: str) -> int:
    lines = difflib.ndiff(before.splitlines(), after.splitlines())
    marks = [line[0] for line in lines if line[0] in "+-"]
    return max(marks.count("+"), marks.count("-"))


def in_memory(simulated: SimulatedCluster, runs: int, scale: float) -> list[Row]:
    whole, quarter = facts(simulated), facts(large_cluster(len(simulated.members("worker-a")) // 4))
    text = text_of(*whole)
    seconds, four = math.inf, math.inf
    with paused():  # as in a pass
        for _ in range(max(runs, 20)):  # in turn and about as long, so that a busy moment strikes both
            seconds = min(seconds, least(1, lambda: text_of(*whole)))
            four = min(four, least(1, lambda: [text_of(*quarter) for _ in range(4)]))
    after = text_of(*facts(replaced(simulated)))
    names = [m.name for m in large_cluster(10_000).members("worker-a")]
    return [
        Row("facts in memory to topology.yaml", seconds, max(0.25 * scale, 0.1), "s"),
        Row("the same against a quarter of the nodes", 4 * seconds / four, 4.6, "x"),
        Row("topology.yaml", len(text) / 1000, 150, "kB"),
        Row("one node replaced: yaml lines changed", changed_lines(text, after), 4, ""),
        Row("10,000 names folded", least(runs, lambda: hostlists.fold(names)), 0.06, "s"),
    ]


def on_disk(room: MachineRoom, simulated: SimulatedCluster, runs: int) -> list[Row]:
    """Looking: a poll that finds nothing, and the look after one record was replaced."""
    read: list[str] = []

    def counted(name: str, flags: int, mode: int = 0o777, *, dir_fd: int | None = None) -> int:
        read.append(name)
        return os.open(name, flags, mode, dir_fd=dir_fd)

    registry = RegistryDirectory(room.registry, RealFiles(), SystemClock(), open_file=counted)
    reading = registry.read_all(CLUSTER_ARN)
    signs = Signs(lambda: {"slurm.conf": room.conf}, lambda: room.registry)
    poll = least(max(runs, 5), signs.read)
    victim = simulated.members("worker-a")[0]
    registry.write(record_of(victim)._replace(instance_name="renamed"))
    read.clear()
    registry.read_all(CLUSTER_ARN, reading)
    return [
        Row("watch, nothing changed: a poll", poll, 0.06, "s"),
        Row("one node replaced: records read", len(read), 1, ""),
    ]


def processes(directory: Path, room: MachineRoom, simulated: SimulatedCluster, runs: int, scale: float) -> list[Row]:
    """Real processes: passes, the page, the hook."""
    slurm = directory / "bin"
    environment = {**compiled(room.environment(), directory), "HYPERPOD_TOPOLOGY_REHEARSE": "never"}
    command = [sys.executable, "-m", "topology_plugin", "--root", str(room.controller), "--slurm-bin", str(slurm)]
    write_scontrol(slurm, simulated, UNLOADED, dict.fromkeys(("dev", "train")))
    pending = 3  # --dry-run: something would change
    cold = min(process([*command, "merge", "--dry-run"], environment, code=pending) for _ in range(runs))
    subprocess.run([*command, "merge", "--offline"], env=environment, check=True, capture_output=True)
    text = (room.conf.parent / "topology.yaml").read_text()
    write_scontrol(slurm, simulated, text, dict.fromkeys(("dev", "train"), "tree"))
    later = min(process([*command, "merge"], environment) for _ in range(runs))
    page = directory / "page.html"
    html = min(process([*command, "show", "-o", "html"], environment, page)[0] for _ in range(runs))
    few = large_cluster(16)
    hooks = MachineRoom(directory / "hook", None)
    node = hooks.prepare(few.members("worker-a")[0], few)
    hook = [sys.executable, "-m", "topology_plugin", "register"]
    at_boot = {**compiled(hooks.environment(), directory), "HYPERPOD_TOPOLOGY_ROOT": str(node)}
    process(hook, at_boot)
    register = min(process(hook, at_boot)[0] for _ in range(max(runs, 5)))
    return [
        Row("cold pass, the first", cold[0], max(1.5 * scale, 1.0), "s"),
        Row("cold pass, the first: memory", cold[1], 200, "MB"),
        Row("cold pass, after others", later[0], max(1.5 * scale, 1.0), "s"),
        Row("cold pass, after others: memory", later[1], 200, "MB"),
        Row("show -o html", html, max(3 * scale, 1.5), "s"),
        Row("show -o html: size", page.stat().st_size / 1e6, 8, "MB"),
        Row("register, against a bare Python", register / bare(runs), 12, "x"),
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=FULL)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    scale = chosen.nodes / FULL
    unit = bare(chosen.runs)
    simulated = large_cluster(chosen.nodes)
    with tempfile.TemporaryDirectory(prefix="hyperpod-topology-bench-") as name:
        directory = Path(name)
        room = MachineRoom(directory, None)
        room.write(simulated)
        write_records(room.registry, simulated)
        rows = processes(directory, room, simulated, chosen.runs, scale)
        rows += on_disk(room, simulated, chosen.runs)
    rows += in_memory(simulated, chosen.runs, scale)
    print(f"{chosen.nodes} nodes; the start of a bare Python takes {unit * 1000:.0f} ms here\n")
    print(f"{'':44}{'measured':>12}{'bound':>10}{'starts':>9}")
    for row in rows:
        starts = f"{row.value / unit:9.0f}" if row.unit == "s" else " " * 9
        shown = f"{row.value:.3f}" if row.unit == "s" else f"{row.value:.1f}" if row.unit else f"{row.value:.0f}"
        mark = "  broken" if row.broken else "  above" if row.value > row.bound else ""
        print(f"{row.name:44}{shown + ' ' + row.unit:>12}{row.bound:>10.3g}{starts}{mark}")
    return 1 if any(row.broken for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
