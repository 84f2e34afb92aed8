"""What slurmctld would start from: slurm.conf with its Includes, topology.yaml and topology.conf."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from topology_plugin.core import slurm_conf, slurm_conf_edits, topology_yaml
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.topology import Configuration

Check: TypeAlias = "Callable[[Disk], Sequence[Issue]]"
"""What of a Disk slurmctld would die of; nothing: healthy."""

DEFAULT_LINE = "DEFAULT"
PLUGIN = "TopologyPlugin"


@dataclass(frozen=True)
class Disk:
    """`topology_yaml`, `topology_conf` None: no such file."""

    conf: SlurmConf
    topology_yaml: bytes | None = None
    topology_conf: bytes | None = None

    @property
    def words(self) -> dict[str, str | None]:
        """Partition → word in force."""
        return self.conf.words()

    @property
    def named(self) -> frozenset[str]:
        """The topologies that words name."""
        return frozenset(word for word in self.words.values() if word is not None)

    @property
    def plugin(self) -> str | None:
        """The value of TopologyPlugin; None: no line says it."""
        return self.conf.parameters.get(PLUGIN.lower())

    @property
    def plugin_file(self) -> str:
        """Where that line stands, or slurm.conf, where it would be added."""
        place = self.conf.parameter_lines.get(PLUGIN.lower())
        return place[0] if place else self.conf.files[0].path

    def configuration(self) -> Configuration | None:
        """What slurmctld (25.05 or newer) would load; None if topology.yaml is missing or holds what we can't read."""
        if self.topology_yaml is None:
            return None
        try:
            return replace(topology_yaml.parse(decoded(self.topology_yaml)), words=self.words)
        except InputError:
            return None

    def word_edits(self, words: Mapping[str, str | None], restore: SlurmConf | None = None) -> dict[str, str]:
        """Path → new text, in slurmctld's order of reading, of the files to change for these words to be in force.

        Partitions that are not there are left out. The key "DEFAULT" with None clears PartitionName=DEFAULT lines too,
        whether or not a partition inherits from them (24.11 dies of the word itself). `restore`: lines on which nothing
        else changed since become what they were there, byte for byte, provided that gives the same words.
        """
        there = {partition: word for partition, word in words.items() if partition in self.conf.partitions}
        edits = self._restored({**self.words, **there}, restore) if restore else None
        if edits is None:
            edits = slurm_conf_edits.edit_words(self.conf, there)
        if DEFAULT_LINE in words:
            for file in self.conf.files:
                text = edits.get(file.path, file.text)
                with contextlib.suppress(KeyError):
                    edits[file.path] = slurm_conf_edits.set_partition_word(text, DEFAULT_LINE, words[DEFAULT_LINE])
        return {file.path: edits[file.path] for file in self.conf.files if edits.get(file.path, file.text) != file.text}

    def _restored(self, wanted: Mapping[str, str | None], former: SlurmConf) -> dict[str, str] | None:
        edits = slurm_conf_edits.restore_words(self.conf, former)
        return edits if self.with_texts(edits).words == wanted else None

    def plugin_edits(self, value: str) -> dict[str, str]:
        """Path → new text, of the files that change, for TopologyPlugin to be `value`; "": no line says it."""
        return slurm_conf_edits.edit_parameter(self.conf, PLUGIN, value or None)

    def text(self, path: str) -> str:
        return next(file.text for file in self.conf.files if file.path == path)

    def with_texts(self, texts: Mapping[str, str]) -> Disk:
        """The same with other contents of slurm.conf and its Includes."""
        known = {file.path: file.text for file in self.conf.files}
        return replace(self, conf=slurm_conf.parse(self.conf.files[0].path, {**known, **texts}.get))


def decoded(data: bytes) -> str:
    """A text file's text with every byte kept."""
    return data.decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")
