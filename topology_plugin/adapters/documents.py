"""The JSON files of HyperPod on this node, read at their paths."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from topology_plugin.core.issues import InputError, Issue

if TYPE_CHECKING:  # each is parsed only where it is asked for: `register` must start fast
    from topology_plugin.core.cluster_agent import ClusterAgent
    from topology_plugin.core.provisioning import ProvisioningParameters
    from topology_plugin.core.resource_config import ResourceConfig

T = TypeVar("T")
MAX_BYTES = 256 * 1024 * 1024  # 16,384 machines are 6 MB


class Documents:
    """HyperPod's agent rewrites these files: each call looks, and parses only what was written since (16,384 machines
    take 0.2 s). Messages name the file by its whole path."""

    def __init__(self, resource_config: Path, provisioning_parameters: Path, cluster_agent: Path) -> None:
        self._resource_config = resource_config
        self._provisioning_parameters = provisioning_parameters
        self._cluster_agent = cluster_agent
        self._known: dict[Path, tuple[tuple[int, int, int], Any]] = {}

    def resource_config(self) -> ResourceConfig:
        """Raises InputError where the file is absent or nothing of it can be used: a node without it knows nothing."""
        from topology_plugin.core import resource_config

        found = self._parsed(self._resource_config, resource_config.parse)
        if found is None:
            raise InputError(
                Issue(
                    str(self._resource_config),
                    "there is no such file",
                    "HyperPod writes it before the lifecycle script runs; is this a HyperPod node?",
                )
            )
        return found

    def provisioning(self) -> ProvisioningParameters | None:
        """None: there is none (API-driven clusters). Raises InputError where it cannot be read."""
        from topology_plugin.core import provisioning

        return self._parsed(self._provisioning_parameters, provisioning.parse)

    def cluster_agent(self) -> ClusterAgent | None:
        """None: there is none (every node but the controller). Raises InputError where it cannot be read."""
        from topology_plugin.core import cluster_agent

        return self._parsed(self._cluster_agent, cluster_agent.parse)

    def _parsed(self, path: Path, parse: Callable[[bytes, str], T]) -> T | None:
        known = self._known.pop(path, None)
        try:
            with path.open("rb") as file:
                now = os.fstat(file.fileno())
                version = now.st_ino, now.st_mtime_ns, now.st_size
                data = b"" if known and known[0] == version else file.read(MAX_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as error:
            hint = "read it as root" if isinstance(error, PermissionError) else ""
            raise InputError(Issue(str(path), f"cannot be read: {error.strerror or error}", hint)) from None
        if len(data) > MAX_BYTES:
            raise InputError(Issue(str(path), f"is larger than {MAX_BYTES} bytes"))
        found: T = known[1] if known and known[0] == version else parse(data, str(path))
        self._known[path] = (version, found)
        return found
