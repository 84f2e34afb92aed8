"""The demo tells a true story, leaves nothing behind, and says so where nothing is applied."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from topology_plugin.adapters.own_processes import OwnProcesses


def demo(directory: Path, *arguments: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("HYPERPOD_TOPOLOGY_", "SLURM"))}
    environment["TMPDIR"] = str(directory)
    if path is not None:
        environment["PATH"] = path
    command = [sys.executable, "-m", "topology_plugin", "demo", "--nodes", "16", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=300, check=False)


def test_a_small_cluster_lives_through_every_step(slurm_bin: Path, tmp_path: Path) -> None:
    done = demo(tmp_path, "--slurm-bin", str(slurm_bin))
    assert done.returncode == 0, done.stderr
    for title in (
        "Boot",
        "A leaf more",
        "Three nodes fewer",
        "Three replaced",
        "A node without a label",
        "Its label arrives",
    ):
        assert f"\n{title}\n" in done.stdout
    places = jobs(done.stdout)
    assert places.pop("2 CPU nodes") == ("2 nodes, no network data", "2 nodes, no network data"), "both flat"
    assert {job: ours for job, (ours, _) in places.items()} == {
        "8 nodes, tree": "1 leaf, 1.0 hops on average",
        "18 nodes, block": "1 UltraServer, 1.0 hops on average",
        "16 nodes in segments of 8, block": "1 UltraServer, 1.0 hops on average",
    }
    for _, flat in places.values():
        found = re.fullmatch(r"(\d+) (leaves|UltraServers), (\d+\.\d) hops on average", flat)
        assert found and int(found[1]) > 1 and float(found[3]) > 1, flat
    assert "on a real slurmctld." in done.stdout
    assert list(tmp_path.iterdir()) == [], "cleaned up"


def jobs(told: str) -> dict[str, tuple[str, str]]:
    """The story's last table: job → (where it lay with topology, where under flat)."""
    _, _, table = told.partition("\nThe same jobs, each in the idle cluster\n")
    head, *rows = [re.split(r" {2,}", line.strip()) for line in table.partition("\n\n")[0].splitlines()]
    assert head == ["job", "with topology", "flat"]
    return {job: (ours, flat) for job, ours, flat in rows}


def as_at_a_terminal() -> None:
    """Whoever runs the tests in the background may have Ctrl-C ignored, which children inherit."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
@pytest.mark.parametrize("keep", [(), ("--keep",)], ids=["cleaned up", "kept"])
def test_interrupted_it_stops_slurmctld_and_cleans_up(
    slurm_bin: Path, tmp_path: Path, number: signal.Signals, keep: tuple[str, ...]
) -> None:
    command = [sys.executable, "-m", "topology_plugin", "demo", "--nodes", "8", "--slurm-bin", str(slurm_bin), *keep]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        start_new_session=True,
        preexec_fn=as_at_a_terminal,
    ) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().split(" below ")[1].strip())
        processes = OwnProcesses(directory / "controller/opt/slurm/etc/slurm.conf", directory / "slurm")
        while process.poll() is None and not processes.find(["slurmctld"]):
            time.sleep(0.05)
        for _ in range(2):  # impatience must not keep it from cleaning up
            # A terminal sends it to the hooks that run just now, too.
            os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
            time.sleep(0.05)
        out, error = process.communicate(timeout=120)
    assert process.returncode == 128 + number, error
    assert "Traceback" not in error
    assert processes.find(()) == []
    assert list(tmp_path.iterdir()) == ([directory] if keep else [])
    assert (f"kept: {directory}" in out) == bool(keep)


def test_without_slurm_it_says_that_nothing_was_applied(tmp_path: Path) -> None:
    done = demo(tmp_path, path="/nowhere")
    assert done.returncode == 0, done.stderr
    assert "NOTHING IS APPLIED" in done.stdout
    assert "No jobs were run" in done.stdout
