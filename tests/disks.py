"""Disks of a test's own: too small, or deaf for a while. Skips where this machine has none to give."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


@contextmanager
def small_disk(directory: Path, size: str) -> Iterator[None]:
    directory.mkdir(parents=True, exist_ok=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", directory], capture_output=True)
    if done.returncode:
        pytest.skip(f"no tmpfs can be mounted: {done.stderr.decode().strip()}")
    try:
        yield
    finally:
        subprocess.run(["umount", "-l", directory], check=True)


@contextmanager
def frozen_disk(image: Path, place: Path) -> Iterator[None]:
    """A file system at `place` that accepts no write within the block, and does after it."""
    if os.geteuid() != 0 or not shutil.which("fsfreeze"):
        pytest.skip("needs root and fsfreeze to hang a file system")
    with image.open("wb") as file:
        file.truncate(16 << 20)
    subprocess.run(["mkfs.ext4", "-q", str(image)], check=True)
    if subprocess.run(["mount", "-o", "loop", str(image), str(place)], check=False).returncode:
        pytest.skip("needs a loop device to hang a file system")
    try:
        subprocess.run(["fsfreeze", "-f", str(place)], check=True)
        try:
            yield
        finally:
            subprocess.run(["fsfreeze", "-u", str(place)], check=True)
            wait_for_processes_of(place.parent)
        saved = place.parent / "saved"
        shutil.copytree(place, saved)
    finally:
        subprocess.run(["umount", str(place)], check=True)
    shutil.rmtree(place)
    saved.rename(place)


def wait_for_processes_of(root: Path) -> None:
    deadline = time.monotonic() + 30
    while processes_of(root):
        assert time.monotonic() < deadline, "a process that was left does not end"
        time.sleep(0.1)


def processes_of(root: Path) -> list[int]:
    """Processes whose command line names something below `root`."""
    found = []
    for place in Path("/proc").iterdir():
        if place.name.isdigit():
            try:
                words = (place / "cmdline").read_bytes()
            except OSError:
                continue
            if f"{root}/".encode() in words:
                found.append(int(place.name))
    return found
