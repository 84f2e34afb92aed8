"""Which versions of Slurm this works with, and what to say of each (docs/safety-rules.md, versions)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

TESTED = ((24, 11), (26, 5))
NEWEST_KNOWN = (26, 5)
PER_PARTITION = (25, 5)
OLDEST = (24, 11)


@dataclass(frozen=True)
class Support:
    """`refused`: why this Slurm is not written to (""; it is). `classic`: one cluster-wide topology.conf (24.11)."""

    text: str | None
    classic: bool = False
    refused: str = ""
    remedy: str = ""
    notes: tuple[str, ...] = ()


def support(version: object, parameters: Mapping[str, str]) -> Support:
    """`version`: has `numbers` (major, minor, micro) and `text`, or None if scontrol can't tell; `parameters`: of
    slurm.conf, keys in lower case."""
    if version is None:
        return Support(None, notes=("the version of Slurm is not known (scontrol does not answer): taken as 25.11+",))
    numbers: tuple[int, int, int] = version.numbers  # type: ignore[attr-defined]
    text: str = version.text  # type: ignore[attr-defined]
    if numbers[:2] < OLDEST:
        return Support(text, refused=f"{text} is too old: 24.11 is the oldest that works", remedy="upgrade Slurm")
    if numbers[:2] < PER_PARTITION:
        note = f"Slurm {text} has one topology for the whole cluster: different ones per partition need 25.05"
        return Support(text, classic=True, notes=(note,))
    configless = "enable_configless" in parameters.get("slurmctldparameters", "").lower()
    if numbers in ((25, 5, 0), (25, 5, 1)) and configless:
        return Support(
            text,
            refused=f"{text} does not send topology.yaml to configless nodes, whose slurmd then dies",
            remedy="upgrade to 25.05.2 or newer, 25.11.7 recommended",
        )
    return Support(text, notes=tuple(_notes(numbers, text)))


def _notes(numbers: tuple[int, int, int], text: str) -> list[str]:
    notes = []
    if numbers[:2] == (25, 5):
        notes.append(f"Slurm {text} works, with known faults in topology handling: 25.11.7 or newer is recommended")
    if (25, 11, 0) <= numbers <= (25, 11, 2):
        notes.append(f"Slurm {text} drops powered-down CLOUD nodes from blocks until a reconfigure: upgrade to 25.11.7")
    elif (25, 11, 3) <= numbers < (25, 11, 7):
        notes.append(f"Slurm {text} has races at reconfigure that 25.11.7 mended")
    if numbers[:2] > NEWEST_KNOWN:
        notes.append(f"Slurm {text} is newer than what this was tested with (26.05)")
    return notes
