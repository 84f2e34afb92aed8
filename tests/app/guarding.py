"""guard at work on a machine of the tests, and what it is there for: files that slurmctld would die of."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from tests.app.machine import CONF, MORE, ONE, Machine
from topology_plugin.adapters.generations import Generations
from topology_plugin.app.guard import Guarded, guard
from topology_plugin.core import topology_yaml
from topology_plugin.core.disk import Disk
from topology_plugin.core.issues import Issue
from topology_plugin.core.rules import unhealthy
from topology_plugin.core.validation import check_files

MODERN, CLASSIC = (26, 5, 5), (24, 11, 5)


def run(machine: Machine, classic: bool = False, mode: str = "auto") -> Guarded:
    version = CLASSIC if classic else MODERN

    def check(disk: Disk) -> Sequence[Issue]:
        found = unhealthy(check_files(disk.conf, disk.topology_yaml, disk.topology_conf, version))
        return [Issue(f.where, f.what, f.remedy) for f in found]

    local = Generations(machine.files, None, machine.state_dir)
    return guard(machine.live, local, check, classic, mode)


BROKEN: dict[str, tuple[bytes | None, dict[str, str | None]]] = {
    "br-15a: [] and a word": (b"[]\n", {"train": "tree"}),
    "empty": (b"", {"train": "tree"}),
    "truncated": (topology_yaml.render(ONE).encode().partition(b"[1-2]")[0] + b"[", {"train": "tree"}),
    "a word that names nothing": (topology_yaml.render(ONE).encode(), {"train": "tree", "other": "nothing"}),
    "no topology.yaml": (None, {"train": "tree"}),
    "binary": (bytes(range(256)), {"train": "tree"}),
    "no words at all": (b"[]\n", {}),
}


def break_(machine: Machine, how: str) -> None:
    text, words = BROKEN[how]
    path = machine.etc / "topology.yaml"
    path.unlink(missing_ok=True)
    if text is not None:
        path.write_bytes(text)
    conf, more = CONF, MORE
    for partition, word in words.items():
        conf = conf.replace(f"PartitionName={partition} ", f"PartitionName={partition} Topology={word} ")
        if partition == "other":
            more = more.replace("State=UP", f"State=UP Topology={word}")
    (machine.etc / "slurm.conf").write_text(conf)
    (machine.etc / "more.conf").write_bytes(more.encode())


def classic(machine: Machine, plugin: str | None, conf: str | None, word: bool = False, default: bool = False) -> str:
    text = CONF.replace("PartitionName=train ", "PartitionName=train Topology=tree ") if word else CONF
    text = f"PartitionName=DEFAULT Topology=x\n{text}" if default else text
    text = f"TopologyPlugin={plugin}\n{text}" if plugin else text
    (machine.etc / "slurm.conf").write_text(text)
    if conf is not None:
        (machine.etc / "topology.conf").write_text(conf)
    return text


def stand(path: Path, what: str) -> None:
    """Something that is no file."""
    path.unlink(missing_ok=True)
    beside = path.with_name("beside")
    match what:
        case "directory":
            path.mkdir()
            (path / "inside").write_text("theirs")
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/null")
        case "link to a directory":
            beside.mkdir(exist_ok=True)
            path.symlink_to("beside")
        case "link to itself":
            path.symlink_to(path.name)
