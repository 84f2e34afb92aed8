"""`doctor --bundle`: what support needs to see, in one archive, redacted (core/redaction.py)."""

from __future__ import annotations

import io
import json
import os
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from topology_plugin.app.observe_state import state_files
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.redaction import Redaction

MOST_BYTES = 16 * 1024 * 1024  # of one file; state.json of 16,384 nodes has 14 MB
_LOG_LINES = "2000"
_UNITS = ("hyperpod-topology-watch", "hyperpod-topology-register", "slurmctld")


def collect(wiring: Wiring, checks: Mapping[str, Any], path: Path) -> list[str]:
    """Writes the archive (mode 0600) and returns the names in it. Raises InputError where it cannot be written.

    Holds: the checks, settings, HyperPod's files, slurm.conf with its Includes, topology files, state.json, the kept
    generations' meta data and the services' logs. Not: records of single nodes, jobs, gres.conf, anything else.
    """
    redaction = Redaction()
    names: list[str] = []
    try:
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except OSError as error:
        remedy = "give another name" if path.exists() else "give a path that can be written"
        raise InputError(Issue(str(path), error.strerror or str(error), remedy)) from None
    with os.fdopen(handle, "wb") as file, tarfile.open(fileobj=file, mode="w:gz") as archive:
        for name, text in _texts(wiring, checks):
            data = redaction.text(text).encode("utf-8", "replace")
            entry = tarfile.TarInfo(f"hyperpod-topology-support/{redaction.text(name)}")
            entry.size, entry.mode = len(data), 0o600
            archive.addfile(entry, io.BytesIO(data))
            names.append(name)
    return names


def _texts(wiring: Wiring, checks: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    yield "doctor.json", json.dumps(checks, indent=2, ensure_ascii=False)
    named = {
        "resource_config.json": wiring.places.resource_config,
        "provisioning_parameters.json": wiring.places.provisioning_parameters,
        "cluster_agent.json": wiring.places.cluster_agent,
        "settings.json": wiring.places.settings_file,
    }
    for name, path in named.items():
        yield from _file(name, path)
    yield from _slurm(wiring)
    for number, path in enumerate(state_files(wiring)):
        yield from _file(f"state-{number + 1}.json", path)
        for meta in sorted(path.parent.glob("generations/*/meta.json"))[-20:]:
            yield from _file(f"generations-{number + 1}/{meta.parent.name}.json", meta)
        for note in ("hold.json", "ownership.json"):
            yield from _file(f"notes-{number + 1}/{note}", path.parent / note)
    if wiring.places.root.directory is None:
        yield from _logs()


def _slurm(wiring: Wiring) -> Iterator[tuple[str, str]]:
    try:
        live = wiring.live_files()
        disk = live.disk()
    except (InputError, OSError) as error:
        yield "slurm/error.txt", str(error)
        return
    for source in disk.conf.files:
        yield f"slurm/{Path(source.path).name}", source.text
    for name, data in (("topology.yaml", disk.topology_yaml), ("topology.conf", disk.topology_conf)):
        if data is not None:
            yield f"slurm/{name}", data.decode("utf-8", "replace")
    shown = wiring.slurm.topoconf() if wiring.places.slurm_bin is not None else None
    if shown is not None:
        yield "slurm/topoconf.yaml", shown


def _file(name: str, path: Path) -> Iterator[tuple[str, str]]:
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except OSError:
        return
    cut = "\n… cut here: the file is longer\n" if len(data) > MOST_BYTES else ""
    yield name, data[:MOST_BYTES].decode("utf-8", "replace") + cut


def _logs() -> Iterator[tuple[str, str]]:
    for unit in _UNITS:
        command = ["journalctl", "--no-pager", "-o", "short-iso", "-n", _LOG_LINES, "-u", unit]
        try:
            done = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=30, check=False)
        except (OSError, subprocess.TimeoutExpired):
            return
        if done.returncode == 0 and done.stdout:
            yield f"logs/{unit}.log", done.stdout
