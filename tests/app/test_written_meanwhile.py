"""What someone else writes while a change is made stays, whether the change succeeds or is undone."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.app.machine import FLAT, NODES, ONE, RENAMED, TWO, Machine, in_force, tree
from tests.fakes import Quick
from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.apply import ApplyFailed
from topology_plugin.core import topology_yaml
from topology_plugin.core.topology import Configuration


def test_an_undo_takes_back_our_words_only_and_what_the_agent_did_meanwhile_stays(machine: Machine) -> None:
    machine.apply(ONE)

    def agent() -> Answer:
        text = (
            (machine.etc / "slurm.conf").read_text().replace("CPUs=4", "CPUs=8").replace("# comment", "# new comment")
        )
        (machine.etc / "slurm.conf").write_text(text.replace("Nodes=ALL", "Nodes=ALL Hidden=YES"))
        return Answer(1, "", "refused")

    machine.slurm.answers.append(agent)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    text = (machine.etc / "slurm.conf").read_text()
    assert "CPUs=8" in text and "# new comment" in text and "Hidden=YES" in text
    assert "Topology=tree " in text and "fabric" not in text
    assert (machine.etc / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()


@pytest.mark.parametrize("partition", ["all", "train"])
def test_a_word_that_someone_else_wrote_meanwhile_stays(machine: Machine, partition: str) -> None:
    machine.apply(ONE)

    def agent() -> Answer:
        path = machine.etc / "slurm.conf"
        text = path.read_text().replace(" Topology=fabric", "") if partition == "train" else path.read_text()
        path.write_text(text.replace(f"PartitionName={partition} ", f"PartitionName={partition} Topology=flat "))
        return Answer(1, "", "refused")

    machine.slurm.answers.append(agent)
    with pytest.raises(ApplyFailed):
        machine.apply(RENAMED)
    assert machine.live.disk().words == {**ONE.words, partition: "flat"}
    assert (machine.etc / "topology.yaml").read_bytes() == topology_yaml.render(ONE).encode()


def test_a_topology_yaml_that_someone_else_put_there_meanwhile_stays(machine: Machine) -> None:
    machine.apply(ONE)
    theirs = topology_yaml.render(Configuration((FLAT, tree("tree", NODES), tree("theirs", NODES)))).encode()

    def agent() -> Answer:
        (machine.etc / "topology.yaml").write_bytes(theirs)
        return Answer(1, "", "refused")

    machine.slurm.answers.append(agent)
    with pytest.raises(ApplyFailed):
        machine.apply(TWO)
    assert (machine.etc / "topology.yaml").read_bytes() == theirs
    assert machine.live.disk().words == ONE.words


@pytest.mark.parametrize("victim", ["slurm.conf", "topology.yaml"])
def test_an_agent_that_writes_between_two_of_our_writes_is_not_overwritten(tmp_path: Path, victim: str) -> None:
    class Agent(Quick):
        armed = False

        def rename(self, source: Path, target: Path) -> None:
            super().rename(source, target)
            if self.armed and target.parent.name == "etc":
                self.armed = False
                with (target.parent / victim).open("ab") as file:
                    file.write(b"\n# the agent was here\n")

    operations = Agent()
    machine = Machine(tmp_path, operations)
    machine.apply(ONE)
    operations.armed = True
    try:
        machine.apply(RENAMED)
    except ApplyFailed as failed:
        assert victim == "topology.yaml" and failed.code == "interfered"
        assert machine.slurm.load() is None and machine.slurm.words == ONE.words
    else:
        assert victim == "slurm.conf" and in_force(machine) == RENAMED
    assert b"# the agent was here" in (machine.etc / victim).read_bytes()
