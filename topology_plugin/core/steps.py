"""The steps of a change, frozen, and each of them in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.topology import Configuration

TextFile: TypeAlias = Literal["topology.yaml", "topology.conf"]
NO_PLUGIN = "topology/default"  # `topology/flat` is a name that older releases don't know (BR-16)
NO_LINE = ""  # no TopologyPlugin line at all


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
    """In `path`, one word on the line of each partition: `changes`, partition → (word in force, word to be).

    `words`: all the words that this change sets or keeps, from which the file is edited as it is at that moment;
    `restore`: the configuration whose lines come back as they were written, where that gives these words.
    """

    path: str
    changes: Mapping[str, tuple[str | None, str | None]]
    words: Mapping[str, str | None]
    restore: SlurmConf | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True)
class SetPlugin:
    """The value of `TopologyPlugin` in `path`; `former` None: the line is added; `value` NO_LINE: it goes."""

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


def sentence(step: Step) -> str:
    match step:
        case KeepGeneration(number):
            return f"keep generation {number} in the registry and in the state directory"
        case WriteText(file, data, former, passing):
            how = "replace" if former is not None else "write"
            more = ", for the moment with the topologies that words still name" if passing else ""
            return f"{how} {file} ({len(data)} bytes){more}"
        case RemoveText(file, _):
            return f"remove {file}"
        case SetWords(path, changes, _, _):
            what = [_change(partition, *change) for partition, change in changes.items()]
            return f"in {path}: " + ("; ".join(what) or "Topology= goes from the PartitionName=DEFAULT line")
        case SetPlugin(path, former, value, _):
            if value == NO_LINE:
                return f"in {path}: the line TopologyPlugin={former} goes"
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
