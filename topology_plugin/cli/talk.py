"""What a command says besides its result: to stderr, so that results can be piped."""

from __future__ import annotations

import contextlib
import sys


def say(sentence: object) -> None:
    """Fails nothing where nobody can hear it: a terminal that is gone, a log on a full disk."""
    if sys.stderr is not None:
        with contextlib.suppress(OSError):
            print(f"hyperpod-topology: {sentence}", file=sys.stderr, flush=True)
