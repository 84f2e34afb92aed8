"""Slurm, looked at once: one scontrol answers all that a pass asks before it acts, and all of it is of one moment."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from topology_plugin.adapters.slurm import Answer, Slurm, Version
from topology_plugin.core import scontrol_text

COMMANDS = ("oneliner", "show nodes", "show partitions", "show topoconf")


class OneLook:
    """`slurm`, with the answers to nodes(), partitions() and topoconf() kept until it is told to reconfigure; from then
    on each question is asked anew. For one pass."""

    def __init__(self, slurm: Slurm) -> None:
        self._slurm = slurm
        self._sections: list[str] | None = None
        self._acted = False
        self._nodes: list[dict[str, Any]] | None = None
        self._words: dict[str, str | None] | None = None
        self._sure = False

    def _looked(self) -> list[str] | None:
        """The sections of the session; None: ask one by one."""
        if self._acted:
            return None
        if self._sections is None:
            answer = self._slurm.run("scontrol", stdin="\n".join((*COMMANDS, "")), timeout=90)
            # Its code tells of the last fault only; a slurmctld that does not answer leaves sections empty.
            self._sections = scontrol_text.sections(answer.out, COMMANDS) or []
            if self._sections:
                self._nodes = scontrol_text.nodes(self._sections[1], whole=False)
                self._words = scontrol_text.words(self._sections[2])
                self._sections[1:3] = ["", ""]
        return self._sections or None

    def nodes(self) -> list[dict[str, Any]] | None:
        return self._slurm.nodes() if self._looked() is None else self._nodes

    def partitions(self) -> dict[str, str | None] | None:
        if self._looked() is None:
            return self._slurm.partitions()
        if not self._sure and self._words is not None and not any(self._words.values()):
            # Perhaps there is none, perhaps this release does not print them (26.05 does: run): its JSON has them.
            self._words, self._sure = self._slurm.partitions(), True
        return self._words

    def topoconf(self) -> str | None:
        sections = self._looked()
        return self._slurm.topoconf() if sections is None else sections[3] or None

    def reconfigure(self, timeout: float = 60) -> Answer:
        self._acted = True
        return self._slurm.reconfigure(timeout)

    def run(self, program: str, *arguments: str, timeout: float = 30, stdin: str | None = None) -> Answer:
        return self._slurm.run(program, *arguments, timeout=timeout, stdin=stdin)

    def version(self) -> Version | None:
        return self._slurm.version()

    def ping(self) -> bool:
        return self._slurm.ping()

    def jobs(self, *which: str) -> list[dict[str, Any]] | None:
        return self._slurm.jobs(*which)

    def config(self) -> Mapping[str, str] | None:
        return self._slurm.config()
