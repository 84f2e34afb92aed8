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

from topology_plugin.core import topology_yaml
from topology_plugin.core.disk import Disk, decoded
from topology_plugin.core.issues import InputError
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.steps import (
    NO_LINE,
    NO_PLUGIN,
    FileStep,
    KeepGeneration,
    MoveCurrent,
    ReadBack,
    Reconfigure,
    RemoveText,
    SetPlugin,
    SetWords,
    Step,
    TextFile,
    WriteText,
    sentence,
)  # fmt: skip
from topology_plugin.core.topology import Configuration, Topology

__all__ = [
    "NO_LINE", "NO_PLUGIN", "FileStep", "KeepGeneration", "MoveCurrent", "Plan", "ReadBack", "Reconfigure",
    "RemoveText", "SetPlugin", "SetWords", "Step", "Target", "TextFile", "WriteText", "defined_names", "digest",
    "needs_conf", "plan", "sentence", "sentences", "union",
]  # fmt: skip


@dataclass(frozen=True)
class Target:
    """What is to stand there. `topology_yaml`, `topology_conf` None: no such file; `words`: only the partitions that
    may change; `plugin` None: that line stays as it is. `configuration`: what slurmctld then has loaded, for the
    read-back (None: nothing of ours, so nothing to compare). `restore`: for an undo, slurm.conf as it was."""

    topology_yaml: bytes | None
    topology_conf: bytes | None
    words: Mapping[str, str | None]
    plugin: str | None = None
    configuration: Configuration | None = None
    restore: SlurmConf | None = field(default=None, compare=False, repr=False)


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
    text, former = target.topology_yaml, disk.topology_yaml
    if text is None:
        # Without words nothing names a topology; what then stands in for topology.yaml is put right before it goes.
        yield from words
        yield from _plugin_and_conf(disk, target)
        if former is not None:
            yield RemoveText("topology.yaml", digest(former))
        return
    yield from _yaml_and_words(disk, text, words)
    yield from _plugin_and_conf(disk, target)


def _yaml_and_words(disk: Disk, text: bytes, words: tuple[SetWords, ...]) -> Iterator[FileStep]:
    former = disk.topology_yaml
    if former == text:
        yield from words
        return
    write = WriteText("topology.yaml", text, _digest(former))
    defined = _defined(former)
    lost = disk.named - {topology.name for topology in _defined(text)}
    then = {after for step in words for _, after in step.changes.values() if after is not None}
    if not words or not lost:
        yield write
        yield from words
        return
    if then <= {topology.name for topology in defined}:
        yield from words
        yield write
        return
    both = union(text, tuple(topology for topology in defined if topology.name in lost))
    if both == text:  # the old file defines none of them: what stands there is not startable anyway
        yield write
        yield from words
        return
    yield WriteText("topology.yaml", both, _digest(former), passing=True)
    yield from words
    yield WriteText("topology.yaml", text, digest(both))


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
    now = disk.plugin
    then = None if target.plugin == (now or NO_LINE) else target.plugin
    text, former = target.topology_conf, disk.topology_conf
    needs_now, needs_then = needs_conf(now), needs_conf(now if then is None else then)
    writes = text is not None and text != former
    if then is not None and needs_now and needs_then:
        yield SetPlugin(disk.plugin_file, now, NO_PLUGIN, passing=True)
        now = NO_PLUGIN
    elif then is not None and not needs_then:
        yield SetPlugin(disk.plugin_file, now, then)
        now = then
    if writes and text is not None:
        yield WriteText("topology.conf", text, _digest(former))
    elif text is None and former is not None and not needs_conf(now if then is None else then):
        yield RemoveText("topology.conf", digest(former))
    if then is not None and then != now:
        yield SetPlugin(disk.plugin_file, now, then)


def _words(disk: Disk, target: Target) -> Iterator[SetWords]:
    now = disk.words
    # A word inherited from PartitionName=DEFAULT may have to move to the partition's own line, in another file: it is
    # named here because after the DEFAULT line's edit nothing would tell it any more.
    inherited = {p.name: p.topology for p in disk.conf.partitions.values() if p.own_topology is None and p.topology}
    words = {**inherited, **target.words}
    for path in disk.word_edits(words, target.restore):
        changes = {
            partition.name: (now[partition.name], words[partition.name])
            for partition in disk.conf.partitions.values()
            if partition.file == path and words.get(partition.name, now[partition.name]) != now[partition.name]
        }
        yield SetWords(path, changes, words, target.restore)


def needs_conf(plugin: str | None) -> bool:
    """True if that value of TopologyPlugin makes slurmctld read topology.conf (where there is no topology.yaml)."""
    return plugin is not None and plugin.lower().removeprefix("topology/") in ("tree", "block")


def union(text: bytes, more: tuple[Topology, ...]) -> bytes:
    """topology.yaml with the topologies of `text` first, as they are, and then `more`, none of them the default."""
    rest = tuple(Topology(topology.name, topology.body) for topology in more)
    wanted = _defined(text)
    if not rest or not wanted:
        return text
    return topology_yaml.render(Configuration((*wanted, *rest))).encode()


def _defined(text: bytes | None) -> tuple[Topology, ...]:
    """What a topology.yaml defines; () if there is none or it holds what we cannot read."""
    if text is None:
        return ()
    try:
        return topology_yaml.parse(decoded(text)).topologies
    except InputError:
        return ()


def defined_names(text: bytes | None) -> frozenset[str]:
    """The topologies that a topology.yaml defines; none if it holds what we cannot read."""
    return frozenset(topology.name for topology in _defined(text))


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _digest(data: bytes | None) -> str | None:
    return None if data is None else digest(data)


def sentences(change: Plan) -> list[str]:
    """Each step in words, for `--dry-run`."""
    return [sentence(step) for step in change.steps]
