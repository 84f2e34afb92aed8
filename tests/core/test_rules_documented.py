"""docs/safety-rules.md lists the rules as they are in core/rules.py."""

from __future__ import annotations

from pathlib import Path

from tests.broken import BREAKS_24, BREAKS_26, IDLE_24
from topology_plugin.core.rules import ALWAYS, NEVER, RULES, Rule

PAGE = Path(__file__).parents[2] / "docs" / "safety-rules.md"


def version(numbers: tuple[int, int, int]) -> str:
    return "{}.{:02}.{}".format(*numbers)


def spans(rule: Rule) -> str:
    parts = []
    for start, end in rule.spans:
        if (start, end) == (ALWAYS, NEVER):
            parts.append("all")
        elif end == NEVER:
            parts.append(f"{version(start)} and newer")
        elif start == ALWAYS:
            parts.append(f"before {version(end)}")
        else:
            parts.append(f"{version(start)} to before {version(end)}")
    return ", ".join(parts)


def proof(rule: Rule) -> str:
    """On which slurmctld a test sees it happen."""
    seen = [
        label
        for label, cases in (("26.05.5", BREAKS_26), ("24.11.5", (*BREAKS_24, *IDLE_24)))
        if any(files.rule == rule.id for files in cases)
    ]
    by_job = {"depth-uneven": ["26.05.5", "24.11.5"], "saved-word-unknown": ["26.05.5"]}
    stops = rule.severity in ("dies", "crashes") or rule.unhealthy
    return ", ".join(by_job.get(rule.id, seen)) or ("our check alone" if stops else "")


def row(rule: Rule) -> str:
    cells = (f"`{rule.id}`", rule.severity, rule.says, spans(rule), rule.known, proof(rule))
    return f"| {' | '.join(cells)} |"


def test_every_rule_stands_there_as_it_is() -> None:
    lines = PAGE.read_text().splitlines()
    missing = [row(rule) for rule in RULES.values() if row(rule) not in lines]
    assert missing == []


def test_no_rule_stands_there_that_is_gone() -> None:
    named = {line.split("`")[1] for line in PAGE.read_text().splitlines() if line.startswith("| `")}
    assert named == set(RULES)


def test_what_stops_slurmctld_today_was_seen_to_stop_it() -> None:
    """Rules that hold on neither 26.05.5 nor 24.11.5 are our check alone; no other that stops slurmctld is."""
    unseen = {
        rule.id for rule in RULES.values() if rule.severity in ("dies", "crashes") and proof(rule) == "our check alone"
    }
    assert unseen == {"yaml-4096", "kind-unknown"}
