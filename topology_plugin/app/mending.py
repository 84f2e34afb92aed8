"""What an unhealthy pair of slurm.conf and topology file becomes: the last good generation, else flat alone."""

from __future__ import annotations

from topology_plugin.adapters.generations import Generations
from topology_plugin.core import target
from topology_plugin.core.disk import Check, Disk
from topology_plugin.core.issues import InputError
from topology_plugin.core.plan import Target


def mended(disk: Disk, generations: Generations, check: Check, classic: bool) -> tuple[Target, str]:
    """(what is to stand there, in words). The newest finished generation that passes against slurm.conf as it is."""
    for generation in reversed(generations.finished()):
        wanted = target.of_generation(generation, disk, classic)
        if wanted is None:
            continue
        try:
            then = target.in_place(disk, wanted, classic)
        except (InputError, ValueError):
            continue
        if not check(then):
            return wanted, f"generation {generation.number}"
    return target.flat(disk, classic), "flat" if classic else "topology.yaml with flat alone"
