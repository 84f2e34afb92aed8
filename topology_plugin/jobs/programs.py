"""Where the programs of a slurmctld of our own are: many installations keep slurmctld apart from the commands."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from topology_plugin.core.issues import InputError, Issue

NEEDED = ("slurmctld", "scontrol", "sbatch", "squeue", "scancel", "sdiag")


def gathered(slurm_bin: Path | None, place: Path, names: Sequence[str] = NEEDED) -> Path:
    """A directory `place`/bin with links to the programs. `slurm_bin` None: from PATH; slurmctld is also looked for in
    `../sbin` and /usr/sbin. Raises InputError that names what is missing."""
    directory = place / "bin"
    directory.mkdir(parents=True, exist_ok=True)
    missing = []
    for name in names:
        program = _program(slurm_bin, name)
        if program is None:
            missing.append(name)
        else:
            (directory / name).symlink_to(program)
    if missing:
        remedy = "run this where Slurm's controller is installed, or name its commands' directory: --slurm-bin"
        raise InputError(Issue("Slurm", f"{', '.join(missing)} not found", remedy))
    return directory


def _program(slurm_bin: Path | None, name: str) -> Path | None:
    if slurm_bin is None:
        found = shutil.which(name) or shutil.which(name, path="/usr/sbin")
        return Path(found).resolve() if found else None
    places = (slurm_bin, slurm_bin.parent / "sbin", Path("/usr/sbin"))
    return next(((place / name).resolve() for place in places if (place / name).is_file()), None)
