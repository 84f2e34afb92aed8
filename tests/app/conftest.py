"""What several subjects here start from."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.app.booting import Node
from tests.app.machine import Machine
from tests.app.stage import Stage, small
from tests.app.ward import Ward


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


@pytest.fixture(scope="session")
def admitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("ward")
    Ward(directory).merge()
    return directory


@pytest.fixture
def ward(tmp_path: Path, admitted: Path) -> Ward:
    """A copy, as to make it takes longer than to examine it."""
    shutil.copytree(admitted, tmp_path / "room", symlinks=True)
    return Ward(tmp_path / "room", made=True)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    """A small cluster whose topology is in force."""
    made = Stage(tmp_path, small())
    made.go(200)
    assert "Topology=tree" in made.room.conf.read_text()
    return made


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)
