from __future__ import annotations

import gc

import pytest

from topology_plugin.adapters.collector import paused


def collections_after(made: int) -> int:
    """How many collections the first objects after a pause that made so many set off."""
    seen: list[str] = []
    gc.collect()
    with paused():
        kept = [[number] for number in range(made)]
    gc.callbacks.append(lambda phase, info: seen.append(phase) if phase == "start" else None)
    try:
        _ = [[] for _ in range(10)]
    finally:
        gc.callbacks.pop()
    assert len(kept) == made
    return len(seen)


def test_what_was_made_in_a_pause_sets_off_no_collection_after_it() -> None:
    assert collections_after(100_000) == 0


def test_a_cycle_made_in_a_pause_is_found_by_a_later_collection() -> None:
    class Link:
        other: Link

    with paused():
        one, two = Link(), Link()
        one.other, two.other = two, one
        del one, two
    assert gc.collect() >= 2


@pytest.mark.parametrize("enabled", [True, False])
def test_a_pause_leaves_the_collector_as_it_was(enabled: bool) -> None:
    was = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with paused(), paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if was else gc.disable)()
