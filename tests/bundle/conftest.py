"""The bundle as `make bundle` builds it, once for each test process, and the Pythons that a node may have."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.bundle import ROOT
from tests.bundle.installs import built, next_release, small_bundle
from tests.bundle.nodes import machine


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what the bundle is built from: all builds of a session see the same inputs."""
    copy = tmp_path_factory.mktemp("sources")
    for name in ("lifecycle_scripts", "topology_plugin"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="session")
def bundle(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built(sources, tmp_path_factory.mktemp("dist"))


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


@pytest.fixture(scope="session")
def installed(bundle: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine that has the bundle already: most tests are about what comes after unpacking."""
    node = machine(tmp_path_factory.mktemp("installed"))
    assert node.run("bash", bundle / "on_init_complete.sh").returncode == 0
    return node.root


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return small_bundle(tmp_path / "old-bundle", "1.0+aaaaaaaa")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return small_bundle(tmp_path / "new-bundle", "2.0+bbbbbbbb")


@pytest.fixture(scope="session")
def newer(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The payload of the next version."""
    return next_release(sources, tmp_path_factory.mktemp("newer")) / "hyperpod-topology"


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "node"
