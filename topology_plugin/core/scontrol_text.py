"""What scontrol prints, a line for each node or partition (`oneliner`), in the shape of its JSON.

Why not its JSON: for 16,384 nodes `scontrol show nodes --json` takes 7.4 s of CPU and 40 MB, the lines 0.2 s and 9 MB;
and each start of any Slurm command reads slurm.conf, 0.9 s there, so several questions go into one session (run).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

PROMPT = "scontrol: "
DYNAMIC = "DYNAMIC_NORM"  # a node that registered itself, or that `scontrol create` made
# What follows a text that an administrator typed: `[root@2025-11-30T08:12:00]`.
_SIGNED = re.compile(r"(.*?) \[[^\[\]\s@]*@[^\[\]\s]*\](?: |$)")
_TOPOLOGY = re.compile(r" Topology=(\S+)")
_NUMBERS = {
    "cpus": " CPUTot=",
    "real_memory": " RealMemory=",
    "temporary_disk": " TmpDisk=",
    "sockets": " Sockets=",
    "cores": " CoresPerSocket=",
    "threads": " ThreadsPerCore=",
    "specialized_cores": " CoreSpecCount=",
    "weight": " Weight=",
}


def sections(text: str, commands: Sequence[str]) -> list[str] | None:
    """What each of `commands`, typed into one scontrol, printed; None: this is no such session.

    With readline scontrol repeats the command behind its prompt, without it the answer begins there.
    """
    starts = _behind_prompts(text)
    if len(starts) < len(commands):
        return None
    parts: list[str] = []
    for command, start, following in zip(commands, starts, (*starts[1:], len(text) + len(PROMPT) + 1), strict=False):
        start += len(command) if text.startswith(command, start) else 0
        while text.startswith("\n", start):
            start += 1
        parts.append(text[start : max(start, following - len(PROMPT) - 1)])
    return parts


def _behind_prompts(text: str) -> list[int]:
    """Where each prompt ends. After a command that printed nothing the next one stands on the same line."""
    starts: list[int] = []
    at = 0
    while at >= 0:
        while text.startswith(PROMPT, at):
            at += len(PROMPT)
            starts.append(at)
        at = text.find(f"\n{PROMPT}", at) + 1 or -1
    return starts


def nodes(text: str, whole: bool = True) -> list[dict[str, Any]] | None:
    """The nodes in the output of `show nodes`; None: it holds none, and does not say that there are none.

    As `scontrol show nodes --json` has them, but only name, address, hostname, state, features, reason, instance_id,
    topology (only those that were given one), gres, cpus, real_memory and the like. `whole` False: no hardware, and
    address, hostname and features only of dynamic nodes (of the others slurm.conf says them).
    """
    found = [_node(line, whole) for line in _lines(text) if line.startswith("NodeName=")]
    return found if found or "No nodes in the system" in text else None


def words(text: str) -> dict[str, str | None] | None:
    """Partition → its `Topology=` word, from the output of `show partitions`; None: it holds no partition."""
    found: dict[str, str | None] = {}
    for line in _lines(text):
        if line.startswith("PartitionName="):
            word = _TOPOLOGY.search(line)
            found[_field(line, "PartitionName=")] = word[1] if word else None
    return found or None


def _lines(text: str) -> Iterator[str]:
    """One after the other: of 9 MB no second copy is made."""
    start = 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        yield text[start:end]
        start = end + 1


def _node(line: str, whole: bool) -> dict[str, Any]:
    written, reason = 0, ""
    if " Reason=" in line and (signed := _SIGNED.match(line, line.index(" Reason=") + len(" Reason="))):
        written, reason = signed.end(1), signed[1]
    node: dict[str, Any] = {
        "name": line[9 : line.find(" ")],
        "state": _field(line, " State=").split("+"),
        "reason": reason,
        "instance_id": "",
    }
    if whole or DYNAMIC in node["state"]:
        features = _field(line, " AvailableFeatures=")
        node["address"], node["hostname"] = _field(line, " NodeAddr="), _field(line, " NodeHostName=")
        node["features"] = features.split(",") if features else []
    # These stand behind all that administrators may write (Reason, Comment, Extra): the last one is Slurm's own.
    for key, name in (("instance_id", " InstanceId="), ("topology", " Topology=")):
        if (own := line.rfind(name, written)) >= 0:
            node[key] = _field(line, name, own)
    if whole:
        node["gres"] = _field(line, " Gres=")
        for key, name in _NUMBERS.items():
            value = _field(line, name)
            node[key] = int(value) if value.isdecimal() else 0
    return node


def _field(line: str, key: str, start: int = 0) -> str:
    """The value of `key`; "" if it is not there or is nothing."""
    at = line.find(key, start)
    if at < 0:
        return ""
    at += len(key)
    end = line.find(" ", at)
    value = line[at:] if end < 0 else line[at:end]
    return "" if value == "(null)" else value
