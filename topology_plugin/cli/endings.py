"""How a command ends: a documented code, and a sentence for what an operator can mend, never a stack trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

from topology_plugin.core.issues import InputError, PassError

EXIT_FAILED, EXIT_USAGE, EXIT_PENDING, EXIT_WRONG = 1, 2, 3, 4
EXIT_INTERRUPTED = 130


def exit_code(run: Callable[[], object]) -> int:
    """Of a command that returns its code, or nothing."""
    try:
        code = run()
        return code if isinstance(code, int) else 0
    except InputError as error:
        for issue in error.issues:
            _say(issue)
        return EXIT_USAGE
    except PassError as error:
        _say(error)
        return EXIT_FAILED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_FAILED
    except OSError as error:  # a full disk, a directory that may not be read: the machine's trouble, in its own words
        where = f"{error.filename}: " if error.filename else ""
        _say(f"{where}{error.strerror or error}")
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED


def _say(what: object) -> None:
    denied = os.geteuid() != 0 and "ermission denied" in str(what) and "as root" not in str(what)
    print(f"hyperpod-topology: {what}{' (run it as root)' if denied else ''}", file=sys.stderr, flush=True)
