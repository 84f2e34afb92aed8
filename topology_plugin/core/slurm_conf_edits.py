"""Edits of slurm.conf that change one word and keep every other byte.

`Topology=WORD` on PartitionName lines, and the value of a parameter (24.11: TopologyPlugin). All functions are pure,
from text to text, and give back unchanged what needs no change, so that a second application does nothing.

Where a word stands, only its value is replaced (quotes stay). Where none stands, ` Topology=WORD` goes behind the last
word of the entry, before a comment or continuation; taking it away takes exactly that away again.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from topology_plugin.core.slurm_conf import ConfPartition, SlurmConf, parse
from topology_plugin.core.slurm_conf_lines import BLANKS, BOM, LogicalLine, logical_lines, offsets_of, pairs_of

_WORD = re.compile(r"[^\s\"#\\=]+")
_DEFAULT = "DEFAULT"


@dataclass(frozen=True)
class _Entry:
    """A PartitionName line, `text[start:end]`; of several with one name (DEFAULT) `ordinal` counts from 0."""

    name: str
    ordinal: int
    number: int
    start: int
    end: int
    raw: str


def set_partition_word(text: str, partition: str, word: str | None) -> str:
    """The text with `Topology=word` on that partition's own line; None removes the word. KeyError without such a line.

    "DEFAULT" addresses the lines of PartitionName=DEFAULT, all of them. ValueError for a word that cannot stand there,
    above all an empty one, of which slurmctld dies.
    """
    _check(word)
    name = _DEFAULT if partition.upper() == _DEFAULT else partition
    if all(entry.name != name for entry in _entries(text)):
        raise KeyError(partition)

    def edit(entry: _Entry) -> str:
        # Slurm refuses a second line for one partition; whoever mends that decides which of the two goes.
        mine = entry.name == name and (entry.ordinal == 0 or name == _DEFAULT)
        return _with_word(entry.raw, word) if mine else entry.raw

    return _edited(text, edit)


def edit_words(conf: SlurmConf, words: Mapping[str, str | None]) -> dict[str, str]:
    """Path → new text, of the files that change, so that each partition in `words` has that word in force, or none.

    All other partitions keep theirs. A word inherited from PartitionName=DEFAULT counts: who inherits what it should
    have is not touched. If a partition is to have none but inherits one, that goes from the DEFAULT lines, and others
    that inherited it get it on lines of their own. KeyError for an unknown partition; ValueError as set_partition_word.
    """
    for word in words.values():
        _check(word)
    inherited = {name: conf.partitions[name].inherited_topology for name in words}
    clear = any(word is None and inherited[name] is not None for name, word in words.items())
    wanted = {name: _own_word(partition, words, clear) for name, partition in conf.partitions.items()}

    def edit(path: str, entry: _Entry) -> str:
        if entry.name == _DEFAULT:
            return _with_word(entry.raw, None) if clear else entry.raw
        partition = conf.partitions[entry.name]
        ours = (partition.file, partition.line) == (path, entry.number)
        word = wanted[entry.name]
        return _with_word(entry.raw, word) if ours and word != partition.own_topology else entry.raw

    return _edited_files(conf, edit)


def restore_words(conf: SlurmConf, former: SlurmConf) -> dict[str, str]:
    """Path → new text, of the files that change, so that partitions of `conf` have the words they had in `former`.

    A line on which only the word changed since becomes what it was, byte for byte, wherever on it the word stood; on
    any other line only the word changes. Partitions that `former` doesn't know keep theirs.
    """
    before = {(file.path, e.name, e.ordinal): e.raw for file in former.files for e in _entries(file.text)}

    def edit(path: str, entry: _Entry) -> str:
        old = before.get((path, entry.name, entry.ordinal))
        return old if old is not None and _with_word(old, _word_of(entry.raw)) == entry.raw else entry.raw

    texts = {file.path: file.text for file in conf.files} | _edited_files(conf, edit)
    restored = parse(conf.files[0].path, texts.get)
    words = {name: word for name, word in former.words().items() if name in restored.partitions}
    texts |= edit_words(restored, words)
    return {file.path: texts[file.path] for file in conf.files if texts[file.path] != file.text}


def set_parameter(text: str, key: str, value: str | None) -> str:
    """The text with that value for a parameter: the last line that sets it changes; one is added if there is none.

    None removes all lines that set it: a line that holds nothing else wholly, so that adding and removing leaves no
    trace. ValueError for a value that cannot stand there unquoted.
    """
    _check(value)
    lines = [line for line in logical_lines(text) if _key_of(line) == key.lower()]
    if value is None:
        for line in reversed(lines):
            text = text[: line.start] + _without_parameter(text[line.start : line.end]) + text[line.end :]
        return text
    if not lines:
        return _with_parameter_added(text, f"{key}={value}")
    raw = text[lines[-1].start : lines[-1].end]
    line, offsets = _sole_line(raw)
    pair = pairs_of(line.content)[0][0]
    if pair.value == value:
        return text
    first, last = offsets[pair.value_start - 1] + 1, offsets[pair.value_end - 1] + 1
    return text[: lines[-1].start] + raw[:first] + value + raw[last:] + text[lines[-1].end :]


def edit_parameter(conf: SlurmConf, key: str, value: str | None) -> dict[str, str]:
    """Path → new text, of the files that change, so that the parameter has that value, or is not set.

    The line whose value is in force changes, in whichever file it stands; a missing one is added to the main file.
    """
    if value is None:
        texts = {file.path: set_parameter(file.text, key, None) for file in conf.files}
    else:
        path = conf.parameter_lines.get(key.lower(), (conf.files[0].path, 0))[0]
        texts = {file.path: set_parameter(file.text, key, value) for file in conf.files if file.path == path}
    return {file.path: texts[file.path] for file in conf.files if texts.get(file.path, file.text) != file.text}


def _check(word: str | None) -> None:
    if word is not None and not _WORD.fullmatch(word):
        raise ValueError(f"{word!r} cannot stand in slurm.conf: empty, or with a blank, quote, #, = or backslash")


def _own_word(partition: ConfPartition, words: Mapping[str, str | None], clear: bool) -> str | None:
    """What the partition's own line must say."""
    own, inherited = partition.own_topology, partition.inherited_topology
    if partition.name not in words:
        return (inherited or None) if clear and own is None else own
    word = words[partition.name]
    return word if clear or word != inherited or word == own else None


def _entries(text: str) -> Iterator[_Entry]:
    seen: Counter[str] = Counter()
    for line in logical_lines(text):
        if line.content.lstrip(BLANKS)[:13].lower() != "partitionname":
            continue
        pairs = pairs_of(line.content)[0]
        if pairs and pairs[0].key.lower() == "partitionname":
            name = _DEFAULT if pairs[0].value.upper() == _DEFAULT else pairs[0].value
            yield _Entry(name, seen[name], line.number, line.start, line.end, text[line.start : line.end])
            seen[name] += 1


def _edited(text: str, edit: Callable[[_Entry], str]) -> str:
    pieces: list[str] = []
    at = 0
    for entry in _entries(text):
        pieces += (text[at : entry.start], edit(entry))
        at = entry.end
    return "".join((*pieces, text[at:]))


def _edited_files(conf: SlurmConf, edit: Callable[[str, _Entry], str]) -> dict[str, str]:
    changed: dict[str, str] = {}
    for file in conf.files:
        text = _edited(file.text, partial(edit, file.path))
        if text != file.text:
            changed[file.path] = text
    return changed


def _sole_line(raw: str) -> tuple[LogicalLine, Sequence[int]]:
    line = next(logical_lines(raw))
    return line, offsets_of(raw, line)


def _word_of(raw: str) -> str | None:
    words = [pair.value for pair in pairs_of(next(logical_lines(raw)).content)[0] if pair.key.lower() == "topology"]
    return (words[-1] or None) if words else None


def _with_word(raw: str, word: str | None) -> str:
    """A PartitionName line with that word."""
    line, offsets = _sole_line(raw)
    pairs = pairs_of(line.content)[0]
    topologies = [pair for pair in pairs[1:] if pair.key.lower() == "topology"]
    if word is None:
        for pair in reversed(topologies):
            raw = _without_blanks(raw[: offsets[pair.start]]) + raw[offsets[pair.end - 1] + 1 :]
        return raw
    if not topologies:
        end = offsets[pairs[-1].end - 1] + 1
        return f"{raw[:end]} Topology={word}{raw[end:]}"
    # Of several on one line the last one wins.
    pair = topologies[-1]
    if pair.value == word:
        return raw
    first, last = offsets[pair.value_start - 1] + 1, offsets[pair.value_end - 1] + 1
    return raw[:first] + word + raw[last:]


def _without_blanks(before: str) -> str:
    """What stands before a word that goes, without the blanks that set it off. A backslash that escaped such a blank
    goes too: at the end of a line it would join the next one."""
    before = before.rstrip(" \t")
    while (len(before) - len(before.rstrip("\\"))) % 2:
        before = before[:-1].rstrip(" \t")
    return before


def _key_of(line: LogicalLine) -> str | None:
    pairs = pairs_of(line.content)[0]
    return pairs[0].key.lower() if pairs else None


def _without_parameter(raw: str) -> str:
    line, offsets = _sole_line(raw)
    pair = pairs_of(line.content)[0][0]
    rest = raw[: offsets[pair.start]] + raw[offsets[pair.end - 1] + 1 :]
    return rest if rest.strip(BLANKS) else ""


def _with_parameter_added(text: str, line: str) -> str:
    """Behind the first line that says something, so that the comments above it stay with it; as a whole new line, so
    that it can be taken away without a trace."""
    at = len(BOM) if text.startswith(BOM) else 0
    first = next(logical_lines(text), None)
    if first is not None:
        # Behind a line that a backslash leaves open, or that has no end, nothing can be added.
        closed = len(list(logical_lines(f"{text[first.start : first.end]}{line}"))) == 2
        at = first.end if closed else first.start
    newline = "\r\n" if "\r\n" in text else "\n"
    return f"{text[:at]}{line}{newline}{text[at:]}"
