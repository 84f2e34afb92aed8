"""What a change is made through."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.controller import Controller
from topology_plugin.adapters.generations import Generations
from topology_plugin.adapters.live_files import LiveFiles
from topology_plugin.adapters.pass_lock import PassLock
from topology_plugin.adapters.slurm import Slurm
from topology_plugin.core.disk import Check


@dataclass(frozen=True)
class Doors:
    """`check`: what of a Disk slurmctld would die of (none: healthy). `classic`: Slurm up to 24.11. `writing`: a turn
    as the cluster's one writer; None: this machine's lock is enough."""

    live: LiveFiles
    slurm: Slurm
    clock: Clock
    generations: Generations
    controller: Controller
    check: Check
    classic: bool = False
    say: Callable[[str], None] = field(default=lambda sentence: None)
    writing: Callable[[], AbstractContextManager[object]] | None = None

    def one_writer(self) -> AbstractContextManager[object]:
        """`with doors.one_writer(): …` for a command that writes. Raises PassError while another one does."""
        return self.writing() if self.writing is not None else PassLock(self.generations.state_dir)

    def tidy(self) -> None:
        """Temporary files of killed runs go, half-told notes are told; once each pass, while the pass lock is held."""
        for directory in self.live.directories():
            self.live.files.sweep(directory)
        self.generations.tidy()
