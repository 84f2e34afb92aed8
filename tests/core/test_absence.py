from __future__ import annotations

from typing import Any

import pytest

from topology_plugin.core import absence


def test_a_record_is_due_after_an_hour_of_absence_on_this_clock() -> None:
    first = absence.note({"a", "b"}, {"a"}, {}, 1000.0)
    assert (first.since, first.due) == ({"b": 1000.0}, ())
    assert absence.note({"a", "b"}, {"a"}, first.since, 4599.0).due == ()
    assert absence.note({"a", "b"}, {"a"}, first.since, 4600.0).due == ("b",)


def test_who_was_here_in_between_starts_anew() -> None:
    first = absence.note({"b"}, set(), {}, 1000.0)
    second = absence.note({"b"}, {"b"}, first.since, 3000.0)
    assert second.since == {}
    assert absence.note({"b"}, set(), second.since, 5000.0).due == ()


@pytest.mark.parametrize("seconds", [-646.0, -1e9])
def test_br_26_a_clock_that_was_set_back_makes_the_wait_longer_never_shorter(seconds: float) -> None:
    first = absence.note({"b"}, set(), {}, 1e9)
    second = absence.note({"b"}, set(), first.since, 1e9 + seconds)
    assert second.due == ()
    assert absence.note({"b"}, set(), second.since, 1e9 + seconds + 3599).due == ()
    assert absence.note({"b"}, set(), second.since, 1e9 + seconds + 3600).due == ("b",)


def test_a_record_that_is_gone_is_forgotten() -> None:
    assert absence.note(set(), set(), {"b": 1.0}, 1e9).since == {}


@pytest.mark.parametrize(
    ("document", "expected"),
    [
        ({"absent_since": {"i-1": 5, "i-2": 5.5}}, {"i-1": 5.0, "i-2": 5.5}),
        ({"absent_since": {"i-1": "5", "i-2": None, "i-3": True, "i-4": float("nan")}}, {}),
        ({"absent_since": []}, {}),
        ([], {}),
        (None, {}),
    ],
)
def test_a_memory_that_cannot_be_read_begins_the_wait_anew(document: Any, expected: dict[str, float]) -> None:
    assert absence.parse(document) == expected
