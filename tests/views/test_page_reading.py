"""The page can be read and used by everyone: keyboard, contrast, width, paper."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.states import inventory, live, state
from tests.views.browser import Browser, Page
from tests.views.paging import cell, small, written
from topology_plugin.core.live import Live


def test_it_can_be_used_with_the_keyboard_alone(opened: Page) -> None:
    opened.key("ArrowRight")
    first = opened.evaluate("document.activeElement.getAttribute('aria-label')")
    opened.key("ArrowRight")
    second = opened.evaluate("document.activeElement.getAttribute('aria-label')")
    assert first != second and opened.evaluate("document.activeElement.matches('i.n')")
    opened.key("ArrowDown")
    third = opened.evaluate("document.activeElement.getAttribute('aria-label')")
    assert third not in (first, second)
    opened.key("Enter")
    assert third.split(",")[0] in opened.text("#selection")
    opened.key("]")
    assert opened.text("#stage h2") == "ultra"
    opened.key("[")
    assert opened.text("#stage h2") == "train"


def test_the_theme_follows_the_system_and_can_be_turned(browser: Browser, directory: Path) -> None:
    of = small()
    path = written(directory, of, live(of), "theme.html")
    page_ = browser.open(path, dark=True)
    assert page_.evaluate("document.documentElement.dataset.theme") == "dark"
    dark = page_.evaluate("getComputedStyle(document.body).backgroundColor")
    page_.key("t")
    assert page_.evaluate("document.documentElement.dataset.theme") == "light"
    assert page_.evaluate("getComputedStyle(document.body).backgroundColor") != dark
    page_.evaluate("localStorage.clear()")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_all_text_can_be_read_in_both_themes(opened: Page, theme: str) -> None:
    """Contrast of every piece of text against what is behind it: 4.5 as WCAG asks (AA)."""
    opened.evaluate(f"document.documentElement.dataset.theme = '{theme}'")
    opened.click(cell("ip-10-1-0-31"))
    poor = opened.evaluate(CONTRAST)
    assert poor == []


@pytest.mark.parametrize(("width", "theme"), [(1600, "light"), (1100, "dark"), (400, "light")])
def test_a_small_partition_tells_every_name_whole(browser: Browser, directory: Path, width: int, theme: str) -> None:
    of = state(inventory(16, 0, 0))
    nodes = of.inventory.partitions["train"].nodes
    seen = Live(dict(zip(nodes, ["idle", "allocated", "mixed", "drained", "down", "draining"] * 3, strict=False)))
    page_ = browser.open(written(directory, of, seen, "names.html"), width, dark=theme == "dark")
    told = page_.evaluate(
        "[...document.querySelectorAll('#stage i.n b')].filter(b => b.scrollWidth <= b.parentElement.clientWidth)"
        ".map(b => b.innerText)"
    )
    assert sorted(told) == sorted(nodes)
    leaves = page_.evaluate(
        "[...document.querySelectorAll('#stage .leaf .uh')].map(b => [b.title, b.innerText.split(/\\s/)[0]])"
    )
    assert leaves and all(whole == shown for whole, shown in leaves)
    assert page_.evaluate("document.documentElement.scrollWidth <= innerWidth"), "it must be scrolled sideways"
    assert page_.evaluate(CONTRAST) == []
    page_.key("j")
    assert page_.evaluate(CONTRAST) == []


def test_print_has_every_node_of_the_partition_on_white(browser: Browser, directory: Path) -> None:
    of = state(inventory(768, 0, 0))
    page_ = browser.open(written(directory, of, live(of), "print.html"), dark=True)
    on_screen = page_.evaluate(PAPER)
    page_.evaluate(f"addEventListener('beforeprint', () => {{ window.paper = {PAPER}; }})")
    assert page_.pdf().startswith(b"%PDF")
    assert page_.evaluate("paper") == [768, "light", "rgb(255, 255, 255)"]
    assert on_screen[0] < 768 and page_.evaluate(PAPER)[1:] == on_screen[1:] == ["dark", on_screen[2]]


# Cells that are drawn, the theme, and what cards are on.
PAPER = """[document.querySelectorAll('#stage i.n[data-n]').length, document.documentElement.dataset.theme,
  getComputedStyle(document.querySelector('#stage .head')).backgroundColor]"""
CONTRAST = """(() => {
  const parse = c => { const m = c.match(/[\\d.]+/g).map(Number); return m.length < 4 ? [...m, 1] : m; };
  const part = v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4;
  const lum = ([r, g, b]) => .2126 * part(r) + .7152 * part(g) + .0722 * part(b);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const c = parse(getComputedStyle(e).backgroundColor);
      if (c[3] === 1) return c;
    }
    return [255, 255, 255, 1];
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!own || !e.offsetParent || e.closest('dialog, noscript, script')) continue;
    const a = lum(parse(getComputedStyle(e).color)), b = lum(behind(e));
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    if (ratio < 4.5) poor.push(`${e.className} ${e.textContent.trim().slice(0, 30)} ${ratio.toFixed(2)}`);
  }
  return poor;
})()"""
