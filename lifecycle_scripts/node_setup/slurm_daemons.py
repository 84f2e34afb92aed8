"""Whole OnCreate only: starts slurmctld or slurmd as the stock scripts do, by drop-in instead of edited units."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from node_setup.processes import Systemd

CONF_SECONDS = 60.0
SLURMD_DROP_IN = "etc/systemd/system/slurmd.service.d/40-controller.conf"


def start(
    controller: bool,
    addresses: Sequence[str],
    slurm_conf: Path,
    root: Path,
    systemd: Systemd,
    log: Callable[[str], None],
) -> bool:
    """True if systemd was told. A controller first waits, bounded, for HyperPod's agent to name it in slurm.conf."""
    if controller:
        if not wait_for_conf(slurm_conf, addresses):
            log(f"{slurm_conf} names no controller after {CONF_SECONDS:.0f} s; slurmctld is started anyway")
        systemd.call("disable", "--now", "slurmd")
        return systemd.call("enable", "slurmctld") and systemd.call("start", "slurmctld", timeout=120)
    if not addresses:
        log("no controller's address is known, so slurmd is not started")
        return False
    drop_in = root / SLURMD_DROP_IN
    options = f"--conf-server {','.join(addresses)}"
    text = f'# Where slurmd fetches its configuration.\n[Service]\nEnvironment="SLURMD_OPTIONS={options}"\n'
    systemd.call("disable", "--now", "slurmctld")
    if drop_in.is_file() and drop_in.read_text(encoding="utf-8") == text:
        return systemd.call("enable", "slurmd") and systemd.call("start", "--no-block", "slurmd")
    drop_in.parent.mkdir(parents=True, exist_ok=True)
    drop_in.write_text(text, encoding="utf-8")
    systemd.call("daemon-reload")
    return systemd.call("enable", "slurmd") and systemd.call("restart", "--no-block", "slurmd")


def wait_for_conf(slurm_conf: Path, addresses: Sequence[str], seconds: float = CONF_SECONDS) -> bool:
    """True as soon as slurm.conf names one of the controllers."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            text = slurm_conf.read_text(encoding="utf-8", errors="replace")
        except OSError:
            text = ""
        if any(address in text for address in addresses):
            return True
        if time.monotonic() >= deadline:
            return False
        time.sleep(1)
