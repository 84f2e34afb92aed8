"""A boot storm on a simulated clock: all nodes register within ten minutes, in no order, while `watch` runs.

    python -m benchmarks.storm [--nodes N]

Everything is real but the clock and slurmctld (a fake one, which reads the files): registrations, polls, passes. Prints
how many reconfigures that took, and how long after the last registration the last node was placed and in force.
Exit 1 when one of the two is above its bound.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from benchmarks.large_cluster import large_cluster, record_of
from tests.app.stage import Stage
from tests.clusters import unlabelled
from topology_plugin.core import records
from topology_plugin.core.settings import Settings

SECONDS = 600.0


@dataclass(frozen=True)
class Storm:
    """`placed`: seconds from the last registration until the last node is in force at its place."""

    reconfigures: int
    placed: float


def bounds(settings: Settings) -> Storm:
    """What holds whatever the order and the times of the registrations.

    A change settles before it is acted upon, and reconfigures keep their distance, from the first to the last. The last
    node waits for one of the two, not for both in turn: its change is seen by the next poll and settles; if it settled
    too soon after a reconfigure, the pass is due once that is long enough ago, at the next poll. Plus that pass itself,
    which takes no time on this clock.
    """
    apart = max(settings.settle_seconds, settings.min_reconfigure_interval)
    placed = apart + 2 * settings.poll_seconds
    return Storm(1 + int((SECONDS + placed - settings.settle_seconds) // apart), placed)


def storm(directory: Path, nodes: int) -> Storm:
    simulated = large_cluster(nodes)
    stage = Stage(directory, unlabelled(simulated))
    arrivals = list(simulated.members("worker-a"))
    names = [machine.name for machine in arrivals]
    registry = stage.room.registry / "nodes"
    registry.mkdir(parents=True)
    start, done = stage.clock.time, 0

    def arrive(now: float) -> None:
        nonlocal done
        due = min(nodes, int((now - start) / SECONDS * nodes))
        for machine in arrivals[done:due]:
            record = record_of(machine)
            (registry / record.file_name).write_bytes(records.dump(record))
        done = due

    stage.go(SECONDS, arrive)
    last, limit = stage.clock.time, 2 * bounds(stage.wiring.settings).placed
    poll = stage.wiring.settings.poll_seconds
    while _lacking(stage, names) and stage.clock.time - last < limit:
        stage.go(poll)
    if missing := _lacking(stage, names):
        raise RuntimeError(f"{len(missing)} nodes are not placed {limit:g} s after the last registration")
    return Storm(stage.ctld.reconfigures, stage.clock.time - last)


def _lacking(stage: Stage, names: list[str]) -> set[str]:
    """Nodes that slurmctld has at no place of their own yet."""
    if stage.ctld.loaded is None or stage.loaded().topology("tree") is None:
        return set(names)
    placed = (nodes for leaf, nodes in stage.leaves("tree").items() if not leaf.startswith("unplaced"))
    return set(names).difference(*placed)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=16384)
    chosen = parser.parse_args()
    bound = bounds(Settings())
    with tempfile.TemporaryDirectory(prefix="hyperpod-topology-storm-") as name:
        found = storm(Path(name), chosen.nodes)
    print(f"{chosen.nodes} registrations in {SECONDS:g} s took")
    print(f"{found.reconfigures} reconfigures (at most {bound.reconfigures}); the last node was in force")
    print(f"{found.placed:g} s after it registered (at most {bound.placed:g} s)")
    return 0 if found.reconfigures <= bound.reconfigures and found.placed <= bound.placed else 1


if __name__ == "__main__":
    sys.exit(main())
