"""Slurm's compact node lists, `ip-10-1-1-[11-14],login`: read as Slurm does, written so that Slurm reads back the same.

Compared with `scontrol show hostnames` and `scontrol show hostlist` of 26.05 (run; tests/slurm/test_hostlists_real.py).
Two things Slurm lets pass are refused here because a name with a bracket can be used nowhere else: a stray `]` and
brackets inside brackets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from topology_plugin.core.issues import InputError, Issue

# Slurm's MAX_RANGE; one number more and the whole list is invalid (run).
MAX_RANGE = 65_536
# Slurm's largest clusters have 64 Ki nodes. A product of several brackets can ask for billions of names.
MAX_NAMES = 1_048_576
# Slurm holds a number in 64 bits and clamps what is above, which makes two names one (run).
_LARGEST_NUMBER = 2**64 - 1
# Tails of up to 15 digits are safe in every tool that reads the number (a double is exact up to there).
_LONGEST_TAIL = 15

_DIGITS = "0123456789"
_SEPARATORS = re.compile(r"[, \t\r\n]+")
# Unrolled, so that no input makes it backtrack.
_TOKEN = re.compile(r"[^][{}, \t\r\n]*(?:\[[^][{}]*\][^][{}, \t\r\n]*)*")
_SEPARATOR = re.compile(r"[, \t\r\n]*")
_GROUP = re.compile(r"\[([^][]*)\]")
# strtoul() takes a sign and blanks before the digits; Slurm counts them in the width.
_RANGE = re.compile(r"([ \t]*\+?([0-9]+))(?:-(?:[ \t]*\+?([0-9]+))?)?")
_SPECIAL = re.compile(r"[][{}, \t\r\n]")
_NUMBERS = re.compile(r"([0-9]+)")


class HostlistError(InputError):
    """A node list that Slurm would not take, or names that no list can hold. `where` of its one issue is the list."""

    def __init__(self, where: str, what: str, remedy: str) -> None:
        super().__init__(Issue(where, what, remedy))

    @property
    def issue(self) -> Issue:
        return self.issues[0]


def expand(text: str) -> list[str]:
    """The names in a node list, in the order and with the duplicates `scontrol show hostnames` prints.

    Raises HostlistError where Slurm says "Invalid hostlist", for hostlist functions (`switch{…}`: only slurmctld can
    answer those), and for more than MAX_NAMES names.
    """
    if "[" not in text and "]" not in text and "{" not in text:
        return [_clamped(name) for name in _SEPARATORS.split(text) if name]
    names: list[str] = []
    at = _end(_SEPARATOR, text, 0)
    while at < len(text):
        end = _end(_TOKEN, text, at)
        after = _end(_SEPARATOR, text, end)
        if after == end < len(text):
            raise _malformed(text, at)
        _expand_token(text[at:end], names, text)
        at = after
    return names


def fold(names: Iterable[str]) -> str:
    """The names as one node list: sorted by node_order of the prefix, then padding width, then number; only the last
    number of a name goes into brackets, as slurmctld does it. Duplicates stay. Equal multisets give equal text.

    Numbers with more than 15 digits stay outside brackets, and no range holds more than MAX_RANGE numbers. (Names whose
    number needs more than 64 bits are written as they are, but Slurm cannot tell them apart.)
    Raises HostlistError for names that no node list can hold (empty, or with a comma, blank, bracket or brace).
    """
    tails_of: dict[str, list[str]] = {}
    for name in names:
        prefix = name.rstrip(_DIGITS)
        tail = name[len(prefix) :]
        tails = tails_of.get(prefix)
        if tails is None:
            tails_of[prefix] = [tail]
        else:
            tails.append(tail)
    if _SPECIAL.search("".join(tails_of)):
        bad = next(prefix for prefix in tails_of if _SPECIAL.search(prefix))
        raise HostlistError(repr(bad), "is no node name: it has a comma, blank, bracket or brace", "rename the node")
    pieces: list[str] = []
    for prefix in sorted(tails_of, key=node_order):
        tails = tails_of[prefix]
        if len(tails) == 1:
            pieces.append(prefix + tails[0])
        else:
            pieces.extend(_fold_tails(prefix, tails))
    if "" in pieces:
        raise HostlistError("''", "is no node name: empty", "remove it")
    return ",".join(pieces)


def node_order(name: str) -> str:
    """Sort key that puts `ip-10-3-2-9` before `ip-10-3-2-10`; total, so that the order of equal sets is equal.

    A text and not a list of texts and numbers: those take three times as long to make and to compare.
    """
    prefix = name.rstrip(_DIGITS)
    if len(prefix) == len(name):
        return f"{_prefix_order(prefix)}\0{name}"
    plain = name[len(prefix) :].lstrip("0")
    return f"{_prefix_order(prefix)}{chr((len(plain) & _MOST_DIGITS) + 1)}{plain}\0\0{name}"


# A text ends with \0: that is below every letter, and below the length that a number begins with (never 0), so that
# what is shorter comes first. Where a number is longer than this the order is odd, but still an order.
_MOST_DIGITS = 0xFFFF


def _number_order(digits: str) -> str:
    """Its length first, so that numbers are in order as texts."""
    plain = digits.lstrip("0")
    return chr((len(plain) & _MOST_DIGITS) + 1) + plain


@lru_cache(maxsize=4096)
def _prefix_order(prefix: str) -> str:
    """Shared by the nodes of a subnet: the numbers before the last one are read once for all of them."""
    parts = _NUMBERS.split(prefix)
    return "".join(_number_order(part) if at % 2 else part + "\0" for at, part in enumerate(parts))


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return at if match is None else match.end()


def _clamped(name: str) -> str:
    if len(name) < 20 or not name[-20:].isdigit():
        return name
    prefix = name.rstrip(_DIGITS)
    tail = name[len(prefix) :]
    if len(tail) < 20 or int(tail[:4000]) <= _LARGEST_NUMBER:
        return name
    return f"{prefix}{_LARGEST_NUMBER:0{len(tail)}d}"


def _expand_token(token: str, names: list[str], text: str) -> None:
    pieces = _GROUP.split(token)
    if len(pieces) == 1:
        names.append(_clamped(token))
        return
    groups = [_numbers(group, text) for group in pieces[1::2]]
    total = 1
    for group in groups:
        total *= len(group)
    if total + len(names) > MAX_NAMES:
        raise HostlistError(_shown(text), f"more than {MAX_NAMES} names", "name fewer nodes")
    # Slurm's order: the last bracket runs fastest, then the first, the second, … (run).
    prefixes = [pieces[0]]
    for position, group in enumerate(groups[:-1]):
        between = pieces[2 * position + 2]
        prefixes = [prefix + number + between for number in group for prefix in prefixes]
    suffix = pieces[-1]
    last = groups[-1]
    for prefix in prefixes:
        names.extend([prefix + number + suffix for number in last])


def _numbers(group: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in group.split(","):
        match = _RANGE.fullmatch(piece)
        if match is None:
            raise HostlistError(_shown(text), f"invalid range {piece!r}", "write 3 or 3-7 inside the brackets")
        low = min(int(match[2][:4000]), _LARGEST_NUMBER)
        high = low if match[3] is None else min(int(match[3][:4000]), _LARGEST_NUMBER)
        if low > high:
            raise HostlistError(_shown(text), f"descending range {piece!r}", "write the smaller number first")
        if high - low >= MAX_RANGE:
            raise HostlistError(
                _shown(text), f"range {piece!r} has more than {MAX_RANGE} numbers", "split it into several ranges"
            )
        width = len(match[1])
        if width <= len(str(low)):
            numbers.extend(map(str, range(low, high + 1)))
        else:
            numbers.extend([f"{number:0{width}d}" for number in range(low, high + 1)])
    return numbers


def _fold_tails(prefix: str, tails: list[str]) -> list[str]:
    """Items for names that share a prefix; `tails` are their final digits, possibly empty."""
    padded = {len(tail) for tail in tails if tail[:1] == "0" and len(tail) > 1}
    lengths = set(map(len, tails))
    if not padded and min(lengths) > 0 and max(lengths) <= _LONGEST_TAIL:
        return [f"{prefix}[{','.join(_ranges(sorted(map(int, tails)), 0))}]"]
    plain: list[str] = []
    long: list[str] = []
    by_width: dict[int, list[int]] = {}
    for tail in tails:
        if not tail:
            plain.append(prefix)
        elif len(tail) > _LONGEST_TAIL:
            long.append(tail)
        else:
            # 10 belongs to 09-10 where its prefix has a padded 09, and to 9-10 where it has none.
            by_width.setdefault(len(tail) if len(tail) in padded else 0, []).append(int(tail))
    items = plain
    ranges: list[str] = []
    for width in sorted(by_width):
        ranges += _ranges(sorted(by_width[width]), width)
    if len(ranges) == 1 and "-" not in ranges[0]:
        items.append(prefix + ranges[0])
    elif ranges:
        items.append(f"{prefix}[{','.join(ranges)}]")
    items += [prefix + tail for tail in sorted(long, key=lambda tail: (len(tail), tail))]
    return items


def _ranges(numbers: list[int], width: int) -> list[str]:
    """Ranges for sorted numbers; a number that stands there twice starts a range of its own."""
    ranges: list[str] = []
    low = high = numbers[0]
    for number in numbers[1:]:
        if number == high + 1 and number - low < MAX_RANGE:
            high = number
        else:
            ranges.append(f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}")
            low = high = number
    ranges.append(f"{low:0{width}d}" if low == high else f"{low:0{width}d}-{high:0{width}d}")
    return ranges


def _malformed(text: str, at: int) -> HostlistError:
    rest = text[at:]
    if "{" in rest or "}" in rest:
        return HostlistError(_shown(text), "hostlist function, which only slurmctld can answer", "write the node names")
    what = f"unbalanced or nested brackets in {_shown(rest)}"
    return HostlistError(_shown(text), what, "write each bracket group as [1-3,7] and close it")


def _shown(text: str) -> str:
    return repr(text if len(text) <= 60 else text[:57] + "…")
