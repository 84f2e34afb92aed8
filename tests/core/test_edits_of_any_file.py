"""What holds of edits in any slurm.conf: partitions in two files, in every style that Slurm reads."""

from __future__ import annotations

import difflib
import random
import time

from hypothesis import given
from hypothesis import strategies as st

from tests.core.two_files import MAIN, PARTS, conf_of
from topology_plugin.core.slurm_conf import SlurmConf, parse
from topology_plugin.core.slurm_conf_edits import (
    edit_words,
    restore_words,
    set_parameter,
)

blank = st.sampled_from([" ", "  ", "\t", " \\\n  ", " \\\n", "\\\n ", " \\  \n\t"])
comment = st.sampled_from(["", "", " # Topology=no", "#c", "  ", " \\\n"])
ending = st.sampled_from(["\n", "\n", "\r\n", "\n\n"])
words = st.sampled_from(["tree", "block", "flat", "block-p-1"])
filler = st.sampled_from(
    [
        "# PartitionName=a Topology=no\n",
        "# ends in a backslash \\\n",
        "\n",
        " \t\r\n",
        "NodeName=n[1-2] \\\n  State=CLOUD Topology=tree:s1\n",
        "SchedulerParameters=a=b,c \r\n",
        'Epilog="PartitionName=a Topology=x"\n',
        "#\n",
    ]
)


@st.composite
def partition_line(draw: st.DrawFn, name: str) -> str:
    def spelled(key: str, value: str) -> str:
        key = draw(st.sampled_from([key, key.lower(), key.upper()]))
        sign = draw(st.sampled_from(["=", "=", "= ", " =", " = "]))
        return f'{key}{sign}"{value}"' if draw(st.booleans()) else f"{key}{sign}{value}"

    pairs = draw(
        st.lists(
            st.sampled_from([("Nodes", "ALL"), ("Default", "YES"), ("MaxNodes", "4"), ("QOS", "a\\#b")]), max_size=3
        )
    )
    fields = [spelled(key, value) for key, value in pairs]
    if draw(st.booleans()):
        fields.insert(draw(st.integers(0, len(fields))), spelled("Topology", draw(words)))
    line = draw(st.sampled_from(["", "  ", "\t"])) + spelled("PartitionName", name)
    for one in fields:
        line += draw(blank) + one
    return line + draw(comment) + draw(ending)


@st.composite
def configurations(draw: st.DrawFn, with_default: bool = False) -> dict[str, str]:
    names = draw(st.lists(st.sampled_from(["a", "b", "dev", "ml.p5.48xlarge", "A"]), unique=True, min_size=1))
    if with_default:
        names = [*draw(st.permutations([*names, "DEFAULT"])), *draw(st.sampled_from([[], ["default"]]))]
    files = ["", ""]
    for name in names:
        where = draw(st.integers(0, 1))
        files[where] += "".join(draw(st.lists(filler, max_size=2))) + draw(partition_line(name))
    files[0] = draw(st.sampled_from(["", "\ufeff"])) + files[0]
    for index in (0, 1):
        if draw(st.booleans()):
            files[index] = files[index].rstrip("\r\n \t\\")
    main = draw(
        st.sampled_from([files[0] + "\n\nInclude parts.conf\n", "Include parts.conf\r\n" + files[0].lstrip("\ufeff")])
    )
    return {MAIN: main, PARTS: files[1]}


choices = st.dictionaries(st.sampled_from(["a", "b", "dev", "ml.p5.48xlarge", "A"]), st.none() | words)


def applied(
    files: dict[str, str], choice: dict[str, str | None]
) -> tuple[SlurmConf, dict[str, str], dict[str, str | None]]:
    conf = parse(MAIN, files.get)
    chosen = {name: word for name, word in choice.items() if name in conf.partitions}
    return conf, {**files, **edit_words(conf, chosen)}, chosen


@given(configurations(with_default=True), choices)
def test_the_chosen_words_are_in_force_and_all_else_is_as_before(
    files: dict[str, str], choice: dict[str, str | None]
) -> None:
    conf, after, chosen = applied(files, choice)
    now = parse(MAIN, after.get)
    assert now.words() == {**conf.words(), **chosen}
    assert edit_words(now, chosen) == {}
    assert [partition.nodes for partition in now.partitions.values()] == [p.nodes for p in conf.partitions.values()]
    assert (now.nodes.keys(), now.parameters, now.issues) == (conf.nodes.keys(), conf.parameters, conf.issues)
    for partition in now.partitions.values():
        before = {key: value for key, value in conf.partitions[partition.name].params.items() if key != "topology"}
        assert {key: value for key, value in partition.params.items() if key != "topology"} == before


@given(configurations(), choices)
def test_only_the_word_and_its_blanks_differ(files: dict[str, str], choice: dict[str, str | None]) -> None:
    _, after, _ = applied(files, choice)
    for path, text in files.items():
        for kind, i1, i2, j1, j2 in difflib.SequenceMatcher(None, text, after[path], autojunk=False).get_opcodes():
            if kind != "equal":
                assert text[i1:i2].count("\n") <= text[i1:i2].count("\\"), "a line end went"
                assert "#" not in text[i1:i2]
                assert "\n" not in after[path][j1:j2]


@given(configurations(), choices)
def test_former_words_bring_back_the_very_bytes(files: dict[str, str], choice: dict[str, str | None]) -> None:
    conf, after, chosen = applied(files, choice)
    # A word taken away from where its owner put it comes back in our place; for that there is restore_words.
    kept = {name: word for name, word in chosen.items() if word is not None or conf.words()[name] is None}
    after = {**files, **edit_words(conf, kept)}
    former = {name: conf.words()[name] for name in kept}
    assert {**after, **edit_words(parse(MAIN, after.get), former)} == files


@given(configurations(with_default=True), choices)
def test_restoring_brings_back_the_very_bytes_whatever_the_words_were(
    files: dict[str, str], choice: dict[str, str | None]
) -> None:
    conf, after, _ = applied(files, choice)
    assert {**after, **restore_words(parse(MAIN, after.get), conf)} == files


@given(configurations(with_default=True), choices, choices)
def test_words_come_back_into_a_file_that_others_changed_meanwhile(
    files: dict[str, str], choice: dict[str, str | None], theirs: dict[str, str | None]
) -> None:
    conf, after, _ = applied(files, choice)
    _, after, _ = applied(after, theirs)
    after[MAIN] = "# theirs\n" + after[MAIN].lstrip("\ufeff") + "\nPartitionName=new Topology=tree\n"
    now = parse(MAIN, after.get)
    restored = parse(MAIN, {**after, **restore_words(now, conf)}.get)
    assert restored.words() == {**conf.words(), "new": "tree"}
    assert restored.files[0].text.startswith("# theirs\n")


@given(configurations(), st.sampled_from(["TopologyPlugin", "MaxJobCount"]), words, words)
def test_a_parameter_added_changed_and_removed_leaves_no_trace(
    files: dict[str, str], key: str, first: str, second: str
) -> None:
    added = set_parameter(files[MAIN], key, first)
    assert conf_of(added, files[PARTS]).parameters[key.lower()] == first
    changed = set_parameter(added, key, second)
    assert conf_of(changed, files[PARTS]).parameters[key.lower()] == second
    assert set_parameter(changed, key, first) == added
    assert set_parameter(changed, key, None) == files[MAIN]


lines = st.lists(
    st.sampled_from(
        ["PartitionName=a", " ", "\\", "\n", "\r\n", "#", '"', "Topology=", "Topology=x", "Nodes=n", "\\\\", "\t"]
    )
)


@given(lines, st.none() | st.just("tree"))
def test_even_in_broken_files_an_edit_does_what_it_says_and_breaks_nothing_more(
    pieces: list[str], word: str | None
) -> None:
    text = "".join(pieces)
    conf = parse(MAIN, {MAIN: text}.get)
    if "a" not in conf.partitions:
        return
    now = parse(MAIN, {MAIN: text, **edit_words(conf, {"a": word})}.get)
    assert now.words()["a"] == word
    assert now.partitions["a"].nodes_text == conf.partitions["a"].nodes_text
    assert now.partitions.keys() == conf.partitions.keys()
    assert len(now.issues) <= len(conf.issues)


def test_words_in_a_file_of_16384_nodes_change_at_once() -> None:
    nodes = "".join(f"NodeName=ip-10-1-{i // 250}-{i % 250} State=CLOUD\n" for i in range(16_384))
    text = nodes + "".join(f"PartitionName=p{i} Nodes=ALL\n" for i in range(50))
    conf = conf_of(text)
    names = [f"p{i}" for i in range(50)]
    random.Random(1).shuffle(names)
    begin = time.process_time()
    after = edit_words(conf, dict.fromkeys(names, "tree"))
    assert time.process_time() - begin < 0.3
    assert after[MAIN].count(" Topology=tree\n") == 50
