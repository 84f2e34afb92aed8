"""The page, opened in a real browser: what an operator sees and clicks."""

from __future__ import annotations

from tests.views.browser import Page
from tests.views.paging import cell


def test_it_opens_without_an_error_and_asks_nobody_for_anything(opened: Page) -> None:
    assert opened.errors() == [] and opened.requests() == []
    assert opened.text("#cluster") == "abc123def456"
    assert "Pending change" in opened.text("#panel") and "a change" in opened.text("#panel")


def test_it_opens_with_the_largest_partition_that_has_structure(opened: Page) -> None:
    assert opened.text("#stage h2") == "train"
    assert opened.evaluate("document.querySelectorAll('#stage .cells i.n').length") == 64
    facts = " ".join(opened.text("#stage .facts").split())
    assert (
        "64 nodes 8 leaves 1 unplaced 41 of 64 idle now 8 idle in one leaf, at most 30 idle under one switch" in facts
    )


def test_idle_room_stands_on_every_leaf_and_switch(opened: Page) -> None:
    rooms = opened.evaluate("[...document.querySelectorAll('#stage .leaf .room')].map(e => e.innerText)")
    assert sorted(rooms) == sorted(["8/8", "8/8", "8/8", "6/8", "5/8", "6/8", "0/8", "0/7"])
    switches = opened.evaluate("[...document.querySelectorAll('#stage .switch > .uh .room')].map(e => e.innerText)")
    assert switches == ["30 idle of 32", "11 idle of 31", "0 idle of 1"]


def test_a_click_on_a_node_shows_its_record_answers_and_job(opened: Page) -> None:
    opened.click(cell("ip-10-1-0-31"))
    words = opened.text("#selection")
    for part in (
        "ip-10-1-0-31",
        "Kicked by health check: NVLink",
        "i-0a00000000000001e",
        "ml.p5.48xlarge",
        "dev, train",
    ):
        assert part in words
    assert "resource-config" in words and "not an UltraServer" in words and "UnauthorizedOperation" in words
    opened.click(cell("ip-10-1-0-1"))
    assert "101 llama-pretrain (ana)" in opened.text("#selection")
    opened.click("#close")
    assert opened.evaluate("document.getElementById('selection')") is None


def test_an_unplaced_node_says_why_on_click(opened: Page) -> None:
    opened.click(cell("ip-10-1-0-4"))
    assert "no source knows its position" in opened.text("#selection")


def test_hovering_names_node_state_job_and_place(opened: Page) -> None:
    opened.hover(cell("ip-10-1-0-1"))
    words = opened.text("#tip")
    assert words.splitlines()[:3] == ["ip-10-1-0-1", "allocated", "job 101 llama-pretrain · 16 nodes"]
    assert "root ›" in words


def test_a_click_on_a_leaf_shows_its_room_and_jobs(opened: Page) -> None:
    opened.evaluate("[...document.querySelectorAll('#stage .leaf .uh')].find(b => b.innerText.includes('5/8')).click()")
    words = opened.text("#selection")
    assert "leaf of tree" in words and "102 eval: 3 of 5 nodes" in words


def test_generations_and_pending_changes_are_listed_with_what_changed(opened: Page) -> None:
    words = opened.text("#panel")
    assert "block us-0001 shrinks from 18 to 17 nodes" in words and "partition train: flat → tree" in words
    assert words.index("shrinks") < words.index("flat → tree")
