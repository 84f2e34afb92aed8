"""One change of a cluster that touches everything, to be cut off, refused or taken back; and the way back before it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.clusters import CPU, GB
from tests.slurm.interrupted import passed
from tests.slurm.room import Room
from topology_plugin.core import slurm_conf, slurm_conf_edits
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


def before_the_change(room: Room) -> dict[str, bytes]:
    """Up to where the next pass makes the change; Slurm's files then."""
    room.registry.mkdir(parents=True)
    room.boot(BEFORE)
    passed(room, **SET_BEFORE)
    become(room, AFTER)
    assert room.ctld.reconfigure()
    return files(room)


def files(room: Room) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in room.conf.parent.iterdir()}
