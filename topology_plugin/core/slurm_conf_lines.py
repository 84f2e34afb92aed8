"""The lines of a slurm.conf as Slurm's parser sees them, and where each of their characters stands in the file.

Rules (src: parse_config.c; run on 26.05): a `#` after an even number of backslashes starts a comment; an odd number of
backslashes at the end of what is left, blanks after them allowed, joins the next physical line; then `\\x` becomes `x`.
A comment line within a continued line ends it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

BLANKS = " \t\n\v\f\r"
BOM = "\ufeff"
_PAIR = re.compile(
    r"[ \t\n\v\f\r]*([A-Za-z0-9_.]+)[ \t\n\v\f\r]*[-*+/]?=([ \t\n\v\f\r]*)"
    r'(?:"([^"]*)"|([^ \t\n\v\f\r]+))(?![^ \t\n\v\f\r])'
)
_EMPTY_TOPOLOGY = re.compile(r"[ \t\n\v\f\r]*(topology)[ \t\n\v\f\r]*[-*+/]?=(?![^ \t\n\v\f\r])", re.IGNORECASE)
_KEY = re.compile(r"[A-Za-z0-9_.]+")
_KEY_FOLLOWS = re.compile(r"[A-Za-z0-9_.]+=")
_UNCOMMENTED = re.compile(r"(?:[^\\#]+|\\.?)*", re.DOTALL)
_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


class LogicalLine(NamedTuple):
    """One line as parsed; `text[start:end]` is the part of the file it comes from, line ends included."""

    number: int
    start: int
    end: int
    content: str


@dataclass(frozen=True, slots=True)
class Pair:
    """`content[start:end]` is `key=value`; the value, without its quotes, begins at `value_start`."""

    key: str
    value: str
    start: int
    value_start: int
    end: int

    @property
    def value_end(self) -> int:
        return self.value_start + len(self.value)


def logical_lines(text: str) -> Iterator[LogicalLine]:
    """All lines with content, in order; numbers count physical lines from 1. A byte order mark belongs to no line."""
    number = 0
    start = 1 if text.startswith(BOM) else 0
    size = len(text)
    while start < size:
        number += 1
        first = number
        end = text.find("\n", start) + 1 or size
        line = text[start:end]
        if "\\" in line:
            pieces: list[str] = []
            while (piece := _continued(line)) is not None:
                pieces.append(piece)
                if end == size:
                    line = ""
                    break
                number += 1
                begin, end = end, text.find("\n", end) + 1 or size
                line = text[begin:end]
            pieces.append(_uncommented(line))
            line = _ESCAPE.sub(r"\1", "".join(pieces))
        elif "#" in line:
            line = line[: line.index("#")]
        if line.strip(BLANKS):
            yield LogicalLine(first, start, end, line)
        start = end


def offsets_of(text: str, line: LogicalLine) -> Sequence[int]:
    """For each character of `line.content` its position in `text`."""
    if text.find("\\", line.start, line.end) < 0:
        return range(line.start, line.start + len(line.content))
    offsets: list[int] = []
    at = line.start
    while at < line.end:
        end = text.find("\n", at) + 1 or len(text)
        physical = text[at:end]
        kept = _continued(physical)
        offsets += range(at, at + len(_uncommented(physical) if kept is None else kept))
        at = end
    escaped: list[int] = []
    position = 0
    while position < len(offsets):
        if text[offsets[position]] == "\\":
            position += 1
        escaped += offsets[position : position + 1]
        position += 1
    return escaped


def pairs_of(content: str) -> tuple[list[Pair], str]:
    """The `key=value` pairs from the start of a line on, and what follows them unread (blank if all is well).

    In one point this is not Slurm's reading: Slurm takes the next word for the value of an empty `Topology=` and dies
    of it. Here the value is empty, so that it can be mended without harm to the next word.
    """
    pairs: list[Pair] = []
    at = 0
    while True:
        match = _PAIR.match(content, at)
        if match is None or _swallows_a_key(match):
            match = _EMPTY_TOPOLOGY.match(content, at)
            if match is None:
                return pairs, content[at:]
            pairs.append(Pair(match[1], "", match.start(1), match.end(), match.end()))
        else:
            group = 4 if match[3] is None else 3
            pairs.append(Pair(match[1], match[group], match.start(1), match.start(group), match.end()))
        at = match.end()


def words_of(content: str) -> tuple[dict[str, str], str]:
    """Lower-case key → last value, and what is left unread, exactly as Slurm reads; for the many lines of nodes."""
    if '"' not in content and content.isascii():
        words: dict[str, str] = {}
        for field in content.split():
            key, _, value = field.partition("=")
            plain = _plain_key(key)
            if plain is None or not value:
                break
            words[plain] = value
        else:
            return words, ""
    words = {}
    at = 0
    while match := _PAIR.match(content, at):
        words[match[1].lower()] = match[4] if match[3] is None else match[3]
        at = match.end()
    return words, content[at:]


@lru_cache(maxsize=512)
def _plain_key(text: str) -> str | None:
    return text.lower() if _KEY.fullmatch(text) else None


def _swallows_a_key(match: re.Match[str]) -> bool:
    return bool(match[1].lower() == "topology" and match[2] and match[4] and _KEY_FOLLOWS.match(match[4]))


def _uncommented(line: str) -> str:
    match = _UNCOMMENTED.match(line)
    return match[0] if match else ""


def _continued(line: str) -> str | None:
    """What a physical line adds to the next one; None if it does not go on there."""
    bare = _uncommented(line).rstrip(BLANKS)
    backslashes = len(bare) - len(bare.rstrip("\\"))
    return bare[:-1] if backslashes % 2 else None
