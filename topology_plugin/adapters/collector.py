"""Python's collector of cycles, which large passes do without."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
    """No collection in here, nor because of what was made in here. 16,384 nodes make the collector walk all of them
    many times, a third of a pass, and find nothing: there are no cycles. May be nested; also a decorator."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            # Everything goes to the oldest generation, as if a collection had found it in use: else the very next
            # object would set one off, for a tenth of a pass.
            gc.freeze()
            gc.unfreeze()
            gc.enable()
