"""A safe reader for topology.yaml: maps, lists and texts, nothing else.

Every scalar stays text (`"null"` is a switch of that name until a rule says what Slurm makes of it). Aliases, several
documents, maps as keys and depth beyond anything Slurm reads are refused, so that no hostile file costs more than its
own length.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from topology_plugin.core.issues import InputError, Issue

Raw: TypeAlias = "str | list[Raw] | dict[str, Raw] | None"

MAX_DEPTH = 32


def load(text: str, where: str = "topology.yaml") -> Raw:
    """The document in `text`; None if there is none. Raises InputError with file and line."""
    import yaml  # 40 ms, which the hook on a node does not need

    loader: Any = getattr(yaml, "CBaseLoader", yaml.BaseLoader)
    root: Raw = None
    documents = 0
    # Built without recursion: (open collection, key that waits for its value), outermost first.
    stack: list[tuple[Any, str | None]] = []
    try:
        for event in yaml.parse(_decoded(text), Loader=loader):
            kind = type(event)
            if kind is yaml.ScalarEvent:
                # Plain nothing and "" differ in YAML, but not for Slurm's parser (run).
                value: Any = event.value  # type: ignore[attr-defined]  # types-PyYAML knows the base class only
            elif kind is yaml.SequenceStartEvent:
                value = []
            elif kind is yaml.MappingStartEvent:
                value = {}
            elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
                stack.pop()
                continue
            elif kind is yaml.AliasEvent:
                raise _refused(where, event, "an alias (*name)", "write the value itself")
            elif kind is yaml.DocumentStartEvent:
                documents += 1
                if documents > 1:
                    raise _refused(where, event, "a second document", "keep one list in the file")
                continue
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
                        raise _refused(where, event, "a map or list as a key", "keys are words")
                    stack[-1] = (owner, value)
                    continue
                else:
                    owner[key] = value
                    stack[-1] = (owner, None)
            if type(value) is not str:
                if len(stack) >= MAX_DEPTH:
                    raise _refused(where, event, f"more than {MAX_DEPTH} levels", "topology.yaml needs five")
                stack.append((value, None))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        place = f"{where}:{mark.line + 1}" if mark is not None else where
        problem = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        raise InputError(Issue(place, f"is not YAML: {problem}", "mend or remove the line")) from None
    return root


def _decoded(text: str) -> str:
    # A byte order mark is tolerated by Slurm (run); in Python text it may be left over at the start.
    return text.lstrip("\ufeff")


def _refused(where: str, event: Any, what: str, remedy: str) -> InputError:
    return InputError(Issue(f"{where}:{event.start_mark.line + 1}", f"{what} has no place in topology.yaml", remedy))
