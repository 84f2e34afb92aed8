"""The rules and the rehearsal as a pass uses them."""

from __future__ import annotations

from dataclasses import dataclass, field

from topology_plugin.adapters.rehearsal import Outcome
from topology_plugin.app.judgement import Rehearser, deadly, faults
from topology_plugin.core import slurm_conf, topology_yaml
from topology_plugin.core.decision import Decision
from topology_plugin.core.disk import Disk
from topology_plugin.core.inventory import Inventory, Node
from topology_plugin.core.live import Job
from topology_plugin.core.stage import Question, Stage
from topology_plugin.core.state import Owner, PassResult, State
from topology_plugin.core.topology import Configuration, Flat, Switch, Topology, Tree

V26 = (26, 5, 5)
CONF = slurm_conf.parse("/s", {"/s": "NodeName=n[1-4]\nPartitionName=p Nodes=ALL Topology=tree\n"}.get)
TREE = Tree((Switch("a", ("n1", "n2")), Switch("b", ("n3", "n4")), Switch("r", (), ("a", "b"))))
NEW = Configuration((Topology("flat", Flat(), True), Topology("tree", TREE)), {"p": "tree"})
OLD = Configuration((Topology("flat", Flat(), True),), {"p": None})
AFTER = Disk(CONF, topology_yaml.render(NEW).encode())


@dataclass
class FakeRehearsal:
    outcome: Outcome
    seen: list[Stage] = field(default_factory=list)

    def available(self) -> str | None:
        return None

    def rehearse(self, stage: Stage) -> Outcome:
        self.seen.append(stage)
        return self.outcome


def state(in_force: Configuration | None = OLD) -> State:
    nodes = {name: Node(name) for name in ("n1", "n2", "n3", "n4")} | {"d1": Node("d1", dynamic=True)}
    decision = Decision(NEW, "", {}, {})
    inventory = Inventory(nodes, {}, {})
    return State(None, "1", "26.05.5", None, PassResult(), Owner(), inventory, decision, in_force)


def test_a_healthy_pair_has_nothing_deadly() -> None:
    assert deadly(AFTER, V26) == []


def test_deadly_says_file_rule_and_remedy() -> None:
    (issue,) = deadly(Disk(CONF, b"[]\n"), V26)
    assert issue.where == "topology.yaml"
    assert "[yaml-empty-list]" in issue.what
    assert issue.remedy


def test_losing_the_coverage_of_a_node_is_a_fault_and_warnings_are_none() -> None:
    partial = Configuration((Topology("tree", Tree((Switch("a", ("n1", "n2", "n3")),)), True),), {"p": "tree"})
    assert ["node-uncovered" in issue.what for issue in faults(partial, AFTER, V26)] == [True]
    two_roots = Configuration((Topology("tree", Tree(TREE.switches[:2]), True),), {"p": "tree"})
    assert faults(two_roots, AFTER, V26) == []


def test_a_rehearsal_that_does_not_start_is_the_problem_in_slurmctlds_words() -> None:
    rehearser = Rehearser(FakeRehearsal(Outcome(False, "fatal: no")), V26, lambda sentence: None)
    assert rehearser.problem(AFTER, AFTER, state(), ()) == "fatal: no"


def test_what_is_lost_is_said_and_stops_nothing() -> None:
    said: list[str] = []
    lost = Question(("-p", "p", "-N", "4"), ("7",))
    outcome = Outcome(True, "", {lost: False}, (lost,), 0.5, ("a note",))
    assert Rehearser(FakeRehearsal(outcome), V26, said.append).problem(AFTER, AFTER, state(), ()) == ""
    assert said[1:] == ["no longer possible afterwards: sbatch -p p -N 4 (job 7)", "a note"]


def test_the_stage_holds_the_new_files_what_is_in_force_and_the_jobs_that_wait() -> None:
    fake = FakeRehearsal(Outcome(True))
    before = Disk(CONF, b"something else\n")
    Rehearser(fake, V26, lambda sentence: None).problem(before, AFTER, state(), [Job(1, partition="p", nodes_wanted=3)])
    (stage,) = fake.seen
    assert stage.after.topology_yaml == AFTER.topology_yaml
    assert "Topology=tree" in stage.after.conf
    assert "d1" in stage.after.conf
    assert stage.before is not None
    assert stage.before.topology_yaml == topology_yaml.render(OLD).encode()
    assert "Topology=" not in stage.before.conf
    assert any(question.jobs == ("1",) for question in stage.questions)


def test_where_slurmctld_could_not_tell_the_files_stand_for_what_is_in_force() -> None:
    fake = FakeRehearsal(Outcome(True))
    Rehearser(fake, V26, lambda sentence: None).problem(Disk(CONF, b"x\n"), AFTER, state(None), ())
    assert fake.seen[0].before is not None
    assert fake.seen[0].before.topology_yaml == b"x\n"
