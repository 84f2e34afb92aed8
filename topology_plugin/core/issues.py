"""What is wrong with an input: where, what, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Issue:
    """One thing wrong. `where`: file and position (`slurm.conf:12`, `InstanceGroups[2].Instances[0].InstanceId`)."""

    where: str
    what: str
    remedy: str = ""

    def __str__(self) -> str:
        text = f"{self.where}: {self.what}" if self.where else self.what
        return f"{text} ({self.remedy})" if self.remedy else text


class InputError(Exception):
    """An input that cannot be used. Carries every issue found in it, not only the first (exit code 2)."""

    def __init__(self, issues: Issue | Iterable[Issue]) -> None:
        self.issues: tuple[Issue, ...] = (issues,) if isinstance(issues, Issue) else tuple(issues)
        super().__init__("\n".join(str(issue) for issue in self.issues))


class PassError(Exception):
    """An operation that failed and left the former state in force (exit code 1)."""
