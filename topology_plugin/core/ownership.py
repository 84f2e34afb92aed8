"""Whose the topology of this cluster is, and whether we may write.

HyperPod's agent owns it iff its `EnableTopology` is true and a healthy topology file that isn't ours is there.
Otherwise we manage; a healthy topology.yaml, a topology.conf in use or a `Topology=` word that isn't ours stays until
one `merge --adopt`. What slurmctld would die of is nobody's: it is mended.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from topology_plugin.core.disk import Disk
from topology_plugin.core.generation import Generation
from topology_plugin.core.plan import digest, needs_conf
from topology_plugin.core.state import Owner

REVERTS_AN_HOUR = 6
HOUR = 3600.0
RESUME = "end it with `hyperpod-topology resume`"


class Ours(Protocol):
    """What any kept generation holds."""

    def ours_text(self, data: bytes) -> bool: ...
    def ours_word(self, partition: str, word: str | None) -> bool: ...


@dataclass(frozen=True)
class OwnershipNote:
    """ownership.json. `adopted`: what others left was taken over once; `reverts`: when (seconds, this controller's
    clock) somebody undid what we had put in force, the last hour's; `total` of them ever; `stood_back`: too many, until
    `resume`; `seen`: the reverted state that was looked at last, so that it counts once; `members`: which nodes and
    partitions slurm.conf had at the last look: an agent that rewrites it because they change does not mean our words.
    `uninstalled`: an operator had what is ours taken out, for all controllers, until `resume`.
    """

    adopted: bool = False
    reverts: tuple[float, ...] = ()
    total: int = 0
    stood_back: bool = False
    seen: str = ""
    members: str = ""
    uninstalled: bool = False

    @classmethod
    def from_json(cls, note: Mapping[str, Any] | None) -> OwnershipNote:
        note = note or {}
        times, total = note.get("reverts"), note.get("total")
        seen, members = note.get("seen"), note.get("members")
        return cls(
            note.get("adopted") is True,
            tuple(float(t) for t in times if isinstance(t, (int, float))) if isinstance(times, list) else (),
            total if isinstance(total, int) else 0,
            note.get("stood_back") is True,
            seen if isinstance(seen, str) else "",
            members if isinstance(members, str) else "",
            note.get("uninstalled") is True,
        )

    def to_json(self) -> dict[str, Any]:
        return {
            "adopted": self.adopted,
            "reverts": list(self.reverts),
            "total": self.total,
            "stood_back": self.stood_back,
            "seen": self.seen,
            "members": self.members,
            "uninstalled": self.uninstalled,
        }

    def looked(self, disk: Disk, current: Generation | None, now: float, classic: bool = False) -> OwnershipNote:
        """After a look at the files: one revert more, if they were undone since the last look."""
        members = _members(disk)
        if current is None or self.uninstalled or not reverted(disk, current, classic):
            return replace(self, seen="", members=members)
        seen = _signature(disk)
        if seen == self.seen:
            return self
        if self.members not in ("", members):
            return replace(self, seen=seen, members=members)
        reverts = (*(time for time in self.reverts if now - HOUR < time <= now), now)
        back = self.stood_back or len(reverts) > REVERTS_AN_HOUR
        return OwnershipNote(self.adopted, reverts, self.total + 1, back, seen, members)

    def resumed(self) -> OwnershipNote:
        return replace(self, reverts=(), stood_back=False, uninstalled=False)


@dataclass(frozen=True)
class Facts:
    """What the rule looks at. `foreign`: what stands there that is not ours, a phrase each; `foreign_file`: a topology
    file is among it; `healthy`: slurmctld would start from the files."""

    mode: str
    mode_origin: str
    enable_topology: bool | None
    healthy: bool
    foreign: tuple[str, ...] = ()
    foreign_file: bool = False
    note: OwnershipNote = field(default_factory=OwnershipNote)
    adopt: bool = False


def judge(facts: Facts) -> Owner:
    if facts.mode in ("off", "observe"):
        return Owner("nobody", f"mode is {facts.mode} ({facts.mode_origin}): nothing is written", writes=False)
    if facts.note.uninstalled:
        return Owner("nobody", f"uninstalled: nothing is written ({RESUME})", writes=False)
    if facts.note.stood_back:
        what = f"somebody undid our changes more than {REVERTS_AN_HOUR} times within an hour: standing back"
        return Owner("nobody", f"{what} ({RESUME})", writes=False)
    if not facts.healthy:
        return Owner("us", "slurmctld would not start from what stands there: it is mended", writes=True)
    if facts.mode == "manage":
        return Owner("us", f"mode is manage ({facts.mode_origin})", writes=True)
    if facts.enable_topology and facts.foreign_file:
        what = f"HyperPod's agent manages the topology (EnableTopology is true, {facts.foreign[0]})"
        return Owner("agent", f"{what}: nothing is written (mode manage would take over)", writes=False)
    if facts.foreign and not (facts.adopt or facts.note.adopted):
        what = "; ".join(facts.foreign[:3])
        return Owner("operator", f"{what}: nothing is written (`merge --adopt` takes over)", writes=False)
    return Owner("us", "", writes=True)


def foreign(disk: Disk, ours: Ours, classic: bool = False) -> tuple[tuple[str, ...], bool]:
    """(what stands there that is not ours, a phrase each; whether a topology file is among it)."""
    found: list[str] = []
    if not classic and disk.topology_yaml is not None:
        if not ours.ours_text(disk.topology_yaml):
            found.append("a topology.yaml that is not ours is there")
    elif needs_conf(disk.plugin) and disk.topology_conf is not None and not ours.ours_text(disk.topology_conf):
        found.append(f"a topology.conf that is not ours is in use (TopologyPlugin={disk.plugin})")
    is_file = bool(found)
    if not classic:
        words = [f"{p} has Topology={w}" for p, w in disk.words.items() if w and not ours.ours_word(p, w)]
        if words:
            more = f" and {len(words) - 3} more" if len(words) > 3 else ""
            found.append(f"words that are not ours: {', '.join(words[:3])}{more}")
    return tuple(found), is_file


def reverted(disk: Disk, current: Generation, classic: bool = False) -> bool:
    """Whether what the current generation put on disk is no longer there."""
    if classic:
        return current.topology_conf is not None and (current.topology_conf, current.plugin) != (
            disk.topology_conf,
            disk.plugin,
        )
    if current.topology_yaml is None:
        return False
    words = disk.words
    lost = any(word is not None and p in words and words[p] != word for p, word in current.words.items())
    return lost or disk.topology_yaml != current.topology_yaml


def _members(disk: Disk) -> str:
    partitions = (f"{name}={p.nodes_text}" for name, p in disk.conf.partitions.items())
    return digest("\n".join([*disk.conf.nodes, *partitions]).encode("utf-8", "surrogateescape"))[:16]


def _signature(disk: Disk) -> str:
    parts: Sequence[bytes] = [
        _members(disk).encode(),
        disk.topology_yaml or b"",
        disk.topology_conf or b"",
        *(f"{partition}={word}".encode() for partition, word in disk.words.items()),
        (disk.plugin or "").encode(),
    ]
    return digest(b"\0".join(parts))[:16]
