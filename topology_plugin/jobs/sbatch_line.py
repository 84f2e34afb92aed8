"""What a user's sbatch line asks for, as far as nearness depends on it: nodes, partition, named and excluded nodes.

sbatch's own rules: options before the script, directives in the script below those on the line, the last of two wins.
Options are those of 24.11 to 26.05 (`sbatch --help`, run).
"""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from topology_plugin.core.hostlists import expand
from topology_plugin.core.issues import InputError, Issue

_SHORT_WITH_VALUE = "AabBcCdDeFGiJLmMnNopqStwx"
_LONG_WITHOUT_VALUE = {
    "consolidate-segments", "contiguous", "exact", "exclusive", "external", "get-user-env", "help", "hold",
    "ignore-pbs", "kill-on-invalid-dep", "nice", "no-kill", "no-requeue", "oom-kill-step", "overcommit",
    "oversubscribe", "parsable", "propagate", "quiet", "reboot", "requeue", "resv-ports", "spread-job",
    "spread-segments", "stepmgr", "test-only", "usage", "use-min-nodes", "verbose", "version", "wait",
}  # fmt: skip
_LONG = {
    "N": "nodes", "n": "ntasks", "p": "partition", "x": "exclude", "w": "nodelist", "F": "nodefile", "a": "array",
    "M": "clusters", "H": "hold", "W": "wait", "C": "constraint", "G": "gpus",
}  # fmt: skip
_DIRECTIVE = re.compile(r"#SBATCH\s+(.*)")
_COUNT = re.compile(r"([0-9]+)([kKmM]?)(?:-([0-9]+)([kKmM]?))?")

ReadText = Callable[[str], str]


@dataclass(frozen=True)
class SbatchLine:
    """`options`: long name → value ("" for a flag), the line's above the script's; `before`: the line up to the script
    (or all of it), where more options may go; `after`: script and its arguments."""

    before: tuple[str, ...]
    after: tuple[str, ...]
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, arguments: Sequence[str], read: ReadText, environment: Mapping[str, str]) -> SbatchLine:
        """`read`: the text of the script (`-`: of standard input, where the line names none), OSError if it cannot be
        read. Raises InputError for het jobs, which are several jobs in one."""
        if ":" in arguments:
            raise InputError(Issue("sbatch", "het jobs (`:`) have no single level", "submit them with sbatch itself"))
        given, at = _options(arguments)
        after = tuple(arguments[at:])
        options: dict[str, str] = {}
        if "wrap" not in given:
            try:
                text = read(after[0] if after else "-")
            except (OSError, UnicodeDecodeError):
                text = ""  # sbatch finds scripts on PATH too, and says what is wrong with one it cannot find
            options = _directives(text)
            if "hetjob" in options:
                raise InputError(Issue("script", "het jobs have no single level", "submit them with sbatch itself"))
        if environment.get("SBATCH_PARTITION"):
            options["partition"] = environment["SBATCH_PARTITION"]
        options.update(given)
        return cls(tuple(arguments[:at]), after, options)

    def with_options(self, more: Sequence[str]) -> list[str]:
        """The line with more options, where they win over the user's."""
        return [*self.before, *more, *self.after]

    @property
    def partition(self) -> str | None:
        return self.options.get("partition") or None

    def nodes(self) -> tuple[int, int] | None:
        """(least, most) nodes; None: not said, Slurm decides by tasks and CPUs. Raises InputError."""
        said = self.options.get("nodes")
        if said is not None:
            match = _COUNT.fullmatch(said)
            if not match:
                raise InputError(Issue("sbatch -N", f"{said!r} is no node count", "write -N4 or -N4-8"))
            low = int(match[1]) * _factor(match[2])
            return low, int(match[3]) * _factor(match[4]) if match[3] else low
        tasks, each = self.options.get("ntasks"), self.options.get("ntasks-per-node")
        if tasks and each and tasks.isdigit() and each.isdigit() and int(each):
            needed = math.ceil(int(tasks) / int(each))
            return needed, needed
        if named := self.named:
            return len(named), len(named)
        return (1, 1) if tasks is None and "gpus" not in self.options else None

    @property
    def named(self) -> tuple[str, ...]:
        return _names(self.options.get("nodelist", ""))

    @property
    def excluded(self) -> tuple[str, ...]:
        return _names(self.options.get("exclude", ""))


def _factor(letter: str) -> int:
    return {"": 1, "k": 1024, "m": 1024 * 1024}[letter.lower()]


def _names(text: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(expand(text)))


def _options(arguments: Sequence[str]) -> tuple[dict[str, str], int]:
    """Long name → value, and where the script stands."""
    found: dict[str, str] = {}
    at = 0
    while at < len(arguments):
        word = arguments[at]
        if word == "--":
            return found, at + 1
        if not word.startswith("-") or word == "-":
            break
        at += 1
        if word.startswith("--"):
            name, separator, value = word[2:].partition("=")
            if not separator and name not in _LONG_WITHOUT_VALUE and at < len(arguments):
                value = arguments[at]
                at += 1
            found[name] = value
            continue
        letters = word[1:]
        for i, letter in enumerate(letters):
            if letter not in _SHORT_WITH_VALUE:
                found[_LONG.get(letter, letter)] = ""
                continue
            value = letters[i + 1 :].removeprefix("=")
            if not value and at < len(arguments):
                value = arguments[at]
                at += 1
            found[_LONG.get(letter, letter)] = value
            break
    return found, at


def _directives(text: str) -> dict[str, str]:
    """Options of the #SBATCH lines, which end at the first line that is neither empty nor a comment."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        if not line.startswith("#"):
            break
        match = _DIRECTIVE.match(line)
        if match:
            try:
                words = shlex.split(match[1], comments=True)
            except ValueError:
                continue
            if words and words[0] == "hetjob":
                found["hetjob"] = ""
            found.update(_options(words)[0])
    return found
