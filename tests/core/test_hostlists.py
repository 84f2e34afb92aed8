from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from topology_plugin.core.hostlists import MAX_NAMES, MAX_RANGE, HostlistError, expand, fold, node_order


def hyperpod_names(count: int) -> list[str]:
    return [f"ip-10-{2 + i // 62500}-{i // 250 % 250}-{i % 250 + 1}" for i in range(count)]


# Each line was given to `scontrol show hostnames` of 26.05; the names are what it printed.
EXPANDED = {
    "a name": ("login", ["login"]),
    "a list": ("b,a,b", ["b", "a", "b"]),
    "empty pieces vanish": (",a,,b,", ["a", "b"]),
    "blanks separate": ("a  b\tc\nd", ["a", "b", "c", "d"]),
    "nothing": ("", []),
    "separators only": (" ,, ", []),
    "a range": ("a[1-3]", ["a1", "a2", "a3"]),
    "numbers and ranges": ("a[1,3-4]", ["a1", "a3", "a4"]),
    "order and duplicates stay": ("a[2,1,2]", ["a2", "a1", "a2"]),
    "padding": ("a[01-3]", ["a01", "a02", "a03"]),
    "padding outgrown": ("a[09-10]", ["a09", "a10"]),
    "the first number sets the width": ("a[9-010]", ["a9", "a10"]),
    "wider first number": ("a[001-10]", [f"a{i:03d}" for i in range(1, 11)]),
    "zero": ("a[0,00]", ["a0", "a00"]),
    "suffix": ("a[1-2]-ib", ["a1-ib", "a2-ib"]),
    "digits behind": ("a[1-2]7", ["a17", "a27"]),
    "numbers alone": ("[1-3]", ["1", "2", "3"]),
    "two groups": ("a[1-2]b[3-4]", ["a1b3", "a1b4", "a2b3", "a2b4"]),
    "two groups without text between": ("a[1-2][3-4]", ["a13", "a14", "a23", "a24"]),
    "two groups and a list": ("a[1-2]b[3-4],c[1-2]d", ["a1b3", "a1b4", "a2b3", "a2b4", "c1d", "c2d"]),
    "three groups: the last runs fastest, then the first": (
        "a[1-2]b[3-4]c[5-6]e",
        ["a1b3c5e", "a1b3c6e", "a2b3c5e", "a2b3c6e", "a1b4c5e", "a1b4c6e", "a2b4c5e", "a2b4c6e"],
    ),
    "an open end is the number alone": ("a[1-]", ["a1"]),
    "a sign counts as a digit": ("a[+1]", ["a01"]),
    "20 digits": ("a12345678901234567890", ["a12345678901234567890"]),
    "many zeros": ("a[00000000000000000001]", ["a00000000000000000001"]),
    "above 64 bits Slurm clamps": ("a[99999999999999999999]", ["a18446744073709551615"]),
    "above 64 bits outside brackets too": ("a18446744073709551616", ["a18446744073709551615"]),
}


@pytest.mark.parametrize(("text", "names"), EXPANDED.values(), ids=EXPANDED)
def test_a_list_expands_as_in_slurm(text: str, names: list[str]) -> None:
    assert expand(text) == names


REFUSED = {
    "open bracket": ("a[1-2", "unbalanced"),
    "open bracket later": ("b1,a[1", "unbalanced"),
    "second bracket open": ("a[1-2]b[3", "unbalanced"),
    "list cut off in a bracket": ("a[1,b", "unbalanced"),
    "closing bracket alone": ("a1-3]", "unbalanced"),
    "nested": ("a[[1-2]]", "nested"),
    "descending": ("a[3-1]", "descending"),
    "empty bracket": ("a[]", "invalid range ''"),
    "empty piece in a bracket": ("a[1,,2]", "invalid range ''"),
    "comma at the end of a bracket": ("a[1,]", "invalid range ''"),
    "blank in a bracket": ("a[1 2]", "invalid range '1 2'"),
    "two minus signs": ("a[1--2]", "invalid range"),
    "three numbers": ("a[1-2-3]", "invalid range"),
    "negative": ("a[-1]", "invalid range"),
    "letters": ("a[x]", "invalid range"),
    "hexadecimal": ("a[0x1]", "invalid range"),
    "one number too many": (f"a[1-{MAX_RANGE + 1}]", "more than 65536"),
    "billions of names": ("a[1-65536]b[1-65536]", f"more than {MAX_NAMES} names"),
    "hostlist function": ("switch{s1}", "hostlist function"),
}


@pytest.mark.parametrize(("text", "what"), REFUSED.values(), ids=REFUSED)
def test_a_malformed_list_is_refused_with_where_what_and_remedy(text: str, what: str) -> None:
    with pytest.raises(HostlistError) as caught:
        expand(text)
    issue = caught.value.issue
    assert what in issue.what
    assert text[:20] in issue.where
    assert issue.remedy


def test_a_range_may_have_65536_numbers() -> None:
    names = expand(f"a[1-{MAX_RANGE}]")
    assert (len(names), names[-1]) == (MAX_RANGE, f"a{MAX_RANGE}")


FOLDED = {
    "consecutive": (["ip-10-1-1-11", "ip-10-1-1-12", "ip-10-1-1-13"], "ip-10-1-1-[11-13]"),
    "one": (["ip-10-1-1-11"], "ip-10-1-1-11"),
    "none": ([], ""),
    "only the last number folds": (["x1y1", "x1y2", "x2y1"], "x1y[1-2],x2y1"),
    "any order": (["a3", "a1", "a2"], "a[1-3]"),
    "numbers sort as numbers": (["a10", "a9", "a11", "a1"], "a[1,9-11]"),
    "prefixes sort as numbers": (["ip-10-10-2-1", "ip-10-3-2-1"], "ip-10-3-2-1,ip-10-10-2-1"),
    "padding": (["a09", "a10", "a08"], "a[08-10]"),
    "padded and plain": (["a1", "a2", "a02", "a03"], "a[1-2,02-03]"),
    "three widths": (["a001", "a01", "a1"], "a[1,01,001]"),
    "zero is plain": (["a0", "a1", "a10"], "a[0-1,10]"),
    "zeros of several widths": (["a0", "a00", "a000"], "a[0,00,000]"),
    "no digits": (["login", "compute"], "compute,login"),
    "with and without digits": (["n", "n1", "n2"], "n,n[1-2]"),
    "suffixes do not fold": (["a1x", "a2x"], "a1x,a2x"),
    "names that are numbers": (["1", "2", "3"], "[1-3]"),
    "duplicates stay": (["a1", "a1", "a2"], "a[1,1-2]"),
    "duplicates without digits": (["b", "b"], "b,b"),
    "15 digits fold": (["a100000000000001", "a100000000000002"], "a[100000000000001-100000000000002]"),
    "16 digits stay outside": (["a1000000000000001", "a1000000000000002"], "a1000000000000001,a1000000000000002"),
    "long and short": (["a1", "a2", "a10000000000000000001"], "a[1-2],a10000000000000000001"),
    "hyperpod instance names": (["worker-a-2", "worker-a-12", "worker-a-1"], "worker-a-[1-2,12]"),
}


@pytest.mark.parametrize(("names", "text"), FOLDED.values(), ids=FOLDED)
def test_names_fold(names: list[str], text: str) -> None:
    assert fold(names) == text
    assert Counter(expand(text)) == Counter(names)


@pytest.mark.parametrize("name", ["", "a,b", "a b", "a[1", "a]", "a{b}", "a\n"])
def test_what_no_list_can_hold_is_refused(name: str) -> None:
    with pytest.raises(HostlistError, match="no node name"):
        fold(["n1", name])


def test_no_range_gets_more_numbers_than_slurm_takes() -> None:
    names = [f"n{i}" for i in range(1, 2 * MAX_RANGE + 2)]
    text = fold(names)
    assert text == "n[1-65536,65537-131072,131073]"
    assert expand(text) == names


prefixes = st.text("ab-.019", max_size=6) | st.sampled_from(["ip-10-3-17-", "worker-a-", "n", ""])
tails = st.one_of(
    st.integers(0, 120).map(str),
    st.integers(0, 12).map(lambda number: f"{number:02d}"),
    st.integers(95, 105).map(lambda number: f"{number:03d}"),
    st.integers(10**14, 10**18).map(str),
    st.just(""),
    st.text("01", min_size=1, max_size=19),
)
# Slurm itself cannot tell names apart whose number needs more than 64 bits.
names = st.builds("".join, st.tuples(prefixes, tails)).filter(lambda name: name and expand(name) == [name])


@given(st.lists(names, max_size=60))
def test_folding_loses_and_invents_nothing(given_names: list[str]) -> None:
    assert Counter(expand(fold(given_names))) == Counter(given_names)


@given(st.lists(names, max_size=30), st.randoms())
def test_the_same_set_gives_the_same_bytes(given_names: list[str], shuffled: random.Random) -> None:
    other = list(given_names)
    shuffled.shuffle(other)
    assert fold(other) == fold(given_names)


@given(st.lists(names, max_size=30))
def test_folding_twice_changes_nothing(given_names: list[str]) -> None:
    text = fold(given_names)
    assert fold(expand(text)) == text


@given(st.text("a1[]-, 0{}9x", max_size=40))
def test_any_text_expands_or_is_refused_plainly(text: str) -> None:
    try:
        expanded = expand(text)
    except HostlistError:
        return
    assert all(expanded)
    assert not set("[], ") & set("".join(expanded))


def test_node_order_counts_in_every_place() -> None:
    names = ["b-10-1", "a10b", "b-2-10", "a10", "a2", "a1", "b-2-1", "a"]
    assert sorted(names, key=node_order) == ["a", "a1", "a2", "a10", "a10b", "b-2-1", "b-2-10", "b-10-1"]


def test_node_order_tells_all_names_apart() -> None:
    assert sorted(["n01", "n1", "n001"], key=node_order) == sorted(["n1", "n001", "n01"], key=node_order)


def test_absurdly_long_numbers_do_no_harm() -> None:
    name = "n" + "9" * 5000
    assert fold([name, "n1"]) == f"n1,{name}"
    assert expand(name) == ["n" + "0" * 4980 + "18446744073709551615"]


def test_text_made_to_backtrack_is_judged_at_once() -> None:
    begin = time.perf_counter()
    for text in ("a" * 20_000 + "]", "a[1]" * 20_000 + "[", "[" * 20_000):
        with pytest.raises(HostlistError):
            expand(text)
    assert time.perf_counter() - begin < 2


def test_ten_thousand_hyperpod_names_fold_within_60_ms() -> None:
    shuffled = hyperpod_names(10_000)
    random.Random(1).shuffle(shuffled)

    def seconds(call: Callable[[], object]) -> float:
        """The test's own CPU time, as others may be using the machine."""
        begin = time.process_time()
        call()
        return time.process_time() - begin

    def ordered() -> list[str]:
        return sorted(shuffled, key=lambda name: [int(part) for part in name[3:].split("-")])

    times = [(seconds(ordered), seconds(lambda: fold(shuffled))) for _ in range(5)]
    plain, whole = map(min, zip(*times, strict=True))
    assert expand(fold(shuffled)) == ordered() == hyperpod_names(10_000)
    assert whole < max(0.06, 1.8 * plain)  # sorting takes 0.033 s where 0.06 s was set
