"""What lies in the registry and is no record of this cluster changes nothing, is said once, and holds nobody up."""

from __future__ import annotations

import json
import os
import socket
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from tests.app.stage import Stage, labelled, small
from tests.clusters import record_of, unlabelled
from topology_plugin.core import records
from topology_plugin.core.position import Position
from topology_plugin.jobs.simulated_cluster import Machine

ROOT = os.geteuid() == 0
ELSEWHERE = Position(("nn-1a0", "nn-sa0", "nn-la1"))


def data(machine: Machine) -> bytes:
    """A record as the machine's own hook would write it, but for a place of the forger's choice."""
    return records.dump(record_of(replace(machine, label=ELSEWHERE)))


def changed(machine: Machine, **values: object) -> bytes:
    return json.dumps({**json.loads(data(machine)), **values}).encode()


Forge = Callable[[Path, Machine], object]


def content(make: Callable[[Machine], bytes]) -> Forge:
    return lambda path, machine: path.write_bytes(make(machine))


def of_another_user(path: Path, machine: Machine) -> None:
    path.write_bytes(data(machine))
    os.chown(path, 65534, 65534)


def symlink(path: Path, machine: Machine) -> None:
    target = path.parent.parent / "elsewhere.json"
    target.write_bytes(data(machine))
    path.symlink_to(target)


def hard_link_of_another(path: Path, machine: Machine) -> None:
    other = next(entry for entry in path.parent.iterdir() if entry.suffix == ".json")
    path.hardlink_to(other)


def pipe(path: Path, machine: Machine) -> None:
    os.mkfifo(path)


def directory(path: Path, machine: Machine) -> None:
    path.mkdir()


def device(path: Path, machine: Machine) -> None:
    os.mknod(path, 0o644 | stat.S_IFCHR, os.makedev(1, 5))  # /dev/zero: never ends


def listening_socket(path: Path, machine: Machine) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        here = Path.cwd()
        os.chdir(path.parent)  # a socket's path has room for 107 bytes
        try:
            server.bind(path.name)
        finally:
            os.chdir(here)


OTHER_ARN = "arn:aws:sagemaker:us-west-2:111122223333:cluster/zzz999zzz999"
FORGED: list[object] = [
    pytest.param(of_another_user, id="of-another-user", marks=pytest.mark.skipif(not ROOT, reason="needs root")),
    pytest.param(symlink, id="symbolic-link"),
    pytest.param(hard_link_of_another, id="hard-link-of-another-record"),
    pytest.param(pipe, id="pipe"),
    pytest.param(directory, id="directory"),
    pytest.param(device, id="device", marks=pytest.mark.skipif(not ROOT, reason="needs root")),
    pytest.param(listening_socket, id="socket"),
    pytest.param(content(lambda m: data(m) + b" " * 70_000), id="too-long"),
    pytest.param(content(lambda m: changed(m, cluster_arn=OTHER_ARN)), id="of-another-cluster"),
    pytest.param(content(lambda m: changed(m, instance_id="i-0eeeeeeeeeeeeeeee")), id="name-is-not-content"),
    pytest.param(content(lambda m: b"[" * 60_000), id="deep-list"),
    pytest.param(content(lambda m: b'{"a":' * 10_000 + b"1" + b"}" * 10_000), id="deep-map"),
    pytest.param(content(lambda m: b""), id="empty"),
    pytest.param(content(lambda m: data(m)[: len(data(m)) // 2]), id="torn"),
    pytest.param(content(lambda m: b"\xff\xfe\x00\x01"), id="not-text"),
    pytest.param(content(lambda m: b"null"), id="null"),
    pytest.param(content(lambda m: changed(m, schema=99)), id="of-the-far-future"),
    pytest.param(content(lambda m: changed(m, schema=10**400)), id="enormous-number"),
    pytest.param(content(lambda m: changed(m, addresses=[1, 2])), id="wrong-type"),
    pytest.param(content(lambda m: changed(m, group="worker\x1b[2J\n PartitionName=x")), id="control-characters"),
    pytest.param(content(lambda m: changed(m, instance_name="../../etc/passwd\0")), id="nul"),
]


def crowd(tmp_path: Path) -> tuple[Stage, Machine, Path]:
    """A cluster that lives by records; all but one node have registered. (stage, that node, where its record goes)."""
    stage = Stage(tmp_path, unlabelled(small()))
    *others, victim = labelled(small())
    for machine in others:
        stage.record(machine)
    stage.go(300)
    assert stage.leaf_of(victim.name) == f"unplaced-{victim.name}"
    return stage, victim, stage.room.registry / "nodes" / f"{victim.instance_id}.json"


@pytest.mark.parametrize("forge", FORGED)
def test_a_forged_record_changes_nothing_and_is_said_once(tmp_path: Path, forge: Forge) -> None:
    stage, victim, path = crowd(tmp_path)
    before, reconfigures, said = stage.hash(), stage.ctld.reconfigures, len(stage.said)
    forge(path, victim)
    assert set(stage.go(700)) == {"unchanged"}
    stage.record(labelled(small())[0])
    stage.document("cluster_agent.json", {})  # one more reason to look at everything
    assert set(stage.go(400)) == {"unchanged"}
    assert (stage.hash(), stage.ctld.reconfigures) == (before, reconfigures)
    new = [sentence for sentence in stage.said[said:] if path.name in sentence or victim.instance_id in sentence]
    assert len(new) == 1, new
    assert new[0].isprintable()
    assert any(path.name in note for note in stage.state()["notes"]), "doctor and show still tell it"


def test_once_it_is_gone_the_node_registers_and_is_placed(tmp_path: Path) -> None:
    stage, victim, path = crowd(tmp_path)
    pipe(path, victim)
    stage.go(100)
    path.unlink()
    assert stage.record(victim)
    stage.go(200)
    assert stage.leaf_of(victim.name) == "nn-la1"


@pytest.mark.parametrize(
    "label",
    [
        ("nn-1a0", "nn-sa0", "nn-la1,ip-10-1-1-1"),
        ("nn-1a0", "nn-sa0", "x[1-99999]"),
        ("nn-1a0", "nn-sa0", "a\n- topology: evil"),
        ("nn-1a0", "nn-sa0", "root"),
        ("nn-1a0", "nn-sa0", "unplaced"),
        ("nn-1a0", "nn-sa0", "../../etc"),
        ("nn-1a0", "nn-sa0", "*&!|>%@`"),
        ("nn-1a0", "nn-sa0", "null"),
        ("nn-1a0", "nn-1a0", "nn-1a0"),
        ("a" * 5000,),
        tuple(f"n{i}" for i in range(200)),
    ],
)
def test_hostile_ids_in_a_well_formed_record_break_no_line_and_move_nobody_else(
    tmp_path: Path, label: tuple[str, ...]
) -> None:
    """Root on a node may say of that node what it likes; slurmctld must take it, and the others stay where they are."""
    stage, victim, path = crowd(tmp_path)
    before = {name: nodes for name, nodes in stage.leaves("tree").items() if victim.name not in nodes}
    answers = {"resource-config": {"path": list(label), "ultraserver": None}}
    path.write_bytes(json.dumps({**json.loads(data(victim)), "answers": answers}).encode())
    stage.go(300)
    assert stage.state()["last"]["result"] in ("unchanged", "applied")
    leaves = stage.leaves("tree")
    assert sum(victim.name in nodes for nodes in leaves.values()) == 1
    assert {name: nodes for name, nodes in leaves.items() if victim.name not in nodes} == before
    assert "evil" not in {topology.name for topology in stage.loaded().topologies}
