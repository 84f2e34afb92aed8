from __future__ import annotations

import difflib
import random
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core.slurm_conf import SlurmConf, parse
from topology_plugin.core.slurm_conf_edits import (
    clear_words,
    edit_parameter,
    edit_words,
    restore_words,
    set_parameter,
    set_partition_word,
)

MAIN = "/etc/slurm/slurm.conf"
PARTS = "/etc/slurm/parts.conf"


def conf_of(text: str, parts: str = "") -> SlurmConf:
    return parse(MAIN, {MAIN: text, PARTS: parts}.get)


# text, word, text with it
WORDS = {
    "added at the end": ("PartitionName=p Nodes=ALL\n", "tree", "PartitionName=p Nodes=ALL Topology=tree\n"),
    "added without a final newline": ("PartitionName=p Nodes=ALL", "tree", "PartitionName=p Nodes=ALL Topology=tree"),
    "added before CRLF": ("PartitionName=p Nodes=ALL\r\n", "tree", "PartitionName=p Nodes=ALL Topology=tree\r\n"),
    "added before a comment": (
        "PartitionName=p Nodes=ALL   # all of them\n",
        "tree",
        "PartitionName=p Nodes=ALL Topology=tree   # all of them\n",
    ),
    "added before a comment glued on": (
        "PartitionName=p Nodes=a#c\n",
        "tree",
        "PartitionName=p Nodes=a Topology=tree#c\n",
    ),
    "added before blanks": ("PartitionName=p Nodes=a \t \n", "tree", "PartitionName=p Nodes=a Topology=tree \t \n"),
    "added to a continued line": (
        "PartitionName=p \\\n  Nodes=a \\\n  State=UP\nNodeName=a\n",
        "tree",
        "PartitionName=p \\\n  Nodes=a \\\n  State=UP Topology=tree\nNodeName=a\n",
    ),
    "added before an idle continuation": (
        "PartitionName=p Nodes=a \\\n\n",
        "tree",
        "PartitionName=p Nodes=a Topology=tree \\\n\n",
    ),
    "added behind quotes": ('PartitionName=p Nodes="a,b"\n', "tree", 'PartitionName=p Nodes="a,b" Topology=tree\n'),
    "added behind an escape": ("PartitionName=p QOS=a\\#\n", "tree", "PartitionName=p QOS=a\\# Topology=tree\n"),
    "added behind a byte order mark": ("\ufeffPartitionName=p\n", "tree", "\ufeffPartitionName=p Topology=tree\n"),
    "changed": ("PartitionName=p Topology=tree Nodes=a\n", "block", "PartitionName=p Topology=block Nodes=a\n"),
    "changed in its spelling": (
        "PartitionName=p TOPOLOGY = tree Nodes=a\n",
        "block",
        "PartitionName=p TOPOLOGY = block Nodes=a\n",
    ),
    "changed in its quotes": (
        'PartitionName=p Topology="tree" Nodes=a\n',
        "block",
        'PartitionName=p Topology="block" Nodes=a\n',
    ),
    "changed before a comment": ("PartitionName=p Topology=tree#c\n", "block", "PartitionName=p Topology=block#c\n"),
    "changed where it is continued": (
        "PartitionName=p Topol\\\nogy=tr\\\nee State=UP\n",
        "block",
        "PartitionName=p Topol\\\nogy=block State=UP\n",
    ),
    "the last of two changes": (
        "PartitionName=p Topology=a Topology=b\n",
        "c",
        "PartitionName=p Topology=a Topology=c\n",
    ),
    "an empty one is filled": (
        "PartitionName=p Topology= Nodes=a\n",
        "tree",
        "PartitionName=p Topology=tree Nodes=a\n",
    ),
    "an empty one at the end": ("PartitionName=p Topology=\n", "tree", "PartitionName=p Topology=tree\n"),
    "empty quotes are filled": (
        'PartitionName=p Topology="" Nodes=a\n',
        "tree",
        'PartitionName=p Topology="tree" Nodes=a\n',
    ),
    "removed": ("PartitionName=p Nodes=a Topology=tree\n", None, "PartitionName=p Nodes=a\n"),
    "removed from the middle": ("PartitionName=p  Topology=tree  Nodes=a\n", None, "PartitionName=p  Nodes=a\n"),
    "removed before CRLF": ("PartitionName=p Topology=tree\r\n", None, "PartitionName=p\r\n"),
    "removed before a comment": ("PartitionName=p Topology=tree # c\n", None, "PartitionName=p # c\n"),
    "removed from a continued line": (
        "PartitionName=p \\\n  Topology=tree \\\n  Nodes=a\n",
        None,
        "PartitionName=p \\\n \\\n  Nodes=a\n",
    ),
    "removed where it is continued": (
        "PartitionName=p Topol\\\nogy=tr\\\nee State=UP\n",
        None,
        "PartitionName=p State=UP\n",
    ),
    "both of two are removed": ("PartitionName=p Topology=a Topology=b\n", None, "PartitionName=p\n"),
    "an empty one is removed": ("PartitionName=p Topology= Nodes=a\n", None, "PartitionName=p Nodes=a\n"),
    "an empty one at the end is removed": ("PartitionName=p Nodes=a Topology=\n", None, "PartitionName=p Nodes=a\n"),
    "a backslash left behind would join lines": (
        "PartitionName=p Nodes=a\\ Topology=tree\nNodeName=a\n",
        None,
        "PartitionName=p Nodes=a\nNodeName=a\n",
    ),
    "nothing to remove": (
        "PartitionName=p   Nodes=a # Topology=tree\n",
        None,
        "PartitionName=p   Nodes=a # Topology=tree\n",
    ),
    "already there": ("PartitionName=p\tTopology=tree  Nodes=a\n", "tree", "PartitionName=p\tTopology=tree  Nodes=a\n"),
    "others stay": (
        "PartitionName=pp Topology=x\n#PartitionName=p\nNodeName=p\n  partitionname=p\nPartitionName=P\n",
        "tree",
        "PartitionName=pp Topology=x\n#PartitionName=p\nNodeName=p\n  partitionname=p Topology=tree\nPartitionName=P\n",
    ),
    "only the first of two lines": (
        "PartitionName=p\nPartitionName=p Topology=x\n",
        "tree",
        "PartitionName=p Topology=tree\nPartitionName=p Topology=x\n",
    ),
}


@pytest.mark.parametrize(("text", "word", "after"), WORDS.values(), ids=WORDS)
def test_one_word_changes_and_nothing_else(text: str, word: str | None, after: str) -> None:
    assert set_partition_word(text, "p", word) == after
    assert set_partition_word(after, "p", word) == after
    assert parse(MAIN, {MAIN: after}.get).words()["p"] == word


def test_the_default_lines_are_addressed_as_one() -> None:
    text = "PartitionName=default Topology=a\nPartitionName=p\nPartitionName=DEFAULT Topology=b\n"
    assert (
        set_partition_word(text, "DEFAULT", None) == "PartitionName=default\nPartitionName=p\nPartitionName=DEFAULT\n"
    )


def test_a_partition_that_is_not_there_is_a_key_error() -> None:
    with pytest.raises(KeyError):
        set_partition_word("PartitionName=p\n", "q", "tree")
    with pytest.raises(KeyError):
        edit_words(conf_of("PartitionName=p\n"), {"q": "tree"})
    with pytest.raises(KeyError):
        edit_words(conf_of("PartitionName=p\n"), {"q": None})


@pytest.mark.parametrize("word", ["", " ", "a b", 'a"', "a#", "a\\", "a=b", "a\n"])
def test_a_word_that_would_break_the_file_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="cannot stand in slurm"):
        set_partition_word("PartitionName=p\n", "p", word)
    with pytest.raises(ValueError, match="cannot stand in slurm"):
        edit_words(conf_of("PartitionName=p\n"), {"p": word})
    with pytest.raises(ValueError, match="cannot stand in slurm"):
        set_parameter("", "TopologyPlugin", word)


def test_only_files_that_change_are_returned_each_with_its_own_lines() -> None:
    conf = conf_of("Include parts.conf\nPartitionName=a\n", "PartitionName=b Nodes=ALL # b\r\n")
    assert edit_words(conf, {"b": "tree"}) == {PARTS: "PartitionName=b Nodes=ALL Topology=tree # b\r\n"}
    assert edit_words(conf, {"a": "tree"}) == {MAIN: "Include parts.conf\nPartitionName=a Topology=tree\n"}
    assert edit_words(conf, {"a": None, "b": None}) == {}
    assert edit_words(conf, {}) == {}


# text, words, text after; partitions a, b, c stand below a DEFAULT with a word
INHERITED = {
    "who inherits the right word is not touched": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=b\n",
        {"a": "tree", "b": "block"},
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=b Topology=block\n",
    ),
    "a word that differed goes when the inherited one is right again": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=block\n",
        {"a": "tree"},
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\n",
    ),
    "a word that repeats the inherited one stays": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=tree\n",
        {"a": "tree"},
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=tree\n",
    ),
    "none for one: the others get the word on their own lines": (
        "PartitionName=DEFAULT Topology=t MaxTime=1\nPartitionName=a\nPartitionName=b\nPartitionName=c Topology=flat\n",
        {"a": None},
        "PartitionName=DEFAULT MaxTime=1\nPartitionName=a\nPartitionName=b Topology=t\nPartitionName=c Topology=flat\n",
    ),
    "none for one with a word of its own": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a Topology=block\n",
        {"a": None},
        "PartitionName=DEFAULT\nPartitionName=a\n",
    ),
    "several defaults": (
        "PartitionName=DEFAULT Topology=tree\nPartitionName=a\nPartitionName=DEFAULT Topology=flat\nPartitionName=b\n",
        {"b": None},
        "PartitionName=DEFAULT\nPartitionName=a Topology=tree\nPartitionName=DEFAULT\nPartitionName=b\n",
    ),
    "defaults below do not matter": (
        "PartitionName=a\nPartitionName=DEFAULT Topology=tree\nPartitionName=b\n",
        {"a": None},
        "PartitionName=a\nPartitionName=DEFAULT Topology=tree\nPartitionName=b\n",
    ),
    "an empty default is mended": (
        "PartitionName=DEFAULT Topology=\nPartitionName=a\nPartitionName=b\n",
        {"a": None},
        "PartitionName=DEFAULT\nPartitionName=a\nPartitionName=b\n",
    ),
}


@pytest.mark.parametrize(("text", "words", "after"), INHERITED.values(), ids=INHERITED)
def test_inherited_words_count(text: str, words: dict[str, str | None], after: str) -> None:
    conf = conf_of(text)
    assert edit_words(conf, words).get(MAIN, text) == after
    wanted = {**conf.words(), **words}
    assert conf_of(after).words() == wanted
    assert edit_words(conf_of(after), words) == {}


def test_a_default_in_another_file_is_cleared_there() -> None:
    conf = conf_of("Include parts.conf\nPartitionName=a\nPartitionName=b\n", "PartitionName=DEFAULT Topology=tree\n")
    assert edit_words(conf, {"a": None}) == {
        MAIN: "Include parts.conf\nPartitionName=a\nPartitionName=b Topology=tree\n",
        PARTS: "PartitionName=DEFAULT\n",
    }


def test_all_words_can_be_cleared_even_where_slurmctld_does_not_start() -> None:
    text = (
        "PartitionName=DEFAULT Topology=\nPartitionName=a Topology= Nodes=n1\nPartitionName=a Topology=tree\n"
        'PartitionName=b Topology="" # Topology=x\nNodeName=n1 Topology=tree:s1\nInclude gone.conf\n'
    )
    assert clear_words(conf_of(text)) == {
        MAIN: "PartitionName=DEFAULT\nPartitionName=a Nodes=n1\nPartitionName=a\n"
        "PartitionName=b # Topology=x\nNodeName=n1 Topology=tree:s1\nInclude gone.conf\n"
    }


@pytest.mark.parametrize("word", [None, "tree"])
def test_a_word_comes_back_wherever_on_its_line_it_stood(word: str | None) -> None:
    text = '# top\nPartitionName=p  topology = "x"  Nodes=a # c\r\nPartitionName=q\n'
    former = conf_of(text)
    changed = conf_of(edit_words(former, {"p": word, "q": "tree"})[MAIN])
    assert restore_words(changed, former) == {MAIN: text}
    assert restore_words(former, former) == {}


def test_what_others_changed_meanwhile_stays_when_words_come_back() -> None:
    former = conf_of("PartitionName=p Topology=x Nodes=a\nPartitionName=q\nPartitionName=gone Topology=x\n")
    now = conf_of(
        "# theirs\nPartitionName=new Topology=y\nPartitionName=p Nodes=a,b\nPartitionName=q Topology=tree # n\n"
    )
    assert restore_words(now, former) == {
        MAIN: "# theirs\nPartitionName=new Topology=y\nPartitionName=p Nodes=a,b Topology=x\nPartitionName=q # n\n"
    }


def test_a_cleared_default_comes_back() -> None:
    text = "PartitionName=DEFAULT Topology=tree MaxTime=1\nPartitionName=a\nPartitionName=b\n"
    former = conf_of(text)
    changed = conf_of(edit_words(former, {"a": None, "b": "flat"})[MAIN])
    assert restore_words(changed, former) == {MAIN: text}


def test_a_partition_that_moved_to_another_file_gets_its_word_there() -> None:
    former = conf_of("Include parts.conf\nPartitionName=p\n", "PartitionName=q Topology=x\n")
    now = conf_of("Include parts.conf\nPartitionName=q\n", "PartitionName=p Topology=y\n")
    assert restore_words(now, former) == {
        MAIN: "Include parts.conf\nPartitionName=q Topology=x\n",
        PARTS: "PartitionName=p\n",
    }


# text, value, text with TopologyPlugin at that value
PARAMETERS = {
    "changed": ("A=1\nTopologyPlugin=x # c\nB=2\n", "y", "A=1\nTopologyPlugin=y # c\nB=2\n"),
    "changed in its spelling": (" topologyplugin = \t x\r\n", "y", " topologyplugin = \t y\r\n"),
    "changed in its quotes": ('TopologyPlugin="x"', "y", 'TopologyPlugin="y"'),
    "the last one changes": ("TopologyPlugin=x\nTopologyPlugin=z\n", "y", "TopologyPlugin=x\nTopologyPlugin=y\n"),
    "already there": ("TopologyPlugin=y\n", "y", "TopologyPlugin=y\n"),
    "changed where it is continued": ("Topology\\\nPlugin=x\\\nx\nA=1\n", "y", "Topology\\\nPlugin=y\nA=1\n"),
    "added behind the first line": ("# top\n\nA=1\nB=2\n", "y", "# top\n\nA=1\nTopologyPlugin=y\nB=2\n"),
    "added before a line without an end": ("# top\nA=1", "y", "# top\nTopologyPlugin=y\nA=1"),
    "added before a line left open": ("A=1 \\\n", "y", "TopologyPlugin=y\nA=1 \\\n"),
    "added behind a continued line": ("A=\\\n1\nB=2\n", "y", "A=\\\n1\nTopologyPlugin=y\nB=2\n"),
    "added with CRLF": ("A=1\r\nB=2\r\n", "y", "A=1\r\nTopologyPlugin=y\r\nB=2\r\n"),
    "added to nothing": ("", "y", "TopologyPlugin=y\n"),
    "added to comments": ("# c", "y", "TopologyPlugin=y\n# c"),
    "added behind a byte order mark": ("\ufeff# c", "y", "\ufeffTopologyPlugin=y\n# c"),
    "a comment is not one": ("A=1\n#TopologyPlugin=x\n", "y", "A=1\nTopologyPlugin=y\n#TopologyPlugin=x\n"),
    "removed": ("A=1\nTopologyPlugin=x\nB=2\n", None, "A=1\nB=2\n"),
    "all are removed": ("topologyplugin=x\nA=1\nTopologyPlugin=z", None, "A=1\n"),
    "a comment stays": ("TopologyPlugin=x # why\nA=1\n", None, " # why\nA=1\n"),
    "nothing to remove": ("A=1\n", None, "A=1\n"),
}


@pytest.mark.parametrize(("text", "value", "after"), PARAMETERS.values(), ids=PARAMETERS)
def test_one_parameter_changes_and_nothing_else(text: str, value: str | None, after: str) -> None:
    assert set_parameter(text, "TopologyPlugin", value) == after
    assert set_parameter(after, "topologyplugin", value) == after
    assert conf_of(after).parameters.get("topologyplugin") == value


def test_a_parameter_changes_in_the_file_whose_value_is_in_force() -> None:
    conf = conf_of("TopologyPlugin=x\nInclude parts.conf\n", "TopologyPlugin=z\n")
    assert edit_parameter(conf, "TopologyPlugin", "y") == {PARTS: "TopologyPlugin=y\n"}
    assert edit_parameter(conf, "TopologyPlugin", "z") == {}
    assert edit_parameter(conf, "TopologyPlugin", None) == {MAIN: "Include parts.conf\n", PARTS: ""}
    conf = conf_of("Include parts.conf\nTopologyPlugin=x\n", "TopologyPlugin=z\n")
    assert edit_parameter(conf, "TopologyPlugin", "y") == {MAIN: "Include parts.conf\nTopologyPlugin=y\n"}


def test_a_missing_parameter_goes_into_the_main_file() -> None:
    conf = conf_of("Include parts.conf\n", "A=1\n")
    assert edit_parameter(conf, "TopologyPlugin", "y") == {MAIN: "Include parts.conf\nTopologyPlugin=y\n"}


# Random configurations: partitions in two files, in every style Slurm reads.
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


@given(configurations(with_default=True))
def test_clearing_leaves_no_word_behind(files: dict[str, str]) -> None:
    cleared = {**files, **clear_words(parse(MAIN, files.get))}
    conf = parse(MAIN, cleared.get)
    assert set(conf.words().values()) == {None}
    assert clear_words(conf) == {}


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
