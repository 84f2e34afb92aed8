"""Places that we may not look into, such as root's PATH after su: nothing is there for us, and nothing crashes."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import cases
from topology_plugin.adapters.root import Root, exists, is_file
from topology_plugin.app.wiring import Wiring

# Refused by the kernel whoever asks, root too: Path.is_file() raises for it as for a directory of 0700.
REFUSED = "/" + "x" * 300
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable  # ours may lie in root's home


def test_what_cannot_be_looked_at_is_not_there() -> None:
    assert not is_file(Path(REFUSED, "scontrol"))
    assert not exists(Path(REFUSED))
    assert is_file(Path(__file__)) and exists(Path(__file__).parent) and not is_file(Path(__file__).parent)


def test_a_path_through_such_a_place_is_still_a_path(tmp_path: Path) -> None:
    assert Root(tmp_path).path(f"{REFUSED}/a") == tmp_path.resolve() / "x".join([""] * 301) / "a"


def test_such_a_directory_on_path_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/scontrol").touch()
    wiring = Wiring.of(str(tmp_path), {}, {"PATH": f"{REFUSED}:{tmp_path}/bin"})
    assert wiring.places.slurm_bin == tmp_path / "bin"


@pytest.fixture
def open_to_all() -> Iterator[Path]:
    """A directory that others may pass through; pytest's own are closed to them."""
    with tempfile.TemporaryDirectory() as directory:
        Path(directory).chmod(0o755)
        yield Path(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="becomes another user")
@pytest.mark.parametrize(
    "command", [["show"], ["diff"], ["explain", "train"], ["doctor"], ["history"], ["merge"], ["hold"]]
)
def test_a_user_whom_the_machine_refuses_gets_a_sentence(open_to_all: Path, command: list[str]) -> None:
    etc = open_to_all / "opt/slurm/etc"
    etc.mkdir(parents=True)
    (etc / "slurm.conf").write_text(cases.F0_SLURM_CONF)
    etc.chmod(0o700)
    closed = open_to_all / "root"
    closed.mkdir(mode=0o700)
    (open_to_all / "var").mkdir(mode=0o700)
    source = Path(__file__).parents[2] / "topology_plugin"
    shutil.copytree(source, open_to_all / "code/topology_plugin", ignore=shutil.ignore_patterns("__pycache__"))
    try:
        done = subprocess.run(
            [PYTHON, "-m", "topology_plugin", *command],
            env={
                "PATH": f"{closed}:/usr/bin:/bin",
                "HYPERPOD_TOPOLOGY_ROOT": str(open_to_all),
                "HYPERPOD_TOPOLOGY_SOURCES": "resource-config,records",
                "AWS_EC2_METADATA_DISABLED": "true",
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": sysconfig.get_path("purelib"),
            },
            cwd=open_to_all / "code",
            user=65534,
            group=65534,
            extra_groups=[],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    except PermissionError:
        pytest.skip("another user may not run this Python")
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 2, 4), done.stderr
    assert done.stdout or "hyperpod-topology: " in done.stderr
    if command == ["hold"]:
        assert "pass.lock cannot be opened: Permission denied (run it as root)" in done.stderr
    if command == ["history"]:
        assert "no generation is kept yet" not in done.stdout and "(run it as root)" in done.stderr
    if command == ["doctor"]:  # what only root may do is no fault of the cluster
        bad = {line.split()[1] for line in done.stdout.splitlines() if line.startswith("bad")}
        assert bad.isdisjoint({"registry-writable", "way-back", "rehearsal"})
