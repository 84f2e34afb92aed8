"""The page, opened in a real browser: what an operator sees, clicks, types and prints.

Skipped where no Chromium is found; with REQUIRE_CHROMIUM=1 that is a failure.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.states import changed, inventory, live, state, without
from tests.views.browser import Browser, Page, found
from tests.views.test_golden import captured
from topology_plugin.core import kubernetes
from topology_plugin.core.inventory import Partition
from topology_plugin.core.live import Job, Live
from topology_plugin.core.state import Owner, State
from topology_plugin.core.topology import FLAT_ONLY
from topology_plugin.views.page import GenerationNote, page
from topology_plugin.views.scene import arrange

NOTES = (
    GenerationNote(7, 1_799_900_000.0, "merge", ("block us-0001 shrinks from 18 to 17 nodes",)),
    GenerationNote(6, 1_799_800_000.0, "rollback", ("partition train: flat → tree",)),
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if found() is None:
        reason = "no Chromium: the page is NOT tested in a browser (apt-get install chromium, or set CHROMIUM)"
        if os.environ.get("REQUIRE_CHROMIUM") == "1":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    with Browser.start() as started:
        yield started


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


def small() -> State:
    seen = without(inventory(gb200s=54, unlabelled=(3,)), "ip-10-9-0-3", "ip-10-9-1-3")
    return state(seen)


def written(directory: Path, of: State, seen: Live | None, name: str = "page.html", **more: object) -> Path:
    path = directory / name
    path.write_text(page(arrange(of, seen), **more), encoding="utf-8")  # type: ignore[arg-type]
    return path


@pytest.fixture
def opened(browser: Browser, directory: Path) -> Iterator[Page]:
    of = small()
    path = written(directory, of, live(of), generations=NOTES, pending=("a change",), origin="a test")
    page_ = browser.open(path)
    yield page_
    page_.close()


def cell(name: str) -> str:
    return f'#stage i.n[aria-label^="{name},"]'


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


def test_blocks_show_short_ones_free_slots_and_refused_sizes(opened: Page) -> None:
    opened.click('.part[data-p="2"]')
    assert opened.text("#stage h2") == "ultra"
    assert opened.evaluate("document.querySelectorAll('#stage .leaf.short').length") == 2
    assert opened.evaluate("document.querySelectorAll('#stage i.slot').length") == 2
    assert "refused: 36" in opened.text(".ruler")
    left = opened.evaluate("document.querySelector('.ruler .track i').style.left")
    assert float(left.rstrip("%")) == pytest.approx(35 / 52 * 100)


def test_of_a_topology_that_serves_several_partitions_only_ones_own_nodes_count(
    browser: Browser, directory: Path
) -> None:
    seen = inventory(8, 36, 0)
    ultra = seen.partitions["ultra"].nodes
    mine = (*ultra[:9], ultra[20])  # nine nodes of one UltraServer, one of the other
    parts = {**seen.partitions, "few": Partition("few", ultra[:4]), "mine": Partition("mine", mine)}
    group = replace(seen.groups["ultra"], partitions=("ultra", "few", "mine"))
    of = state(replace(seen, partitions=parts, groups={**seen.groups, "ultra": group}))
    page_ = browser.open(written(directory, of, Live(dict.fromkeys(seen.nodes, "idle")), "shared.html"))

    def told(partition: str) -> tuple[str, list[str], int]:
        page_.click(f'.part[data-p="{list(of.inventory.partitions).index(partition)}"]')
        rooms = page_.evaluate("[...document.querySelectorAll('#stage .leaf .room')].map(e => e.innerText)")
        others = page_.evaluate("document.querySelectorAll('#stage i.other').length")
        return " ".join(page_.text("#stage .facts").split()), rooms, others

    assert told("mine") == (
        "10 nodes 2 blocks, base size 18 10 of 10 idle now 9 idle in one block, at most", ["9/9", "1/1"], 26,
    )  # fmt: skip
    assert told("few")[1:] == (["4/4"], 14)  # the UltraServer without a node of it is not shown
    assert told("ultra")[1:] == (["18/18", "18/18"], 0)


def test_a_flat_partition_shows_its_nodes_by_instance_group(opened: Page) -> None:
    opened.click('.part[data-p="0"]')
    words = opened.text("#stage")
    for group in ("worker-a", "ultra", "cpu", "login"):
        assert group in words
    assert opened.evaluate("document.querySelectorAll('#stage i.n[data-n]').length") == 125


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


def test_generations_and_pending_changes_are_listed_with_what_changed(opened: Page) -> None:
    words = opened.text("#panel")
    assert "block us-0001 shrinks from 18 to 17 nodes" in words and "partition train: flat → tree" in words
    assert words.index("shrinks") < words.index("flat → tree")


def test_names_cannot_become_markup(browser: Browser, directory: Path) -> None:
    evil = "</script><img src=x onerror=alert(1)>"
    seen = changed(inventory(8, 0, 0), "ip-10-1-0-1", instance_name=evil, group="<b>g</b>", instance_type=evil)
    of = state(seen)
    jobs = (Job(1, evil, evil, "RUNNING", ("ip-10-1-0-1",), "train"),)
    path = written(directory, of, Live({"ip-10-1-0-1": "down"}, jobs, {"ip-10-1-0-1": evil}), "evil.html")
    page_ = browser.open(path)
    page_.click(cell("ip-10-1-0-1"))
    assert page_.errors() == [] and page_.requests() == []
    assert page_.evaluate("document.querySelectorAll('img, b b').length") == 0
    assert evil in page_.text("#selection")


@pytest.mark.parametrize(
    ("of", "seen", "words"),
    [
        pytest.param(small(), None, "Slurm was not asked", id="no-live-states"),
        pytest.param(replace(small(), in_force=None), None, "in force: not known", id="nothing-in-force"),
        pytest.param(replace(small(), in_force=FLAT_ONLY), None, "change pending", id="drift"),
        pytest.param(replace(small(), owner=Owner("agent", "why", False)), None, "owner: agent", id="agent"),
        pytest.param(replace(small(), hold=True), None, "on hold", id="hold"),
        pytest.param(state(inventory(0, 0, 0)), None, "1 node", id="one-node"),
        pytest.param(
            state(inventory(120, 0, 0, unlabelled=tuple(range(70)))), None, "share one leaf", id="many-unplaced"
        ),
    ],
)
def test_unusual_states_are_told_in_words(
    browser: Browser, directory: Path, of: State, seen: Live | None, words: str
) -> None:
    page_ = browser.open(written(directory, of, seen, "unusual.html"))
    assert page_.errors() == []
    assert words in page_.evaluate("document.body.innerText")


def test_a_kubernetes_cluster_is_shown_without_slurms_words(browser: Browser, directory: Path) -> None:
    labels = {f"topology.k8s.aws/network-node-layer-{i}": f"nn-{i}" for i in (1, 2, 3)}
    labels["sagemaker.amazonaws.com/instance-group-name"] = "ultra"
    items = []
    for i in range(4):  # as HyperPod names its nodes: too long for a name in every cell
        own = {**labels, "topology.k8s.aws/ultraserver-id": f"us-number-{i // 2}"}
        items.append({"kind": "Node", "metadata": {"name": f"hyperpod-i-0a{i:015x}", "labels": own}})
    page_ = browser.open(written(directory, *kubernetes.cluster({"items": items}), "kubernetes.html"))
    told = page_.evaluate("document.body.innerText")
    assert page_.errors() == [] and "us-number-1" in told and "Kubernetes" in told
    for word in ("Topology=", "base size", "refused", "squeue", "Slurm 2", "owner", "undefined"):
        assert word not in told, word
    names = "[...document.querySelectorAll('.leaf .name')].map(e => e.scrollWidth <= e.clientWidth)"
    assert page_.evaluate(names) == [True, True], "a block of two nodes has no room for its name"


def test_the_captured_cluster_is_drawn_as_slurmctld_has_it(browser: Browser, directory: Path) -> None:
    of, seen = captured()
    page_ = browser.open(written(directory, of, seen, "captured.html"))
    assert page_.errors() == []
    drawn = page_.evaluate(
        "Object.fromEntries([...document.querySelectorAll('#stage .leaf')].map(l => [l.querySelector('.uh').title,"
        " [...l.querySelectorAll('i.n')].map(i => i.getAttribute('aria-label').split(',')[0])]))"
    )
    tree = of.in_force.topology("tree") if of.in_force else None
    assert tree is not None
    leaves = {s.name: list(s.nodes) for s in tree.body.switches if s.nodes}  # type: ignore[union-attr]
    assert {name: sorted(nodes) for name, nodes in drawn.items()} == {
        name: sorted(nodes) for name, nodes in leaves.items() if not name.startswith("unplaced")
    }


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


def test_the_data_is_compact() -> None:
    of = small()
    data = page(arrange(of, live(of))).split('type="application/json">')[1].split("</script>")[0]
    assert "<" not in data
    assert len(json.loads(data)["nodes"]["name"]) == 125 and len(data) < 30_000
