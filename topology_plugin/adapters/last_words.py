"""Why a slurmctld ended, in its own words."""

from __future__ import annotations

import re
import signal
from collections.abc import Sequence
from pathlib import Path


class SlurmctldDied(Exception):
    """slurmctld ended instead of serving.

    `code`: its exit status; negative: killed by that signal. `words`: its fatal lines and up to three errors before
    them, which often hold the reason (after a crash: its last line), without time stamps. `log`: where there is more.
    """

    def __init__(self, code: int, words: Sequence[str], log: Path) -> None:
        self.code, self.words, self.log = code, tuple(words), log
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"
        super().__init__(f"slurmctld {how}: {' / '.join(self.words) or 'it gave no reason'} (its log: {log})")


def last_words(log: str) -> list[str]:
    """Of a slurmctld's log, what says why it ended."""
    lines = [re.sub(r"^(\[[^]]*\]|slurmctld:) ", "", line) for line in log.splitlines() if line.strip()]
    first = next((place for place, line in enumerate(lines) if line.startswith("fatal:")), None)
    if first is None:
        return lines[-1:]
    telling = [line for line in lines if line.startswith(("error:", "fatal:")) and "default partition not" not in line]
    fatal = [line for line in lines[first:] if line.startswith("fatal:")]
    return [*telling[: telling.index(fatal[0])][-3:], *dict.fromkeys(fatal)]
