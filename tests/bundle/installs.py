"""Bundles as they are built, small ones of the same form, and what an install leaves."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import build_bundle
from node_setup.install import install

Say = Callable[[str], None]
SMALL = {
    "lib/topology_plugin/__init__.py": "",
    "lib/topology_plugin/cli/__init__.py": "",
    "lib/topology_plugin/cli/hook.py": "from topology_plugin.late import main\n",
    "lib/topology_plugin/late.py": "def main():\n    print('version', {version!r})\n",
    "lib/node_setup/main.py": "def main():\n    return 0\n",
    "systemd/watch.service": "[Service]\n",
}


def small_bundle(directory: Path, version: str) -> Path:
    """A bundle of the real form with a few files, for tests that install it hundreds of times."""
    files = {name: text.format(version=version).encode() for name, text in SMALL.items()}
    inside = {"payload.zip": build_bundle.stored_zip(files), "install.py": b"", "entry.sh": b""}
    manifest = {
        "version": version,
        "bundle": {name: build_bundle.sha256(data) for name, data in inside.items()},
        "installed": {name: build_bundle.sha256(data) for name, data in files.items()},
    }
    directory.mkdir()
    for name, data in {**inside, "manifest.json": json.dumps(manifest).encode()}.items():
        (directory / name).write_bytes(data)
    return directory


def built(sources: Path, dist: Path) -> Path:
    """dist/lifecycle_scripts, by the same command line as the make target's."""
    command = [sys.executable, str(sources / "lifecycle_scripts" / "build_bundle.py"), "--dist", str(dist)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return dist / "lifecycle_scripts"


def next_release(sources: Path, directory: Path) -> Path:
    """The same sources with another version, built."""
    copy = directory / "newer-sources"
    shutil.copytree(sources, copy)
    init = copy / "topology_plugin" / "__init__.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "9.'))
    return built(copy, directory / "newer-dist")


def put(payload: Path, root: Path, say: Say = lambda text: None) -> Path:
    return install(payload, root, sys.executable, say)


def version_of(root: Path) -> str:
    """What a user gets who types the command, with nothing in the environment."""
    command = [str(root / "usr/local/bin/hyperpod-topology"), "--version"]
    return subprocess.run(command, check=True, capture_output=True, text=True, env={}, cwd="/").stdout.split()[-1]


def tree(root: Path) -> dict[str, tuple[int, int, bytes]]:
    """Every file with inode, time and content, but for bytecode and the lock."""
    return {
        str(file.relative_to(root)): (file.lstat().st_ino, file.lstat().st_mtime_ns, file.read_bytes())
        for file in root.rglob("*")
        if file.is_file() and "__pycache__" not in file.parts and file.name != ".lock"
    }


def versions(root: Path) -> list[str]:
    home = root / "opt/hyperpod-topology"
    return sorted(place.name for place in home.iterdir() if place.is_dir() and not place.is_symlink())


def leftovers(root: Path) -> list[str]:
    return [place.name for place in (root / "opt/hyperpod-topology").iterdir() if place.name.startswith(".new")]
