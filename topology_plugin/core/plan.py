"""A change as data: frozen steps in an order in which slurmctld starts from what is on disk after every one of them.

The invariant, from Slurm 25.05 on: every topology that a `Topology=` word names is defined in topology.yaml. So a
topology comes before the words that name it and goes after them; where one change does both, topology.yaml first holds
the new topologies and those old ones that words still name, and loses the latter last.

Up to 24.11: `TopologyPlugin=topology/<kind>` stands only beside a topology.conf of that kind. So topology.conf comes
before the word and goes after it, and between two kinds the word is `topology/default` for a moment.

A plan is a function of what is on disk and what is to be there, so undoing is planning the way back from wherever a
failure, a kill or another writer left the files.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from topology_plugin.core import topology_yaml
from topology_plugin.core.issues import InputError
from topology_plugin.core.topology import Configuration, Topology

TextFile: TypeAlias = Literal["topology.yaml", "topology.conf"]
NO_PLUGIN = "topology/default"  # `topology/flat` is a name that older releases don't know (BR-16)


@dataclass(frozen=True)
class Disk:
    """What stands on disk. `words`: file (slurm.conf or an Include, in Slurm's order of reading) → partition → its word
    there (None: the PartitionName line has no word). `plugin`: the value of `TopologyPlugin`, None if no line says it;
    `plugin_file`: where that line stands, or slurm.conf, where it would be added."""

    topology_yaml: bytes | None
    topology_conf: bytes | None
    words: Mapping[str, Mapping[str, str | None]]
    plugin: str | None
    plugin_file: str

    @property
    def partitions(self) -> dict[str, str | None]:
        return {partition: word for words in self.words.values() for partition, word in words.items()}

    @property
    def named(self) -> frozenset[str]:
        """The topologies that words name."""
        return frozenset(word for word in self.partitions.values() if word is not None)

    def topologies(self) -> tuple[Topology, ...]:
        """What topology.yaml defines; () if there is none or Slurm could not read it."""
        if self.topology_yaml is None:
            return ()
        try:
            return topology_yaml.parse(self.topology_yaml.decode(errors="replace")).topologies
        except InputError:
            return ()


@dataclass(frozen=True)
class Target:
    """What is to stand there. `topology_yaml`, `topology_conf` None: no such file; `words`: only the partitions that
    may change; `plugin` None: the line stays as it is. `configuration`: what slurmctld then has loaded, for the
    read-back (None: nothing of ours, so nothing to compare)."""

    topology_yaml: bytes | None
    topology_conf: bytes | None
    words: Mapping[str, str | None]
    plugin: str | None = None
    configuration: Configuration | None = None


@dataclass(frozen=True)
class KeepGeneration:
    """The new generation complete on disk and copied to state_dir, before the first live file is touched."""

    number: int


@dataclass(frozen=True)
class WriteText:
    """`former`: sha256 of what is replaced, None if nothing stood there. `passing`: another write of it follows."""

    file: TextFile
    data: bytes
    former: str | None
    passing: bool = False


@dataclass(frozen=True)
class RemoveText:
    file: TextFile
    former: str


@dataclass(frozen=True)
class SetWords:
    """In `path`, one word on the line of each partition: partition → (word that stands there, word to be)."""

    path: str
    changes: Mapping[str, tuple[str | None, str | None]]


@dataclass(frozen=True)
class SetPlugin:
    """The value of `TopologyPlugin` in `path`; `former` None: the line is added."""

    path: str
    former: str | None
    value: str
    passing: bool = False


@dataclass(frozen=True)
class Reconfigure:
    """`scontrol reconfigure`, once; no answer in time is not failure."""


@dataclass(frozen=True)
class ReadBack:
    """What slurmctld has loaded equals this."""

    configuration: Configuration


@dataclass(frozen=True)
class MoveCurrent:
    """`current` names the generation."""

    number: int


FileStep: TypeAlias = "WriteText | RemoveText | SetWords | SetPlugin"
Step: TypeAlias = "KeepGeneration | FileStep | Reconfigure | ReadBack | MoveCurrent"


@dataclass(frozen=True)
class Plan:
    """`steps` in order; none: everything is as it is to be."""

    steps: tuple[Step, ...] = ()
    target: Target | None = field(default=None, compare=False)

    def __bool__(self) -> bool:
        return bool(self.steps)

    @property
    def file_steps(self) -> tuple[FileStep, ...]:
        return tuple(s for s in self.steps if isinstance(s, (WriteText, RemoveText, SetWords, SetPlugin)))


def plan(
    disk: Disk,
    target: Target,
    *,
    number: int | None = None,
    reconfigure: bool = True,
    loaded_differs: bool = False,
    classic: bool = False,
) -> Plan:
    """The steps from `disk` to `target`.

    `number`: of the generation to keep and make current, None if it is kept already (or none is made).
    `reconfigure` False: files only (`--offline`, guard). `loaded_differs`: slurmctld runs something else than the
    target, so it is reconfigured even if no file changes. `classic`: Slurm up to 24.11.
    """
    files = tuple(_classic(disk, target) if classic else _modern(disk, target))
    steps: list[Step] = []
    if number is not None:
        steps.append(KeepGeneration(number))
    steps.extend(files)
    if reconfigure and (files or loaded_differs):
        steps.append(Reconfigure())
        if target.configuration is not None:
            steps.append(ReadBack(target.configuration))
    if number is not None:
        steps.append(MoveCurrent(number))
    return Plan(tuple(steps), target)


def _modern(disk: Disk, target: Target) -> Iterator[FileStep]:
    words = tuple(_words(disk, target))
    text = target.topology_yaml
    if text is None:
        # Without words nothing names a topology; what then stands in for topology.yaml is put right before it goes.
        yield from words
        yield from _plugin_and_conf(disk, target)
        if disk.topology_yaml is not None:
            yield RemoveText("topology.yaml", digest(disk.topology_yaml))
        return
    changed = disk.topology_yaml != text
    if not words or not changed:
        if changed:
            yield WriteText("topology.yaml", text, _digest(disk.topology_yaml))
        yield from words
        yield from _plugin_and_conf(disk, target)
        return
    defined = disk.topologies()
    lost = disk.named - defined_names(text)
    named_then = frozenset(after for step in words for _, after in step.changes.values() if after is not None)
    if not lost:
        yield WriteText("topology.yaml", text, _digest(disk.topology_yaml))
        yield from words
    elif named_then <= {topology.name for topology in defined}:
        yield from words
        yield WriteText("topology.yaml", text, _digest(disk.topology_yaml))
    else:
        still = tuple(topology for topology in defined if topology.name in lost)
        both = union(text, still) if still else text
        yield WriteText("topology.yaml", both, _digest(disk.topology_yaml), passing=both != text)
        yield from words
        if both != text:
            yield WriteText("topology.yaml", text, digest(both))
    yield from _plugin_and_conf(disk, target)


def _classic(disk: Disk, target: Target) -> Iterator[FileStep]:
    # A `Topology=` word is unknown to 24.11, which dies of it: whatever else is to change, the words go first.
    yield from _words(disk, target)
    yield from _plugin_and_conf(disk, target)
    if target.topology_yaml is None and disk.topology_yaml is not None:
        yield RemoveText("topology.yaml", digest(disk.topology_yaml))
    elif target.topology_yaml is not None and target.topology_yaml != disk.topology_yaml:
        yield WriteText("topology.yaml", target.topology_yaml, _digest(disk.topology_yaml))


def _plugin_and_conf(disk: Disk, target: Target) -> Iterator[FileStep]:
    """topology.conf before the word that needs it, the word before the file it no longer needs."""
    now, then = disk.plugin, target.plugin
    text, former = target.topology_conf, disk.topology_conf
    word_changes = then is not None and then != now
    needs_now, needs_then = needs_conf(now), needs_conf(now if then is None else then)
    writes = text is not None and text != former
    if word_changes and needs_now and needs_then:
        yield SetPlugin(disk.plugin_file, now, NO_PLUGIN, passing=True)
        now = NO_PLUGIN
    elif word_changes and not needs_then and then is not None:
        yield SetPlugin(disk.plugin_file, now, then)
        now = then
    if writes and text is not None:
        yield WriteText("topology.conf", text, _digest(former))
    elif text is None and former is not None and not needs_conf(now if then is None else then):
        yield RemoveText("topology.conf", digest(former))
    if then is not None and then != now:
        yield SetPlugin(disk.plugin_file, now, then)


def _words(disk: Disk, target: Target) -> Iterator[SetWords]:
    for path, words in disk.words.items():
        changes = {
            partition: (word, target.words[partition])
            for partition, word in words.items()
            if partition in target.words and target.words[partition] != word
        }
        if changes:
            yield SetWords(path, changes)


def needs_conf(plugin: str | None) -> bool:
    """True if that value of TopologyPlugin makes slurmctld read topology.conf (where there is no topology.yaml)."""
    return plugin is not None and plugin.lower().removeprefix("topology/") in ("tree", "block")


def defined_names(text: bytes) -> frozenset[str]:
    """The topologies a topology.yaml defines; none if Slurm could not read it."""
    try:
        return frozenset(t.name for t in topology_yaml.parse(text.decode(errors="replace")).topologies)
    except InputError:
        return frozenset()


def union(text: bytes, more: tuple[Topology, ...]) -> bytes:
    """topology.yaml with the topologies of `text` first, as they are, and then `more`, none of them the default."""
    rest = tuple(Topology(topology.name, topology.body) for topology in more)
    try:
        wanted = topology_yaml.parse(text.decode(errors="replace")).topologies
    except InputError:
        return text
    return topology_yaml.render(Configuration((*wanted, *rest))).encode()


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(data: bytes | None) -> str | None:
    return None if data is None else digest(data)


def sentences(steps: Plan) -> list[str]:
    """Each step in words, for `--dry-run`."""
    return [_sentence(step) for step in steps.steps]


def _sentence(step: Step) -> str:
    match step:
        case KeepGeneration(number):
            return f"keep generation {number} in the registry and in the state directory"
        case WriteText(file, data, former, passing):
            how = "replace" if former is not None else "write"
            more = ", for the moment with the topologies that words still name" if passing else ""
            return f"{how} {file} ({len(data)} bytes){more}"
        case RemoveText(file, _):
            return f"remove {file}"
        case SetWords(path, changes):
            return f"in {path}: " + "; ".join(_change(p, *change) for p, change in changes.items())
        case SetPlugin(path, former, value, _):
            return f"in {path}: TopologyPlugin={value}" + (f" instead of {former}" if former else " (line added)")
        case Reconfigure():
            return "scontrol reconfigure, once"
        case ReadBack(configuration):
            names = ", ".join(topology.name for topology in configuration.topologies)
            return f"read back that slurmctld runs {names} and the partitions' words"
        case MoveCurrent(number):
            return f"generation {number} becomes the current one"


def _change(partition: str, before: str | None, after: str | None) -> str:
    if after is None:
        return f"partition {partition} loses Topology={before}"
    return f"partition {partition} gets Topology={after}" + (f" instead of {before}" if before else "")
