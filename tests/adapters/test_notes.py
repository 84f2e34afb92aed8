"""Notes: in two places, and the better copy counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fakes import Quick
from topology_plugin.adapters.files import RealFiles
from topology_plugin.adapters.notes import HOLD, Notes


@pytest.fixture
def places(tmp_path: Path) -> tuple[Path, Path]:
    (tmp_path / "fsx").mkdir()
    return tmp_path / "fsx", tmp_path / "state"


def opened(places: tuple[Path, Path]) -> Notes:
    return Notes(RealFiles(Quick()), *places)


def test_notes_are_read_from_the_registry_first_and_written_to_both(places: tuple[Path, Path]) -> None:
    notes = opened(places)
    assert notes.note(HOLD) is None
    notes.save_note(HOLD, {"reason": "a"})
    (places[1] / HOLD).write_text('{"reason": "b"}')
    assert notes.note(HOLD) == {"reason": "a"}
    (places[0] / HOLD).unlink()
    assert notes.note(HOLD) == {"reason": "b"}
    notes.remove_note(HOLD)
    assert notes.note(HOLD) is None


def test_of_two_states_the_one_after_more_passes_counts(places: tuple[Path, Path]) -> None:
    """The registry could not be written for a while: what it holds is old."""
    notes = opened(places)
    notes.save_state({"counters": {"passes": 3}})
    (places[1] / "state.json").write_text('{"counters": {"passes": 9}}')
    assert opened(places).load_state() == {"counters": {"passes": 9}}
    (places[1] / "state.json").write_text("{")
    assert opened(places).load_state() == {"counters": {"passes": 3}}


def test_a_note_that_says_the_same_is_not_written_again(places: tuple[Path, Path]) -> None:
    notes = opened(places)
    notes.save_note(HOLD, {"reason": "a"})
    before = [(place / HOLD).stat().st_ino for place in places]
    notes.save_note(HOLD, {"reason": "a"})
    assert [(place / HOLD).stat().st_ino for place in places] == before
