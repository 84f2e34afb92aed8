"""Which `--segment` a block partition can serve.

A segment lies in one block, and a segmented job may use any number of blocks: S nodes a segment, N nodes in all go if
the blocks hold N/S segments between them (run: equal to slurmctld's answers for S up to the base size, N up to all
nodes of 13 shapes; tests/slurm/test_placement_real.py). Above the base size a segment may cross blocks: not offered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def fits(counts: Sequence[int], size: int, segment: int) -> bool:
    """`counts`: nodes in each block; `size` nodes in segments of `segment` (at most the base size)."""
    return size % segment == 0 and sum(count // segment for count in counts) * segment >= size


def widest(counts: Sequence[int], size: int, limit: int) -> int | None:
    """The largest segment of at most `limit` nodes that goes; None: not even single nodes do."""
    return next((segment for segment in divisors(size, limit) if fits(counts, size, segment)), None)


def divisors(size: int, limit: int) -> Iterator[int]:
    """Segments that Slurm takes for this size, largest first."""
    return (segment for segment in range(min(size, limit), 0, -1) if size % segment == 0)
