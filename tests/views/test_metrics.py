"""Metrics say what an alarm needs, and every metric that the dashboard and the alert rules name exists."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from tests.states import inventory, state, without
from topology_plugin.core.state import Counters, State
from topology_plugin.core.topology import FLAT_ONLY, Configuration, Switch, Topology, Tree
from topology_plugin.views.metrics import text

DEPLOY = Path(__file__).parents[2] / "deploy"


def samples(of: State) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    found = {}
    for family in text_string_to_metric_families(text(of)):
        assert family.documentation and family.documentation.endswith(".")
        for sample in family.samples:
            name = sample.name.removeprefix("hyperpod_topology_")
            found[name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def value(of: State, name: str, **labels: str) -> float:
    return samples(of)[name, tuple(sorted(labels.items()))]


def test_nodes_are_counted_by_partition_kind_and_placement() -> None:
    made = state(inventory(unlabelled=(3, 4)))
    train = {"partition": "train", "topology": "tree", "kind": "tree"}
    assert value(made, "nodes", placed="true", **train) == 62
    assert value(made, "nodes", placed="false", **train) == 2
    flat = {"partition": "dev", "topology": "flat", "kind": "flat"}
    assert value(made, "nodes", placed="unneeded", **flat) == 109
    assert ("nodes", tuple(sorted({**flat, "placed": "false"}.items()))) not in samples(made)


def test_short_blocks_and_refused_sizes_are_counted() -> None:
    made = state(without(inventory(0, 54, 0), "ip-10-9-0-1", "ip-10-9-1-1"))
    assert value(made, "blocks", topology="block") == 3
    assert value(made, "short_blocks", topology="block") == 2
    assert value(made, "refused_sizes", partition="ultra") == 1


def test_nodes_that_share_the_leaf_for_unplaced_ones_are_counted() -> None:
    made = state(inventory(120, 0, 0, unlabelled=tuple(range(70))))
    assert value(made, "unplaced_sharing_a_leaf", topology="tree") == 70


def test_uncovered_nodes_are_counted_and_not_called_placed() -> None:
    made = state(inventory(8, 0, 0))
    holes = Configuration((Topology("t", Tree((Switch("s", ("ip-10-1-0-1",)),)), True),), {})
    made = replace(made, in_force=holes)
    assert value(made, "uncovered_nodes", partition="train") == 7
    assert value(made, "nodes", partition="train", topology="t", kind="tree", placed="true") == 1


def test_what_passes_did_is_told_in_totals_and_failures_by_reason() -> None:
    counters = Counters(9, 4, 1.5, {"rehearsal": 2, "readback": 1}, 3, 1_800_000_000.0, 2)
    made = replace(state(), counters=counters, hold=True, held=(7, 8))
    assert value(made, "passes_total") == 9 and value(made, "reconfigures_total") == 4
    assert value(made, "reconfigure_seconds_total") == 1.5 and value(made, "agent_reverts_total") == 3
    assert value(made, "failures_total", reason="rehearsal") == 2
    assert value(made, "last_success_timestamp_seconds") == 1_800_000_000
    assert value(made, "hold") == 1 and value(made, "held_jobs") == 2 and value(made, "drift") == 0
    assert value(replace(made, in_force=FLAT_ONLY), "drift") == 1


def test_what_never_happened_has_no_value_instead_of_a_wrong_one() -> None:
    made = replace(state(), generation=None, counters=Counters())
    names = {name for name, _ in samples(made)}
    assert "generation" not in names and "last_success_timestamp_seconds" not in names


def test_every_metric_and_label_that_the_dashboard_and_the_alerts_name_exists() -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())
    dashboard = json.loads((DEPLOY / "grafana-dashboard.json").read_text())
    made = replace(state(), counters=Counters(failures={"x": 1}, last_success=1.0))
    known: dict[str, set[str]] = {}
    for name, labels in samples(made):
        known.setdefault("hyperpod_topology_" + name, set()).update(label for label, _ in labels)
    expressions = list(_expressions(rules)) + list(_expressions(dashboard))
    assert len(expressions) > 20
    used = set()
    for expression in expressions:
        for name, _, selector in re.findall(r"(hyperpod_topology_[a-z_]+)(\{([^}]*)\})?", expression):
            assert name in known, f"{name} in {expression!r} does not exist"
            used.add(name)
            for label in re.findall(r"(\w+)\s*[=!]", selector):
                assert label in known[name], f"{name} has no label {label}"
    unused = set(known) - used - {"hyperpod_topology_info"}
    assert not unused, f"shown nowhere: {unused}"


def test_alert_texts_use_only_labels_that_their_expression_leaves() -> None:
    rules = yaml.safe_load((DEPLOY / "alerts.yaml").read_text())["groups"][0]["rules"]
    made = {name: dict(labels) for name, labels in samples(state(inventory(unlabelled=(1,))))}
    for rule in rules:
        assert set(rule) >= {"alert", "expr", "labels", "annotations"}
        for label in re.findall(r"\$labels\.(\w+)", json.dumps(rule["annotations"])):
            by = re.findall(r"by \(([^)]*)\)", rule["expr"])
            kept = {part.strip() for part in by[0].split(",")} if by else None
            name = re.findall(r"hyperpod_topology_([a-z_]+)", rule["expr"])[0]
            assert label in (kept if kept is not None else made[name]), rule["alert"]


def _expressions(of: Any) -> Any:
    """Every `expr`, and PromQL quoted in descriptions."""
    if isinstance(of, dict):
        for key, found in of.items():
            if key in ("expr", "description") and isinstance(found, str) and "hyperpod_topology_" in found:
                yield found
            else:
                yield from _expressions(found)
    elif isinstance(of, list):
        for entry in of:
            yield from _expressions(entry)
