"""The bundle as `make bundle` builds it, once for each test process, and the Pythons that a node may have."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "lifecycle_scripts"))


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the bundle is built from: all builds of a session see the same inputs."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("lifecycle_scripts", "topology_plugin"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="session")
def bundle(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """dist/lifecycle_scripts, built by the same command line as the make target's."""
    dist = tmp_path_factory.mktemp("dist")
    command = [sys.executable, str(sources / "lifecycle_scripts" / "build_bundle.py"), "--dist", str(dist)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return dist / "lifecycle_scripts"


@pytest.fixture(scope="session")
def payload(bundle: Path) -> Path:
    """The directory with what a node installs, beside the entry scripts."""
    return bundle / "hyperpod-topology"


@pytest.fixture(scope="session", params=("3.10", "3.11", "3.12", "3.13"))
def python(request: pytest.FixtureRequest) -> str:
    """An interpreter of each version that a node may have; what this machine lacks is skipped and named."""
    version = str(request.param)
    kept = sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))
    for candidate in (*map(str, kept), f"/usr/bin/python{version}", f"python{version}"):
        try:
            asked = subprocess.run(
                [candidate, "-I", "-c", "import sys; print('%d.%d' % sys.version_info[:2], sys.executable)"],
                capture_output=True,
                text=True,
                check=False,
            )
        except OSError:
            continue
        if asked.stdout.startswith(f"{version} "):
            return asked.stdout.split()[1]
    pytest.skip(f"no Python {version} on this machine")
