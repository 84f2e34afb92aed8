"""Plans: whatever changes into whatever, slurmctld starts from what is on disk after every single step."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core import plan as planning
from topology_plugin.core import slurm_conf, target, topology_conf, topology_yaml
from topology_plugin.core.disk import Disk
from topology_plugin.core.plan import Plan, Target, needs_conf, plan
from topology_plugin.core.topology import Block, Blocks, Body, Configuration, Flat, Switch, Topology, Tree

NODES = [f"n{number}" for number in range(1, 9)]
MAIN, INCLUDED = "/etc/slurm/slurm.conf", "/etc/slurm/more.conf"


def tree(name: str = "tree", nodes: tuple[str, ...] = tuple(NODES), default: bool = False) -> Topology:
    return Topology(name, Tree((Switch("s1", nodes),)), default)


def blocks(name: str = "block", nodes: tuple[str, ...] = tuple(NODES), default: bool = False) -> Topology:
    return Topology(name, Blocks((4,), (Block("b1", nodes[:4]), Block("b2", nodes[4:]))), default)


def flat(name: str = "flat", default: bool = False) -> Topology:
    return Topology(name, Flat(), default)


def configuration(*topologies: Topology, **words: str | None) -> Configuration:
    first, *rest = topologies
    return Configuration((replace(first, default=True), *rest), words)


def yaml(*topologies: Topology) -> bytes:
    return topology_yaml.render(configuration(*topologies)).encode()


def disk(
    words: Mapping[str, str | None],
    text: bytes | None = None,
    conf: bytes | None = None,
    plugin: str | None = None,
    extra: str = "",
) -> Disk:
    """A slurm.conf whose partitions with an upper-case name stand in an included file."""
    line = "PartitionName={} Nodes=ALL{}\n"
    here = {name: line.format(name, f" Topology={word}" if word else "") for name, word in words.items()}
    main = "".join(
        [
            f"TopologyPlugin={plugin}\n" if plugin else "",
            f"NodeName={','.join(NODES)}\n",
            extra,
            *(text for name, text in here.items() if name.islower()),
            "Include more.conf\n",
        ]
    )
    files = {MAIN: main, INCLUDED: "".join(text for name, text in here.items() if not name.islower())}
    return Disk(slurm_conf.parse(MAIN, files.get), text, conf)


def after(now: Disk, step: planning.FileStep) -> Disk:
    """The disk after one step, as the executor leaves it."""
    match step:
        case planning.WriteText("topology.yaml", data, former, _):
            assert former == (planning.digest(now.topology_yaml) if now.topology_yaml is not None else None)
            return replace(now, topology_yaml=data)
        case planning.WriteText("topology.conf", data, former, _):
            assert former == (planning.digest(now.topology_conf) if now.topology_conf is not None else None)
            return replace(now, topology_conf=data)
        case planning.RemoveText("topology.yaml", _):
            return replace(now, topology_yaml=None)
        case planning.RemoveText("topology.conf", _):
            return replace(now, topology_conf=None)
        case planning.SetWords(path, _, words, restore):
            return now.with_texts({path: now.word_edits(words, restore)[path]})
        case planning.SetPlugin(_, _, value, _):
            return now.with_texts(now.plugin_edits(value))
    raise AssertionError(step)


def cuts(now: Disk, change: Plan) -> Iterator[Disk]:
    yield now
    for step in change.file_steps:
        now = after(now, step)
        yield now


def starts(now: Disk) -> bool:
    """Whether slurmctld 25.05 or newer starts, as far as plans decide that."""
    if now.topology_yaml is not None:
        return now.named <= planning.defined_names(now.topology_yaml)
    return not now.named and _conf_fits(now)


def starts_classic(now: Disk) -> bool:
    return not now.named and _conf_fits(now)


def _conf_fits(now: Disk) -> bool:
    if not needs_conf(now.plugin):
        return True
    if now.topology_conf is None:
        return False
    return "topology/" + topology_conf.parse(now.topology_conf.decode()).kind == now.plugin


def kinds(change: Plan) -> list[str]:
    names = {planning.WriteText: "write", planning.RemoveText: "remove", planning.SetWords: "words"}
    return [names.get(type(step), type(step).__name__) for step in change.steps]


@pytest.mark.parametrize(
    ("before", "then", "expected"),
    [
        pytest.param(
            (None, {"p": None}), configuration(flat(), tree(), p="tree"), ["write", "words"], id="first topology"
        ),
        pytest.param(([flat()], {"p": None}), configuration(flat(), tree(), p="tree"), ["write", "words"], id="adding"),
        pytest.param(
            ([flat(), tree()], {"p": "tree"}), configuration(flat(), p=None), ["words", "write"], id="removing"
        ),
        pytest.param(
            ([tree()], {"p": None}), configuration(tree(nodes=("n1",)), p=None), ["write"], id="growing or shrinking"
        ),
        pytest.param(
            ([tree(), blocks()], {"p": "tree"}), configuration(tree(), blocks(), p="block"), ["words"], id="other word"
        ),
        pytest.param(
            ([tree(), blocks()], {"p": "tree"}),
            configuration(blocks(), p="block"),
            ["words", "write"],
            id="the last user of one",
        ),
        pytest.param(
            ([tree("old")], {"p": "old"}), configuration(tree(), p="tree"), ["write", "words", "write"], id="renaming"
        ),
        pytest.param(
            ([tree("old")], {"p": "old", "Q": "old", "r": None}),
            configuration(tree(), blocks(), p="tree", Q=None, r="block"),
            ["write", "words", "words", "write"],
            id="adding and removing, two files",
        ),
        pytest.param(([flat()], {"p": "gone"}), configuration(tree(), p="tree"), ["write", "words"], id="mending"),
        pytest.param(([tree()], {"p": "tree"}), configuration(tree(), p="tree"), [], id="nothing"),
    ],
)
def test_br_20_topologies_come_before_the_words_that_name_them_and_go_after_them(
    before: tuple[list[Topology] | None, dict[str, str | None]], then: Configuration, expected: list[str]
) -> None:
    topologies, words = before
    now = disk(words, None if topologies is None else yaml(*topologies))
    change = plan(now, target.of_configuration(then, now), reconfigure=False)
    assert kinds(change) == expected
    last = list(cuts(now, change))[-1]
    assert last.words == dict(then.words) and last.topology_yaml == topology_yaml.render(then).encode()


NAMES = st.sampled_from(["tree", "block", "flat", "tree-a", "tree-b"])


@st.composite
def bodies(draw: st.DrawFn) -> Body:
    nodes = tuple(draw(st.lists(st.sampled_from(NODES), min_size=1, unique=True)))
    kind = draw(st.sampled_from(["tree", "block", "flat"]))
    return {"tree": tree(nodes=nodes), "block": blocks(nodes=nodes), "flat": flat()}[kind].body


@st.composite
def configurations(draw: st.DrawFn) -> Configuration:
    names = draw(st.lists(NAMES, min_size=1, unique=True))
    topologies = [Topology(name, draw(bodies())) for name in names]
    words = {partition: draw(st.sampled_from([None, *names])) for partition in ("p", "q", "R", "S")}
    return configuration(*topologies, **words)


@given(before=st.none() | configurations(), then=st.none() | configurations(), extra=st.sampled_from(["", "DEFAULT"]))
def test_br_20_slurmctld_starts_after_every_step_from_anything_to_anything_and_back(
    before: Configuration | None, then: Configuration | None, extra: str
) -> None:
    words = before.words if before else dict.fromkeys(("p", "q", "R", "S"))
    text = topology_yaml.render(before).encode() if before else None
    inherit = f"PartitionName=DEFAULT Topology={before.topologies[-1].name}\n" if extra and before else ""
    now = disk(words, text, extra=inherit)
    assert starts(now)
    wanted = target.of_configuration(then, now) if then else Target(None, None, dict.fromkeys(now.words))
    change = plan(now, wanted, reconfigure=False)
    found = list(cuts(now, change))
    assert all(starts(cut) for cut in found), planning.sentences(change)
    assert found[-1].topology_yaml == wanted.topology_yaml
    assert found[-1].words == {**now.words, **wanted.words}
    assert not plan(found[-1], wanted, reconfigure=False), "what stands there already is not touched again"
    # A failure or a kill at any of them: the way back, and the way on, start at every step too.
    former = Target(now.topology_yaml, now.topology_conf, now.words, restore=now.conf)
    for cut in found:
        for goal in (former, wanted):
            way = list(cuts(cut, plan(cut, goal, reconfigure=False)))
            assert all(starts(step) for step in way)
        back = list(cuts(cut, plan(cut, former, reconfigure=False)))[-1]
        assert (back.conf.files, back.topology_yaml) == (now.conf.files, now.topology_yaml), "byte for byte"


CLASSIC = [None, "topology/default", "topology/tree", "topology/block"]
CONFS = {
    "topology/tree": topology_conf.render(tree()).encode(),
    "topology/block": topology_conf.render(blocks()).encode(),
}


@pytest.mark.parametrize(
    ("before", "then"),
    list(itertools.product(CLASSIC, repeat=2)),
    ids=lambda value: str(value).removeprefix("topology/"),
)
@pytest.mark.parametrize("word", [None, "tree"])
@pytest.mark.parametrize("upgraded", [None, yaml(flat(), tree())], ids=["", "topology.yaml"])
def test_br_20_up_to_24_11_topology_conf_comes_before_the_plugin_and_goes_after_it(
    before: str | None, then: str | None, word: str | None, upgraded: bytes | None
) -> None:
    now = disk({"p": word, "Q": None}, upgraded, CONFS.get(before or ""), before)
    kind = {"topology/tree": tree(), "topology/block": blocks()}.get(then or "", flat())
    wanted = target.of_configuration(configuration(kind), now, classic=True, conf_ours=True, yaml_ours=True)
    change = plan(now, wanted, reconfigure=False, classic=True)
    found = list(cuts(now, change))
    assert starts_classic(now) is (word is None)
    assert all(starts_classic(cut) for cut in found[1 if word else 0 :]), planning.sentences(change)
    last = found[-1]
    assert needs_conf(last.plugin) is needs_conf(then) and last.topology_conf == CONFS.get(then or "")
    assert last.topology_yaml is None, "nothing that would take over after an upgrade (BR-16)"
    assert not plan(last, wanted, reconfigure=False, classic=True)
    back = Target(now.topology_yaml, now.topology_conf, now.words, before or planning.NO_LINE, restore=now.conf)
    for cut in found:
        way = list(cuts(cut, plan(cut, back, reconfigure=False, classic=True)))
        assert (way[-1].conf.files, way[-1].topology_conf) == (now.conf.files, now.topology_conf)
        assert all(starts_classic(step) for step in way[:-1] if word is None)


def test_br_16_up_to_24_11_flat_is_called_default() -> None:
    now = disk({"p": None}, None, CONFS["topology/tree"], "topology/tree")
    change = plan(now, target.of_configuration(configuration(flat()), now, classic=True), classic=True)
    assert [s.value for s in change.steps if isinstance(s, planning.SetPlugin)] == ["topology/default"]


def test_up_to_24_11_files_of_others_that_are_not_read_stay() -> None:
    now = disk({"p": None}, yaml(flat("theirs")), CONFS["topology/block"], "topology/default")
    for then in (flat(), tree()):
        found = list(cuts(now, plan(now, target.of_configuration(configuration(then), now, True), classic=True)))[-1]
        assert found.topology_yaml == now.topology_yaml
        assert (found.topology_conf == now.topology_conf) is (then.kind == "flat")


def test_a_foreign_word_stays_and_its_topology_with_it_as_long_as_the_change_is_on_its_way() -> None:
    now = disk({"p": "tree", "q": "theirs"}, yaml(tree(), tree("theirs")))
    then = configuration(blocks(), tree("theirs"), p="block")
    change = plan(now, target.of_configuration(then, now), reconfigure=False)
    assert all(starts(cut) for cut in cuts(now, change))
    assert list(cuts(now, change))[-1].words == {"p": "block", "q": "theirs"}


def test_a_whole_change_keeps_the_generation_first_and_makes_it_current_last() -> None:
    now = disk({"p": None}, yaml(flat()))
    then = configuration(flat(), tree(), p="tree")
    change = plan(now, target.of_configuration(then, now), number=7)
    assert kinds(change) == ["KeepGeneration", "write", "words", "Reconfigure", "ReadBack", "MoveCurrent"]
    assert kinds(plan(now, target.of_configuration(then, now), number=7, reconfigure=False)) == [
        "KeepGeneration", "write", "words", "MoveCurrent",
    ]  # fmt: skip


def test_drift_alone_is_reconfigured_without_touching_a_file() -> None:
    then = configuration(flat(), tree(), p="tree")
    now = disk({"p": "tree"}, topology_yaml.render(then).encode())
    assert not plan(now, target.of_configuration(then, now))
    assert kinds(plan(now, target.of_configuration(then, now), loaded_differs=True)) == ["Reconfigure", "ReadBack"]


def test_the_sentences_say_every_step() -> None:
    now = disk({"p": "old", "q": None}, yaml(tree("old")))
    then = configuration(tree(), p="tree", q=None)
    assert planning.sentences(plan(now, target.of_configuration(then, now), number=3)) == [
        "keep generation 3 in the registry and in the state directory",
        f"replace topology.yaml ({len(planning.union(yaml(tree()), (tree('old'),)))} bytes), "
        "for the moment with the topologies that words still name",
        f"in {MAIN}: partition p gets Topology=tree instead of old",
        f"replace topology.yaml ({len(yaml(tree()))} bytes)",
        "scontrol reconfigure, once",
        "read back that slurmctld runs tree and the partitions' words",
        "generation 3 becomes the current one",
    ]
