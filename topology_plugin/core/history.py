"""The generations as a table for `history`: what was in force when, put there by whom, and how it differs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from topology_plugin.core import topology_conf, topology_yaml
from topology_plugin.core.disk import decoded
from topology_plugin.core.generation import Generation
from topology_plugin.core.issues import InputError
from topology_plugin.core.topology import Blocks, Topology


@dataclass(frozen=True)
class Entry:
    """`status`: current, finished, or begun (a killed or failed pass left it). `time`: seconds since the epoch on the
    controller, None: not noted. `topologies`: name → number of nodes that it places (flat: 0); `block_sizes`: of those
    with blocks, base first."""

    number: int
    status: str
    time: float | None
    by: str
    slurm_version: str | None
    topologies: Mapping[str, int]
    words: Mapping[str, str]
    block_sizes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "status": self.status,
            "time": self.time,
            "by": self.by,
            "slurm_version": self.slurm_version,
            "topologies": dict(self.topologies),
            "words": dict(self.words),
            "block_sizes": {name: list(sizes) for name, sizes in self.block_sizes.items()},
        }


def entries(generations: Sequence[Generation], current: Generation | None) -> Iterator[Entry]:
    """Newest first."""
    for generation in reversed(generations):
        number = current.number if current is not None else None
        status = "current" if generation.number == number else "finished" if generation.finished else "begun"
        time, version, of = (generation.meta.get(key) for key in ("time", "slurm_version", "of"))
        by = str(generation.meta.get("by") or "merge")
        topologies = _topologies(generation)
        yield Entry(
            generation.number,
            status,
            float(time) if isinstance(time, (int, float)) else None,
            f"{by} to {of}" if of is not None else by,
            version if isinstance(version, str) else None,
            {topology.name: len(set(topology.body.nodes())) for topology in topologies},
            {partition: word for partition, word in generation.words.items() if word is not None},
            {topology.name: topology.body.sizes for topology in topologies if isinstance(topology.body, Blocks)},
        )


def _topologies(generation: Generation) -> tuple[Topology, ...]:
    try:
        if generation.topology_yaml is not None:
            return topology_yaml.parse(decoded(generation.topology_yaml)).topologies
        if generation.topology_conf is not None:
            return (topology_conf.of_cluster(decoded(generation.topology_conf)),)
    except InputError:
        pass
    return ()
