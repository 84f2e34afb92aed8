"""What several subjects here start from."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.adapters.registries import directory
from topology_plugin.adapters.registry import RegistryDirectory


@pytest.fixture
def registry(tmp_path: Path) -> RegistryDirectory:
    return directory(tmp_path / "registry" / "abc")
