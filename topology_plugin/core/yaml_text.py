"""A safe reader for topology.yaml that takes what Slurm's takes: maps, lists and texts.

Every scalar stays text (`"null"` is a switch of that name until a rule says what Slurm makes of it). As Slurm does it
(run, 26.05.5): only the first document counts, a zero byte ends the text, the last of two equal keys wins, tags and
anchors mean nothing; aliases, keys that are maps or lists, and depth above 32 are refused.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from topology_plugin.core.issues import InputError, Issue

Raw: TypeAlias = "str | list[Raw] | dict[str, Raw] | None"

MAX_DEPTH = 32


class Unreadable(InputError):
    """`rule`: which of Slurm's rules the text breaks (see rules.RULES)."""

    def __init__(self, rule: str, issue: Issue) -> None:
        self.rule = rule
        super().__init__(issue)


def load(text: str | bytes, where: str = "topology.yaml") -> Raw:
    """The document in `text`; None if there is none. Raises Unreadable with file and line."""
    import yaml  # 40 ms, which the hook on a node does not need

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    root: Raw = None
    # Built without recursion: (open collection, key that waits for its value), outermost first.
    stack: list[tuple[Any, str | None]] = []
    try:
        for event in yaml.parse(encoded(text).partition(b"\0")[0], Loader=loader):
            kind = type(event)
            if kind is yaml.ScalarEvent:
                value: Any = event.value  # type: ignore[attr-defined]  # types-PyYAML knows the base class only
            elif kind is yaml.SequenceStartEvent:
                value = []
            elif kind is yaml.MappingStartEvent:
                value = {}
            elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
                stack.pop()
                continue
            elif kind is yaml.DocumentEndEvent:
                break
            elif kind is yaml.AliasEvent:
                raise _refused("yaml-alias", where, event, "an alias (*name), which Slurm does not read")
            else:
                continue
            if not stack:
                root = value
            else:
                owner, key = stack[-1]
                if type(owner) is list:
                    owner.append(value)
                elif key is None:
                    if type(value) is not str:
                        raise _refused("yaml-type", where, event, "a map or list as a key")
                    stack[-1] = (owner, value)
                    continue
                else:
                    owner[key] = value
                    stack[-1] = (owner, None)
            if type(value) is not str:
                if len(stack) >= MAX_DEPTH:
                    raise _refused("yaml-too-deep", where, event, f"more than {MAX_DEPTH} levels")
                stack.append((value, None))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark is not None else where
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        rule = "yaml-too-deep" if "nesting" in problem else "yaml-broken"
        raise Unreadable(rule, Issue(place, f"is not YAML: {problem}", "mend or remove the line")) from None
    return root


def encoded(text: str | bytes) -> bytes:
    """The bytes that a text stands for. Never raises: what no file can hold becomes what is no UTF-8."""
    if isinstance(text, bytes):
        return text
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogatepass")


def _refused(rule: str, where: str, event: Any, what: str) -> Unreadable:
    return Unreadable(rule, Issue(f"{where}:{event.start_mark.line + 1}", what, "write the value itself"))
