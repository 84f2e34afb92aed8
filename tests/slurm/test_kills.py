"""A pass gets SIGKILL at every file operation and every step: slurmctld starts, the next pass converges."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.clusters import CPU, GB
from tests.slurm.conftest import NewRoom
from tests.slurm.interrupted import killed_at, leftovers, passed, points
from tests.slurm.room import Room, same
from topology_plugin.core import slurm_conf, slurm_conf_edits
from topology_plugin.core.position import Position
from topology_plugin.core.topology import Configuration
from topology_plugin.jobs.simulated_cluster import (
    SimulatedCluster,
    SimulatedGroup,
    cluster,
    in_tree,
    in_ultraservers,
    without_network_data,
)  # fmt: skip

P5 = SimulatedGroup("worker-p5", "ml.p5.48xlarge", ("train", "more"))
p5 = in_tree("worker-p5", "ml.p5.48xlarge", 20, per_leaf=4, seed=7)
gb = in_ultraservers("worker-gb", [4, 4])
EMPTY = cluster(P5, GB, CPU).with_machines(without_network_data("worker-cpu", "ml.c5.9xlarge", 1))
BEFORE = EMPTY.with_machines([*p5[:16], *gb])
AFTER = EMPTY.with_machines([*p5[2:], *gb[:6]])
# One topology of its own for `train` before and for `gb` afterwards: tree-train goes, block-gb comes, block goes, tree
# grows and shrinks, and the words of all three partitions change, in one change.
SET_BEFORE: dict[str, Any] = {"partitions": '{"train": {"separate_fabrics": true}}'}
SET_AFTER: dict[str, Any] = {"partitions": '{"gb": {"block_sizes": [2, 4]}}'}
PARTS = 4  # so that several workers can share the points


def become(room: Room, simulated: SimulatedCluster) -> None:
    """The agent's files for another cluster, words kept, so that only the pass changes them."""
    words = parsed(room).words()
    room.write(simulated)
    conf = parsed(room)
    known = {partition: word for partition, word in words.items() if partition in conf.partitions}
    for path, text in slurm_conf_edits.edit_words(conf, known).items():
        Path(path).write_text(text)


def parsed(room: Room) -> slurm_conf.SlurmConf:
    return slurm_conf.parse(str(room.conf), lambda path: Path(path).read_text())


class Stage:
    """The cluster before the change, to return to as often as needed."""

    def __init__(self, room: Room) -> None:
        self.room = room
        self.live = (room.conf.parent, room.registry, room.wiring().places.state_dir)
        self.saved = room.directory / "saved"
        for number, place in enumerate(self.live):
            shutil.copytree(place, self.saved / str(number))

    def restore(self) -> None:
        for number, place in enumerate(self.live):
            shutil.rmtree(place)
            shutil.copytree(self.saved / str(number), place)
        assert self.room.ctld.reconfigure()


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
