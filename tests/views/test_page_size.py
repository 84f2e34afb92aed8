"""The page of 16,384 nodes: what it weighs and how quick it is."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.states import inventory, live, state
from tests.views.browser import Browser
from tests.views.paging import small, written
from topology_plugin.views.page import page
from topology_plugin.views.scene import arrange


@pytest.fixture(scope="module")
def big(directory: Path) -> tuple[Path, float]:
    """16,384 nodes under 1,041 switches; and the CPU seconds that building the page took."""
    of = state(inventory(16_384, 0, 0, per_leaf=16, leaves=64))
    seen = live(of)
    began = time.process_time()
    path = written(directory, of, seen, "big.html")
    return path, time.process_time() - began


def test_a_page_of_16384_nodes_is_built_in_3_seconds_and_8_megabytes(big: tuple[Path, float]) -> None:
    path, seconds = big
    assert path.stat().st_size < 8_000_000
    assert seconds < 3


def test_16384_nodes_load_in_2_seconds_and_stay_quick(browser: Browser, big: tuple[Path, float]) -> None:
    """Seconds are the page's own CPU time (this machine may be busy with other tests)."""
    page_ = browser.open(big[0])
    page_.call("Performance.enable", timeDomain="threadTicks")
    print(f"loaded {page_.seconds:.2f} s after navigation")
    page_.call("Page.reload")
    page_.wait("document.documentElement?.dataset.ready === '1'")
    page_.frame()

    def busy() -> float:
        metrics = page_.call("Performance.getMetrics")["metrics"]
        return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

    assert busy() < 2
    before = busy()
    page_.key("/")
    page_.type("llama")
    assert page_.evaluate("document.querySelectorAll('#stage i.n.hit').length") == 16
    assert busy() - before < 1
    assert page_.evaluate("document.querySelectorAll('i.n').length") < 16_384  # only what is near the screen
    assert page_.errors() == []


def test_every_cell_of_16384_appears_when_it_is_scrolled_to(browser: Browser, big: tuple[Path, float]) -> None:
    page_ = browser.open(big[0])
    page_.evaluate("scrollTo(0, document.body.scrollHeight)")
    page_.frame()
    shown = page_.evaluate(
        "[...document.querySelectorAll('#stage .cells')].filter(b => { const r = b.getBoundingClientRect();"
        " return r.bottom > 0 && r.top < innerHeight; }).map(b => b.children.length)"
    )
    assert shown and all(count == 16 for count in shown)


def test_the_data_is_compact() -> None:
    of = small()
    data = page(arrange(of, live(of))).split('type="application/json">')[1].split("</script>")[0]
    assert "<" not in data
    assert len(json.loads(data)["nodes"]["name"]) == 125 and len(data) < 30_000
