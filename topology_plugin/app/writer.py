"""Who writes for this cluster: one controller at a time, whatever the command. The others observe, and say so."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.cluster_lock import ClusterLock, Turn
from topology_plugin.adapters.pass_lock import PassLock
from topology_plugin.adapters.slurm import Slurm
from topology_plugin.adapters.this_host import Host
from topology_plugin.core import controllers
from topology_plugin.core.issues import PassError

WAIT = 30.0  # seconds for a pass of another controller to end


@dataclass
class Writer:
    """The right to write. With `stays` it is kept from the first turn on (`watch`), else for one turn.

    Where the registry's file system has no lock, the active controller writes, by `scontrol ping`; a slurm.conf that
    lists one controller needs neither.
    """

    lock: ClusterLock
    local: PassLock
    host: Host
    clock: Clock
    stays: bool = False
    _stood_by: bool = False

    @contextlib.contextmanager
    def turn(self) -> Iterator[Turn]:
        """A turn alone on this machine, and in the cluster as far as its result says. Raises PassError if another pass
        does not end in time."""
        with self.local:
            try:
                yield self._taken()
            finally:
                if not self.stays:
                    self.lock.let_go()

    def _taken(self) -> Turn:
        until = self.clock.monotonic() + WAIT
        while True:
            turn = self.lock.take(self.stays)
            waits = turn.holder is not None and not turn.mine and not turn.holder.stays and not self.stays
            if not waits:
                return turn
            if self.clock.monotonic() >= until:
                raise PassError(f"another pass is under way ({turn.holder}, which holds writer.lock); try again later")
            self.clock.sleep(0.2)

    def relieved(self) -> bool:
        """True once, when the one who wrote is gone and we hold the lock now. For `watch`, between passes."""
        if not (self.stays and self._stood_by) or not self.lock.take(True).mine:
            return False
        self._stood_by = False
        return True

    def leave(self) -> None:
        self.lock.let_go()

    def other(self, turn: Turn, slurmctld_hosts: str, slurm: Slurm | None) -> str:
        """Who writes instead of us, a sentence; "": we do. `slurm` None: not to be asked (`--offline`)."""
        found = self._other(turn, slurmctld_hosts, slurm)
        self._stood_by = bool(found)
        return found

    def _other(self, turn: Turn, slurmctld_hosts: str, slurm: Slurm | None) -> str:
        if turn.mine:
            return ""
        if turn.holder is not None:
            return f"{turn.holder} writes for this cluster (it holds writer.lock)"
        listed = controllers.parse(slurmctld_hosts)
        if len(listed) < 2:
            return ""
        pinged = None
        if slurm is not None:
            answer = slurm.run("scontrol", "ping", timeout=60)  # 10 s for each that is not there
            pinged = answer.out if answer.code is not None else None
        active = controllers.active(listed, pinged)
        if self.host.answers_to(active.name, active.address):
            return ""
        return f"{active.name} is the active controller, and it alone writes: {turn.lacking}"


@contextlib.contextmanager
def writing(writer: Writer, slurmctld_hosts: Callable[[], str], slurm: Slurm) -> Iterator[None]:
    """A turn for a command that writes or fails. Raises PassError where another controller writes."""
    with writer.turn() as turn:
        if other := writer.other(turn, slurmctld_hosts(), slurm):
            raise PassError(f"nothing was changed: {other}; do it there")
        yield
