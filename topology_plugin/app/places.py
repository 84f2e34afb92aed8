"""Where everything lies on this machine: by flags, variables and files, or where HyperPod and Slurm have it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from topology_plugin.adapters.root import Root, is_directory, is_file
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.json_document import json_object
from topology_plugin.core.settings import Settings, from_environment, layered

SETTINGS_FILE = "/etc/hyperpod-topology.json"
PROVISIONING_PARAMETERS = "/opt/ml/config/provisioning_parameters.json"
RESOURCE_CONFIG = "/opt/ml/config/resource_config.json"
CLUSTER_AGENT = "/opt/ml/config/cluster_agent.json"
DEFAULT_SLURM_CONF = "/opt/slurm/etc/slurm.conf"
DEFAULT_SLURM_BIN = "/opt/slurm/bin"
STATE_DIR = "/var/lib/hyperpod-topology"
REGISTRY_PARENT = "/fsx/hyperpod-topology"


@dataclass(frozen=True)
class Places:
    """Every path below the root, except one given explicitly by flag or variable."""

    root: Root
    settings: Settings
    environment: Mapping[str, str]

    @classmethod
    def of(cls, root: str | None, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Places:
        """Settings by strength: flags, variables, /etc/hyperpod-topology.json, provisioning_parameters.json."""
        place = Root(root)
        if place.directory is not None and not is_directory(place.directory):
            what = "there is no such directory, or it may not be looked into"
            raise InputError(Issue(f"--root {root}", what, "it stands for / and must be there"))
        layers: list[tuple[str, Mapping[str, Any]]] = []
        provisioning = _object(place.path(PROVISIONING_PARAMETERS), tolerant=True)
        topology = provisioning.get("topology")
        if isinstance(topology, dict):
            layers.append((f"{PROVISIONING_PARAMETERS}: topology", topology))
        layers.append((SETTINGS_FILE, _object(place.path(SETTINGS_FILE))))
        layers.extend(from_environment(environment))
        layers.extend((f"flag --{name.replace('_', '-')}", {name: value}) for name, value in flags.items())
        return cls(place, layered(layers), environment)

    def setting(self, name: str, default: str) -> Path:
        """The path a setting names: as it is if given by flag or variable, else below the root."""
        value = getattr(self.settings, name)
        if value is None or value == "auto":
            return self.root.path(default)
        return Path(value) if self.settings.explicit(name) else self.root.path(value)

    # --- Slurm's ---

    @cached_property
    def slurm_conf(self) -> Path:
        """slurm.conf through every link: what is written is the real file (multi-head: a shared directory)."""
        if self._conf_by_variable:
            return Path(self.named_slurm_conf).resolve()
        found = self.setting("slurm_conf", DEFAULT_SLURM_CONF)
        return found.resolve() if self.root.directory is None or self.settings.explicit("slurm_conf") else found

    @cached_property
    def named_slurm_conf(self) -> str:
        """slurm.conf as this machine names it: topology.yaml and relative Includes are beside the link if it is one."""
        return self.settings.slurm_conf or self.environment.get("SLURM_CONF") or DEFAULT_SLURM_CONF

    @property
    def _conf_by_variable(self) -> bool:
        return self.settings.slurm_conf is None and bool(self.environment.get("SLURM_CONF"))

    def machine_path(self, path: str) -> Path:
        """Where a path that slurm.conf or the machine names lies: below the root, unless it was given explicitly."""
        explicit = self.settings.explicit("slurm_conf") or self._conf_by_variable
        if explicit and Path(path).is_relative_to(Path(self.named_slurm_conf).parent):
            return Path(path)
        return self.root.path(path)

    @cached_property
    def slurm_bin(self) -> Path | None:
        """Directory of Slurm's commands; None: nowhere found."""
        if self.settings.slurm_bin is not None:
            return self.setting("slurm_bin", DEFAULT_SLURM_BIN)
        for directory in self.environment.get("PATH", "").split(os.pathsep):
            if directory and is_file(Path(directory) / "scontrol"):
                return Path(directory)
        fallback = self.root.path(DEFAULT_SLURM_BIN)
        return fallback if is_file(fallback / "scontrol") else None

    # --- HyperPod's ---

    @cached_property
    def resource_config(self) -> Path:
        """`SAGEMAKER_RESOURCE_CONFIG_PATH` is the path's documented name, given by variable: not prefixed."""
        given = self.environment.get("SAGEMAKER_RESOURCE_CONFIG_PATH")
        return Path(given) if given else self.root.path(RESOURCE_CONFIG)

    @cached_property
    def provisioning_parameters(self) -> Path:
        return self.root.path(PROVISIONING_PARAMETERS)

    @cached_property
    def cluster_agent(self) -> Path:
        return self.root.path(CLUSTER_AGENT)

    # --- ours ---

    @cached_property
    def settings_file(self) -> Path:
        return self.root.path(SETTINGS_FILE)

    @cached_property
    def state_dir(self) -> Path:
        return self.setting("state_dir", STATE_DIR)

    def registry(self, cluster_arn: str | None) -> Path | None:
        """The registry's directory; None where it is switched off. `auto` needs the cluster's ARN."""
        if self.settings.registry is None:
            return None
        if self.settings.registry != "auto":
            return self.setting("registry", REGISTRY_PARENT)
        if not cluster_arn:
            raise InputError(
                Issue(
                    RESOURCE_CONFIG,
                    "no ClusterArn, so the registry's directory is unknown",
                    'set "registry" in ' + SETTINGS_FILE,
                )
            )
        return self.root.path(f"{REGISTRY_PARENT}/{cluster_arn.rsplit('/', 1)[-1]}")

    @property
    def registry_chosen(self) -> bool:
        """Below --root, or by flag or variable: someone chose the very place."""
        return self.root.directory is not None or self.settings.explicit("registry")


def _object(path: Path, tolerant: bool = False) -> dict[str, Any]:
    """What a JSON file holds; {} if there is none. `tolerant`: also if it cannot be read (others report that)."""
    try:
        return json_object(path.read_bytes(), str(path))
    except FileNotFoundError:
        return {}
    except OSError as error:
        if tolerant:
            return {}
        raise InputError(Issue(str(path), f"cannot be read: {error.strerror or error}", "mend or remove it")) from None
    except InputError:
        if tolerant:
            return {}
        raise
