"""Apply: the new configuration in force and read back, byte for byte all else as before."""

from __future__ import annotations

from tests.app.machine import CONF, FLAT, MORE, ONE, TWO, Machine, in_force
from topology_plugin.core import topology_yaml
from topology_plugin.core.topology import Configuration


def test_a_change_is_in_force_on_disk_and_noted_after_one_reconfigure(machine: Machine) -> None:
    applied = machine.apply(ONE)
    assert (applied.number, applied.reconfigured, applied.notes) == (1, True, ())
    assert machine.slurm.reconfigures == 1
    assert in_force(machine) == ONE
    current = machine.generations.current()
    assert current is not None and current.number == 1 and current.words == ONE.words
    for base in (machine.registry, machine.state_dir):
        assert (base / "generations" / "current").read_text() == "1\n"
        assert (base / "generations" / "1" / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()


def test_of_slurm_conf_one_word_changes_and_nothing_else_and_comes_back_byte_for_byte(machine: Machine) -> None:
    before = machine.snapshot()
    machine.apply(TWO)
    assert (machine.etc / "slurm.conf").read_bytes() == CONF.replace(
        "Default=YES", "Default=YES Topology=tree"
    ).encode()
    assert (machine.etc / "more.conf").read_bytes() == MORE.replace("State=UP", "State=UP Topology=tree-other").encode()
    machine.apply(Configuration((FLAT,), dict.fromkeys(("train", "all", "other"))))
    after = machine.snapshot()
    assert after.pop("topology.yaml") and after == before


def test_the_same_again_touches_nothing(machine: Machine) -> None:
    machine.apply(ONE)
    stamps = {p: p.stat().st_mtime_ns for p in machine.home.rglob("*") if p.is_file()}
    applied = machine.apply(ONE)
    assert (applied.number, applied.reconfigured) == (None, False)
    assert {p: p.stat().st_mtime_ns for p in machine.home.rglob("*") if p.is_file()} == stamps
    assert machine.slurm.reconfigures == 1


def test_offline_writes_everything_and_asks_slurm_nothing(machine: Machine) -> None:
    machine.slurm.up = False
    assert machine.apply(ONE, offline=True).number == 1
    current = machine.generations.current()
    assert current is not None and current.number == 1
    machine.slurm.up = True
    assert machine.slurm.load() is None and in_force(machine) == ONE
