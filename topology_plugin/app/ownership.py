"""Whose the topology of this cluster is: the facts for the rule, and the notes that outlive a pass."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timezone

from topology_plugin.adapters.files import FileError
from topology_plugin.adapters.notes import HOLD, OWNERSHIP
from topology_plugin.app.doors import Doors
from topology_plugin.core.cluster_agent import ClusterAgent
from topology_plugin.core.disk import Disk
from topology_plugin.core.ownership import Facts, OwnershipNote, foreign, judge
from topology_plugin.core.settings import Settings
from topology_plugin.core.state import Owner


def owner(settings: Settings, doors: Doors, disk: Disk, agent: ClusterAgent | None, *, adopt: bool) -> Owner:
    """Writes nothing. `agent` None: its file is not there or cannot be read."""
    stands, is_file = foreign(disk, doors.generations, doors.classic)
    return judge(
        Facts(
            settings.mode,
            settings.origin("mode"),
            agent.enable_topology if agent is not None else None,
            not doors.check(disk),
            stands,
            is_file,
            _looked(doors, disk),
            adopt,
        )
    )


def note_reverts(doors: Doors, disk: Disk) -> int:
    """Remember it if somebody undid what we had put in force, once for each time; how often that was in all."""
    before, now = _note(doors), _looked(doors, disk)
    if now != before:
        with contextlib.suppress(FileError):  # a full disk is said elsewhere; a count is not worth a pass
            doors.generations.save_note(OWNERSHIP, now.to_json())
    return now.total


def put_back(doors: Doors) -> None:
    """What is ours stands there again: the same undone once more counts once more, whoever looks next."""
    note = _note(doors)
    if note.seen:
        with contextlib.suppress(FileError):
            doors.generations.save_note(OWNERSHIP, replace(note, seen="").to_json())


def adopted(doors: Doors) -> bool:
    return _note(doors).adopted


def adopt(doors: Doors) -> None:
    """From now on what others leave is taken over."""
    doors.generations.save_note(OWNERSHIP, {**_note(doors).to_json(), "adopted": True})


def hold(doors: Doors, reason: str, by: str = "hold") -> None:
    """Until `resume`, passes only add joiners as unplaced. hold.json: its presence is the hold. `by`: the command."""
    doors.generations.save_note(HOLD, {"by": by, "reason": reason, "time": doors.clock.now()})


@contextlib.contextmanager
def uninstalling(doors: Doors) -> Iterator[str]:
    """No pass of any controller writes from here on, until `resume`; as before if what is done within fails. Why some
    may not know: a registry that cannot be written; "": all will."""
    before, untold = _note(doors), ""
    try:
        doors.generations.save_note(OWNERSHIP, replace(before, uninstalled=True).to_json())
    except FileError as error:
        untold = str(error)
    try:
        yield untold
    except BaseException:
        with contextlib.suppress(FileError):
            doors.generations.save_note(OWNERSHIP, before.to_json())
        raise


def on_hold(doors: Doors) -> str | None:
    """Since when and by what passes are on hold, "" where hold.json does not tell; None: they are not."""
    note = doors.generations.note(HOLD)
    if note is None:
        return None
    words = []
    with contextlib.suppress(TypeError, ValueError, OverflowError, OSError, KeyError):
        since = datetime.fromtimestamp(float(note["time"]), timezone.utc)
        words.append(f"since {since:%Y-%m-%d %H:%M:%S} UTC")
    if by := note.get("by"):
        words.append(f"by `{by}`")
    if reason := note.get("reason"):
        words.append(f"({reason})")
    return " ".join(words)


def resume(doors: Doors) -> tuple[str, ...]:
    """End a hold and a standing back; what was ended, a sentence each."""
    ended: list[str] = []
    if doors.generations.note(HOLD) is not None:
        doors.generations.remove_note(HOLD)
        ended.append("the hold is over")
    note = _note(doors)
    if note != note.resumed():
        doors.generations.save_note(OWNERSHIP, note.resumed().to_json())
    if note.stood_back:
        ended.append("no longer standing back")
    if note.uninstalled:
        ended.append("no longer uninstalled")
    return tuple(ended)


def _note(doors: Doors) -> OwnershipNote:
    return OwnershipNote.from_json(doors.generations.note(OWNERSHIP))


def _looked(doors: Doors, disk: Disk) -> OwnershipNote:
    if doors.generations.begun() is not None:
        return _note(doors)  # a killed pass left the files halfway: nobody undid anything
    return _note(doors).looked(disk, doors.generations.current(), doors.clock.now(), doors.classic)
