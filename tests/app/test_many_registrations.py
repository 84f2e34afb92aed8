"""64 processes register 50 nodes each into one registry while passes run: nothing lost, nothing torn, no leftovers."""

from __future__ import annotations

import json
import os
import signal
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from tests.app.stage import Stage, labelled
from tests.clusters import P5, unlabelled
from topology_plugin.adapters.clock import SystemClock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.files import LEFTOVER, Operations, RealFiles
from topology_plugin.adapters.registry import RegistryDirectory, Unavailable
from topology_plugin.app.reconcile import Wish
from topology_plugin.app.register import Registrar
from topology_plugin.core.records import Record
from topology_plugin.jobs.simulated_cluster import Machine, SimulatedCluster, cluster, in_tree

PROCESSES, EACH, KILLED = 64, 50, 6


class Nobody:
    """A machine that is asked nothing: each registration is told who it is."""

    def tagged_instance_id(self) -> str | None:
        return None

    def address(self) -> str | None:
        return None


class KilledAt(Operations):
    """Dies, as if the node lost power, at the n-th rename: the temporary file stays."""

    def __init__(self, at: int) -> None:
        self.left = at

    def rename(self, source: Path, target: Path) -> None:
        self.left -= 1
        if self.left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        super().rename(source, target)


def registers(
    registry: Path, root: Path, simulated: SimulatedCluster, machines: Sequence[Machine], files: RealFiles
) -> None:
    """Every machine twice: before AWS tells its label, and after."""
    root.mkdir(parents=True)
    clock, ids = SystemClock(), {m.instance_id for m in machines}
    documents = Documents(*(root / f"{n}.json" for n in ("resource_config", "provisioning_parameters", "agent")))
    for known in (unlabelled(simulated), simulated):
        listed = (m for m in known.machines if m.instance_id in ids or m is known.controller)
        own = replace(known, machines=tuple(listed))
        (root / "resource_config.json").write_text(json.dumps(own.resource_config()))
        (root / "provisioning_parameters.json").write_text(json.dumps(own.provisioning_parameters()))
        for machine in machines:
            done = Registrar(
                documents,
                Nobody(),
                lambda: (_ for _ in ()).throw(AssertionError("IMDS is not asked")),
                lambda arn: RegistryDirectory(registry, files, clock),
                clock,
                timeout=60,
                given=machine.instance_id,
            ).register()
            assert done is not None
            assert done.written


def forked(work: Callable[[], None]) -> int:
    """The pid of a process of its own that does this, and exits with 0 if it could."""
    child = os.fork()
    if child:
        return child
    code = 1
    try:
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def test_nothing_is_lost_and_nothing_is_torn(tmp_path: Path) -> None:
    simulated = cluster(P5).with_machines(
        in_tree("worker-p5", "ml.p5.48xlarge", PROCESSES * EACH + KILLED * 5, per_leaf=64)
    )
    everyone = labelled(simulated)
    crowd, doomed = everyone[: PROCESSES * EACH], everyone[PROCESSES * EACH :]
    stage = Stage(tmp_path / "stage", unlabelled(simulated))
    registry = stage.room.registry
    children: list[int] = []
    for number in range(PROCESSES):
        mine = crowd[number::PROCESSES]
        root = tmp_path / "nodes" / str(number)
        children.append(forked(partial(registers, registry, root, simulated, mine, RealFiles())))
    victims = []
    for number in range(KILLED):
        mine, root = doomed[number::KILLED], tmp_path / "nodes" / f"doomed-{number}"
        files = RealFiles(KilledAt(3 + number))
        victims.append(forked(partial(registers, registry, root, simulated, mine, files)))

    reader = RegistryDirectory(registry, RealFiles(), SystemClock())
    reading, most, looks, ran = None, 0, 0, 0
    passes = stage.fresh_wiring().reconciler()
    alive = {*children, *victims}
    codes: dict[int, int] = {}
    while alive:
        for pid in sorted(alive):
            found, status = os.waitpid(pid, os.WNOHANG)
            if found:
                alive.discard(pid)
                codes[pid] = os.waitstatus_to_exitcode(status)
        try:
            reading = reader.read_all(None, reading)
        except Unavailable:
            continue  # nobody has registered yet
        time.sleep(0.1)
        looks += 1
        assert reading.issues == (), "torn, or no record"
        assert len(reading.records) >= most, "one was lost"
        most = len(reading.records)
        if looks % 15 == 1:
            outcome, ran = passes.run(Wish()), ran + 1
            assert outcome.state.last.result in ("applied", "unchanged")
            assert not [note for note in outcome.state.notes if "nodes/" in note]
    assert ran >= 1, "passes ran meanwhile"
    assert [codes[pid] for pid in children] == [0] * PROCESSES
    assert [codes[pid] for pid in victims] == [-signal.SIGKILL] * KILLED

    names = os.listdir(registry / "nodes")  # noqa: PTH208
    left = [name for name in names if LEFTOVER.match(name)]
    assert len(left) == KILLED, "what the killed ones left"
    final = RegistryDirectory(registry, RealFiles(), SystemClock()).read_all(None)
    assert final.issues == ()
    assert set(final.records) == {name.removesuffix(".json") for name in names if name not in left}
    for machine in crowd:
        assert position_of(final.records[machine.instance_id]) == machine.label
    outcome = passes.run(Wish())
    leaves = stage.leaves("tree")
    assert sum(len(nodes) for leaf, nodes in leaves.items() if leaf.startswith("nn-")) >= len(crowd)
    assert passes.run(Wish()).state.last.result == "unchanged"


def position_of(record: Record) -> object:
    return record.answers.get("resource-config")
