"""What the page finds, and what it lays over the nodes."""

from __future__ import annotations

import pytest

from tests.views.browser import Page
from tests.views.paging import cell


@pytest.mark.parametrize(
    ("query", "hits"),
    [
        ("ip-10-1-0-12", 1),
        ("i-0a000000000000005", 1),
        ("llama", 16),
        ("bo", 5),
        ("drained", 1),
        ("102", 5),
        ("no such", 0),
    ],
)
def test_search_finds_nodes_instances_states_jobs_and_users(opened: Page, query: str, hits: int) -> None:
    opened.key("/")
    opened.type(query)
    marked = opened.evaluate("document.querySelectorAll('#stage i.n.hit').length")
    assert (marked, opened.text("#found")) == (hits, str(hits) if hits else "0")
    opened.key("Escape")
    assert opened.evaluate("document.querySelectorAll('.hit').length") == 0 and opened.text("#found") == ""


def test_search_by_a_switch_marks_what_is_below_it(opened: Page) -> None:
    name = opened.evaluate("document.querySelector('#stage .leaf .uh').title")
    opened.key("/")
    opened.type(name)
    assert opened.evaluate("document.querySelectorAll('#stage i.n.hit').length") == 8


def test_search_goes_to_the_partition_that_has_the_match(opened: Page) -> None:
    opened.key("/")
    opened.type("ip-10-9-2-7")
    assert opened.text("#stage h2") == "ultra"  # dev has it too, but no structure
    assert opened.evaluate("document.querySelectorAll('#stage i.n.hit').length") == 1
    opened.key("Enter")
    assert "ip-10-9-2-7" in opened.text("#selection")


def test_a_job_is_laid_over_its_nodes_and_says_how_it_lies(opened: Page) -> None:
    jobs = opened.text("#panel")
    assert "3 leaves under 2 switches" in jobs and "48 nodes" in jobs and "Resources" in jobs
    opened.click('.job[data-j="1"]')
    assert opened.evaluate("document.querySelectorAll('#stage i.n.hit').length") == 5
    opened.click('.job[data-j="1"]')
    assert opened.evaluate("document.querySelectorAll('#stage i.n.hit').length") == 0


def test_colouring_by_job_gives_each_job_one_colour_of_its_own(opened: Page) -> None:
    opened.key("j")

    def colour(node: str) -> str:
        return str(opened.evaluate(f"getComputedStyle(document.querySelector('{cell(node)}')).backgroundColor"))

    assert colour("ip-10-1-0-1") == colour("ip-10-1-0-16") != colour("ip-10-1-0-21") == colour("ip-10-1-0-42")
