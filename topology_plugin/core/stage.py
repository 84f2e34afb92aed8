"""What a rehearsal puts on the stage: a slurm.conf written from nothing, and the questions worth asking there.

Nothing of the live slurm.conf is copied: no host, port, path, key or program. Nodes are EXTERNAL (24.11: CLOUD), so no
machine is ever contacted for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from topology_plugin.core import job_sizes
from topology_plugin.core.hostlists import fold
from topology_plugin.core.live import Job
from topology_plugin.core.rules import V25_05, Numbers
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.topology import Configuration

MOST_QUESTIONS = 64
_KEPT_PARAMETERS = {"selecttype": "SelectType", "topologyparam": "TopologyParam", "topologyplugin": "TopologyPlugin"}


@dataclass(frozen=True)
class Question:
    """Would such a job ever run? `arguments`: of sbatch. `jobs`: labels of the pending jobs that ask it.

    `real`: to be asked by a real job, because `--test-only` is wrong about -w: yes to all of them under block, no to
    those that name fewer nodes than they want under any kind (run).
    """

    arguments: tuple[str, ...]
    jobs: tuple[str, ...] = ()
    real: bool = False

    def __str__(self) -> str:
        who = f" (job {', '.join(self.jobs)})" if self.jobs else ""
        return " ".join(self.arguments) + who


@dataclass(frozen=True)
class Scene:
    """What one slurmctld starts from. `topology_yaml`, `topology_conf` None: no such file."""

    conf: str
    topology_yaml: bytes | None = None
    topology_conf: bytes | None = None


@dataclass(frozen=True)
class Stage:
    """`after`: what is to be published; `before`: what is in force, None if that is not known or not worth asking."""

    after: Scene
    before: Scene | None = None
    questions: tuple[Question, ...] = ()
    external: bool = True


def scene(
    conf: SlurmConf,
    topology_yaml: bytes | None,
    topology_conf: bytes | None,
    version: Numbers | None,
    words: Mapping[str, str | None] | None = None,
    dynamic: Iterable[tuple[str, Sequence[str]]] = (),
    saved: Mapping[str, str] | None = None,
) -> Scene:
    """`conf` reduced to nodes, partitions and the few parameters that matter to topologies.

    `words`: in place of those in `conf`; `dynamic`: nodes that only slurmctld knows; `saved`: node → topology that
    slurmctld keeps for it.
    """
    joining = tuple(dynamic)
    lines = [f"{name}={conf.parameters[key]}" for key, name in _KEPT_PARAMETERS.items() if key in conf.parameters]
    lines += _node_lines(conf, joining, saved or {}, "EXTERNAL" if external(version) else "CLOUD")
    # An empty `Topology=` stays one, so that slurmctld dies of it here too.
    own = {name: partition.topology for name, partition in conf.partitions.items()}
    lines += _partition_lines(conf, own if words is None else {**own, **words}, joining)
    return Scene("\n".join(lines) + "\n", topology_yaml, topology_conf)


def external(version: Numbers | None) -> bool:
    """Whether this Slurm has EXTERNAL nodes and `sbatch --external`."""
    return version is None or version >= V25_05


def _node_lines(
    conf: SlurmConf, dynamic: Iterable[tuple[str, Sequence[str]]], saved: Mapping[str, str], state: str
) -> Iterator[str]:
    alike: dict[str, list[str]] = {}
    everyone = [(node.name, node.params) for node in conf.nodes.values()]
    everyone += [(name, {}) for name, _ in dynamic if name not in conf.nodes]
    for node, params in everyone:
        # A node's weight overrides topology; its own Topology= can stop slurmctld.
        kept = f" Weight={params['weight']}" if params.get("weight") else ""
        if word := saved.get(node) or params.get("topology"):
            kept += f" Topology={word}"
        alike.setdefault(kept, []).append(node)
    for extra, names in alike.items():
        if names:
            yield f"NodeName={fold(names)} CPUs=1 State={state}{extra}"


def _partition_lines(
    conf: SlurmConf, words: Mapping[str, str | None], dynamic: tuple[tuple[str, Sequence[str]], ...]
) -> Iterator[str]:
    for name, partition in conf.partitions.items():
        nodes = conf.partition_nodes(name, dynamic)
        parts = [f"PartitionName={name}", f"Nodes={fold(nodes) if nodes else _NOBODY}"]
        if words.get(name) is not None:
            parts.append(f"Topology={words[name]}")
        for key, shown in (("minnodes", "MinNodes"), ("maxnodes", "MaxNodes")):
            if partition.params.get(key):
                parts.append(f"{shown}={partition.params[key]}")
        if partition.default:
            parts.append("Default=YES")
        yield " ".join(parts)


_NOBODY = '""'


# --- questions ---


def questions(
    conf: SlurmConf,
    before: Configuration | None,
    after: Configuration,
    jobs: Iterable[Job] = (),
    most: int = MOST_QUESTIONS,
    version: Numbers | None = None,
) -> tuple[Question, ...]:
    """At most `most`: one that could crash slurmctld for each tree, then the distinct shapes of pending jobs, then the
    edges of the sizes that are refused."""
    shapes: dict[tuple[str, ...], list[str]] = {}
    for job in jobs:
        if not job.pending or not job.nodes_wanted:
            continue
        shapes.setdefault(shape(job), []).append(job.label)
    asked = [Question(arguments) for arguments in _daring_questions(conf, after)]
    asked += [Question(arguments, tuple(labels), "-w" in arguments) for arguments, labels in shapes.items()]
    for arguments in _size_questions(conf, before, after):
        if arguments not in shapes:
            asked.append(Question(arguments))
    return tuple(asked[:most])


def _daring_questions(conf: SlurmConf, after: Configuration) -> Iterator[tuple[str, ...]]:
    """A range that ends above what there is: with leaves at different depths it is slurmctld's end (run)."""
    seen: set[str] = set()
    for name, partition in conf.partitions.items():
        topology = after.of_partition(name)
        if partition.nodes and topology is not None and topology.kind == "tree" and topology.name not in seen:
            seen.add(topology.name)
            yield ("-p", name, "-N", f"1-{len(partition.nodes) + 1}")


def shape(job: Job) -> tuple[str, ...]:
    """What sbatch would be told about the nodes that the job wants."""
    arguments = ["-N", str(job.nodes_wanted)]
    if job.partition:
        arguments[:0] = ["-p", job.partition]
    if job.required:
        arguments += ["-w", fold(job.required)]
    if job.excluded:
        arguments += ["-x", fold(job.excluded)]
    if job.segment:
        arguments += [f"--segment={job.segment}"]
    if job.switches:
        arguments += [f"--switches={job.switches}"]
    return tuple(arguments)


def _size_questions(conf: SlurmConf, before: Configuration | None, after: Configuration) -> Iterator[tuple[str, ...]]:
    """The edges first that the change moves, then those of all refused sizes; each partition's turn by turn."""
    columns: list[list[tuple[str, ...]]] = []
    optional = job_sizes.topo_optional(conf.parameters.get("topologyparam"))
    for name, partition in conf.partitions.items():
        most = min(len(partition.nodes), partition.max_nodes or len(partition.nodes))
        now = after.of_partition(name)
        if not most or now is None or now.kind == "flat":
            continue
        refused = job_sizes.refused(now, partition.nodes, optional)
        former = before.of_partition(name) if before is not None else None
        was = job_sizes.refused(former, partition.nodes, optional) if former is not None else ()
        edges = [*_edges(job_sizes.lost(was, refused)), *_edges(refused), most, 1]
        least = max(1, partition.min_nodes)
        sizes = dict.fromkeys(size for size in edges if least <= size <= most)
        columns.append([("-p", name, "-N", str(size)) for size in sizes])
    for row in range(max(map(len, columns), default=0)):
        yield from (column[row] for column in columns if row < len(column))


def _edges(ranges: job_sizes.Ranges) -> Iterator[int]:
    for low, high in ranges:
        yield from (low, low - 1, high, high + 1)
