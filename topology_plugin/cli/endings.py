"""How a command ends: a documented code, and a sentence for what an operator can mend, never a stack trace."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from io import TextIOWrapper

from topology_plugin.cli.talk import say
from topology_plugin.core.issues import InputError, PassError

EXIT_FAILED, EXIT_USAGE, EXIT_PENDING, EXIT_WRONG = 1, 2, 3, 4
EXIT_INTERRUPTED = 130


def exit_code(run: Callable[[], object]) -> int:
    """Of a command that returns its code, or nothing."""
    if isinstance(sys.stdout, TextIOWrapper):  # names that are no text, terminals that cannot draw a tree
        sys.stdout.reconfigure(errors="replace")
    try:
        code = run()
        return code if isinstance(code, int) else 0
    except InputError as error:
        for issue in error.issues:
            say(_with_remedy(issue))
        return EXIT_USAGE
    except PassError as error:
        say(_with_remedy(error))
        return EXIT_FAILED
    except BrokenPipeError:
        return EXIT_FAILED
    except OSError as error:  # a full disk, a directory that may not be read: the machine's trouble, in its own words
        where = f"{error.filename}: " if error.filename else ""
        say(_with_remedy(f"{where}{error.strerror or error}"))
        return EXIT_FAILED
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    finally:
        _give_up_unwritten()


def _with_remedy(what: object) -> str:
    denied = os.geteuid() != 0 and "ermission denied" in str(what) and "as root" not in str(what)
    return f"{what}{' (run it as root)' if denied else ''}"


def _give_up_unwritten() -> None:
    """Else Python tries once more as it ends, with words and an exit code of its own."""
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
