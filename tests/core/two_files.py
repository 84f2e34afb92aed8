"""A slurm.conf and a file that it may include."""

from __future__ import annotations

from topology_plugin.core.slurm_conf import SlurmConf, parse

MAIN = "/etc/slurm/slurm.conf"
PARTS = "/etc/slurm/parts.conf"


def conf_of(text: str, parts: str = "") -> SlurmConf:
    return parse(MAIN, {MAIN: text, PARTS: parts}.get)
