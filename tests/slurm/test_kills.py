"""A pass gets SIGKILL at every file operation and every step: slurmctld starts, the next pass converges."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clusters import GB
from tests.slurm.change import AFTER, BEFORE, SET_AFTER, SET_BEFORE, Stage, become
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import killed_at, leftovers, passed, points
from tests.slurm.room import Room, same
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Configuration
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    cluster,
    in_ultraservers,
)  # fmt: skip

PARTS = 4  # so that several workers can share the points


def prepared(room: Room) -> tuple[Stage, Configuration, Configuration]:
    """(the stage before the change, what is in force there, what the change wants)."""
    room.registry.mkdir(parents=True)
    room.boot(BEFORE)
    former = passed(room, **SET_BEFORE).state.desired
    become(room, AFTER)
    stage = Stage(room)
    wanted = passed(room, **SET_AFTER).state.desired
    assert {t.name for t in former.topologies} == {"flat", "tree-train", "tree", "block"}
    assert {t.name for t in wanted.topologies} == {"flat", "tree", "block-gb"}
    assert all(former.words[p] != wanted.words[p] for p in ("train", "gb"))
    stage.restore()
    return stage, former, wanted


@pytest.mark.parametrize("part", range(PARTS))
def test_br_20_killed_anywhere_slurmctld_starts_and_the_next_pass_converges(room: NewRoom, part: int) -> None:
    here = room()
    stage, _, wanted = prepared(here)
    found = points(here, **SET_AFTER)
    stage.restore()
    assert len(found) >= 30, "fewer points than promised"
    assert [what for operation, what in found if operation == "scontrol"] == ["before reconfigure", "after reconfigure"]
    assert sum(operation == "rename" and what.startswith(str(here.conf.parent)) for operation, what in found) == 3
    tried = 0
    for point in range(part, len(found), PARTS):
        where = f"point {point} of {len(found)}: {' '.join(found[point])}"
        assert killed_at(here, point, **SET_AFTER), where
        here.ctld.kill()
        here.ctld.start()  # from the files as the kill left them; raises if it dies of them
        assert not here.ctld.scontrol("ping", check=False).returncode, where
        outcome = passed(here, **SET_AFTER)
        assert outcome.state.last.result in ("applied", "unchanged"), where
        assert same(here.in_force(), wanted), where
        assert leftovers(here) == [], where
        if point % 5 == 0:
            assert not passed(here, **SET_AFTER).plan, where
        tried += 1
        stage.restore()
    assert not killed_at(here, len(found) + 50, **SET_AFTER)
    print(f"killed at {tried} of {len(found)} points")


FULL = cluster(GB, logins=0).with_machines(in_ultraservers("worker-gb", [18, 18]))
LAST = FULL.machines[-1]
assert LAST.label is not None
# The last node's UltraServer is no longer told: not every node is in a full block, so the cluster becomes a tree.
SHORT = FULL.with_changed(LAST.name, label=Position(LAST.label.path))


@pytest.mark.parametrize(
    ("before", "after", "word"), [(SHORT, FULL, "block"), (FULL, SHORT, "tree")], ids=["to-block", "to-tree"]
)
def test_br_20_on_24_11_between_two_kinds_killed_at_every_live_file_and_step(
    room: NewRoom, slurm_bin_24: Path, before: SimulatedCluster, after: SimulatedCluster, word: str
) -> None:
    """The old word does not fit the new topology.conf, nor the new word the old one: for a moment there is none."""
    here = room(slurm_bin=slurm_bin_24)
    here.registry.mkdir(parents=True)
    here.boot(before)
    passed(here)
    here.write(after)
    stage = Stage(here)
    found = points(here)
    live = [n for n, (operation, what) in enumerate(found) if operation == "scontrol" or "/etc/" in what]
    assert sum(found[n][0] == "rename" for n in live) == 3, "word, file, word"
    for point in live:
        stage.restore()
        where = f"point {point} of {len(found)}: {' '.join(found[point])}"
        assert killed_at(here, point), where
        here.ctld.kill()
        here.ctld.start()
        assert passed(here).state.last.result in ("applied", "unchanged"), where
        assert f"TopologyPlugin          = topology/{word}" in here.ctld.scontrol("show", "config").stdout, where
        assert leftovers(here) == [], where
    assert len(here.runs_on("-N2")) == 2
    print(f"killed at {len(live)} of {len(found)} points")


def test_the_process_that_is_killed_is_a_real_one(room: NewRoom) -> None:
    """The harness itself: a point behind the last one is never reached, the first one leaves everything as it was."""
    here = room()
    stage, former, _ = prepared(here)
    before = {path: path.read_bytes() for path in here.conf.parent.iterdir()}
    assert killed_at(here, 0, **SET_AFTER)
    assert {path: path.read_bytes() for path in here.conf.parent.iterdir()} == before
    assert same(here.in_force(), former)
    stage.restore()
