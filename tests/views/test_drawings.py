"""Mermaid and SVG: small enough for what draws them, and nothing in a name breaks them."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests.core.test_kubernetes import listed, node
from tests.states import changed, inventory, live, state
from topology_plugin.core.kubernetes import cluster
from topology_plugin.core.settings import Settings, parse
from topology_plugin.core.state import State
from topology_plugin.core.topology import FLAT_ONLY
from topology_plugin.views.mermaid import MOST_BOXES, chart
from topology_plugin.views.scene import arrange
from topology_plugin.views.svg import picture
from topology_plugin.views.text import plain, tree

SHAPES = {
    "mixed": lambda: state(inventory(unlabelled=(3,))),
    "no-nodes": lambda: state(inventory(0, 0, 0)),
    "flat": lambda: state(in_force=FLAT_ONLY),
    "levels": lambda: state(inventory(0, 54, 0), settings=Settings(block_sizes=parse("block_sizes", [18, 36]))),
    "many-unplaced": lambda: state(inventory(200, 0, 0, unlabelled=tuple(range(100)))),
    "2000": lambda: state(inventory(2000, 0, 0, per_leaf=8, leaves=10)),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_chart_stays_within_what_mermaid_draws_and_counts_every_node(name: str) -> None:
    made: State = SHAPES[name]()
    text = chart(arrange(made, live(made)))
    boxes = re.findall(r"^    (t\d+[un]\d*)[\[(]", text, re.M)
    edges = re.findall(r"^    (t\d+u\d+) --> (t\d+u\d+)$", text, re.M)
    assert len(boxes) == len(set(boxes)) <= MOST_BOXES + 40 and len(edges) < 500 and len(text) < 50_000
    assert {end for edge in edges for end in edge} <= set(boxes)
    assert text.count("subgraph") == text.count("\n  end\n")


def test_a_chart_of_2000_nodes_collapses_leaves_and_says_how_many() -> None:
    text = chart(arrange(SHAPES["2000"]()))
    assert "10 leaves, 80 nodes" in text and ":::collapsed" in text


def test_a_name_cannot_break_a_chart() -> None:
    made = state(changed(inventory(4, 0, 0), "ip-10-1-0-1", group='a"b]<c>&d;'))
    text = chart(arrange(made))
    for label in re.findall(r'\["(.*)"\]', text):
        assert not re.search(r'["\[\]]', label.replace("ip-10-1-0-[1-4]", "").replace("[", "", 2).replace("]", "", 2))


@pytest.mark.parametrize("name", SHAPES)
def test_a_picture_is_well_formed_and_has_a_cell_for_every_node(name: str) -> None:
    made: State = SHAPES[name]()
    scene = arrange(made, live(made))
    root = ElementTree.fromstring(picture(scene))
    titles = [t.text or "" for t in root.iter("{http://www.w3.org/2000/svg}title")]
    for view in scene.views:
        for one in view.nodes:
            assert any(title.startswith(f"{one} (") for title in titles[1:]), one
            break
    cells = sum(1 for title in titles if title.endswith(("(idle)", "(allocated)", "(drained)", "(down)", "(unknown)")))
    assert cells == sum(len(view.nodes) for view in scene.views)


def test_nothing_is_drawn_outside_the_picture() -> None:
    made = state(inventory(2000, 90, 8, per_leaf=40, leaves=3, unlabelled=(1, 2)))
    root = ElementTree.fromstring(picture(arrange(made)))
    width, height = float(root.get("width", 0)), float(root.get("height", 0))

    def walk(element: ElementTree.Element, x: float, y: float) -> None:
        move = re.match(r"translate\((\S+) (\S+)\)", element.get("transform", ""))
        if move:
            x, y = x + float(move[1]), y + float(move[2])
        if element.tag.endswith("rect"):
            left, top = x + float(element.get("x", 0)), y + float(element.get("y", 0))
            assert left + float(element.get("width", 0)) <= width + 0.1
            assert top + float(element.get("height", 0)) <= height + 0.1
        for child in element:
            walk(child, x, y)

    walk(root, 0, 0)


def test_a_ready_kubernetes_node_is_not_called_idle() -> None:
    of, seen = cluster(listed(node("a", ("t", "m", "l1")), node("b", ("t", "m", "l2"))))
    scene = arrange(of, seen)
    for text in (plain(tree(scene)), chart(scene), picture(scene)):
        assert "idle" not in text and "2" in text
