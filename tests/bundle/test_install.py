"""The first stage: checked bytes, put where anybody can run them, and nothing of another's in the way."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import build_bundle
import pytest
from node_setup.install import InstallError, install

from tests.bundle import ROOT
from tests.bundle.installs import put, tree, version_of


def test_the_command_works_from_anywhere_after_the_unpacked_bundle_is_gone(
    payload: Path, root: Path, tmp_path: Path
) -> None:
    copy = tmp_path / "tmp-sagemaker" / "hyperpod-topology"
    shutil.copytree(payload, copy)
    target = put(copy, root)
    shutil.rmtree(copy.parent)
    assert version_of(root)
    assert (root / "opt/hyperpod-topology/current").readlink() == Path(target.name)


def test_a_second_run_writes_nothing(payload: Path, root: Path, said: list[str]) -> None:
    put(payload, root)
    before = tree(root)
    put(payload, root, said.append)
    assert tree(root) == before
    assert said == [f"version {(root / 'opt/hyperpod-topology/current').readlink()} is installed already"]


def test_the_node_keeps_no_way_for_its_own_python_packages_into_the_command(payload: Path, root: Path) -> None:
    """A user's PYTHONPATH with a broken click must not break an operator's command."""
    put(payload, root)
    trap = root / "trap"
    trap.mkdir()
    for name in ("click.py", "sitecustomize.py", "json.py"):
        (trap / name).write_text("raise SystemExit('trapped')")
    ended = subprocess.run(
        [str(root / "usr/local/bin/hyperpod-topology"), "--version"],
        env={"PYTHONPATH": str(trap), "PYTHONSTARTUP": str(trap / "json.py")},
        cwd=trap,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (0, "")


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        pytest.param(
            lambda p: flip(p / "payload.zip"), r"payload\.zip of the bundle does not agree with manifest", id="one-bit"
        ),
        pytest.param(lambda p: cut(p / "payload.zip"), r"payload\.zip of the bundle does not agree", id="cut-short"),
        pytest.param(lambda p: cut(p / "manifest.json"), r"manifest\.json cannot be read", id="manifest-cut"),
        pytest.param(
            lambda p: (p / "payload.zip").unlink(), r"payload\.zip of the bundle cannot be read", id="missing"
        ),
        pytest.param(lambda p: (p / "manifest.json").unlink(), r"manifest\.json cannot be read", id="no-manifest"),
        pytest.param(lambda p: rename_version(p, "../../etc"), "names paths outside the bundle", id="version-outside"),
        pytest.param(
            lambda p: add_installed(p, "../../../etc/cron.d/x"), "names paths outside the bundle", id="file-outside"
        ),
        pytest.param(lambda p: add_installed(p, "lib/nowhere.py"), r"payload\.zip is damaged", id="file-not-packed"),
    ],
)
def test_a_damaged_bundle_is_refused_and_the_version_in_use_stays(
    old: Path, new: Path, root: Path, damage: Callable[[Path], object], message: str
) -> None:
    put(old, root)
    former = tree(root), version_of(root)
    damage(new)
    with pytest.raises(InstallError, match=message):
        put(new, root)
    assert (tree(root), version_of(root)) == former


def test_somebody_elses_command_of_that_name_stays(old: Path, root: Path, said: list[str]) -> None:
    theirs = root / "usr/local/bin/hyperpod-topology"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("theirs")
    put(old, root, said.append)
    assert theirs.read_text() == "theirs"
    assert any("is not ours and stays" in line for line in said)


def test_another_python_on_the_node_gets_into_the_commands(old: Path, root: Path) -> None:
    install(old, root, "/usr/bin/python-of-former-days", lambda text: None)
    put(old, root)
    assert version_of(root) == "1.0+aaaaaaaa"


def test_whatever_the_umask_users_can_read_and_run_it(old: Path, root: Path) -> None:
    """By the real first stage, as lifecycle scripts may run with any umask."""
    (old / "install.py").write_bytes((ROOT / "lifecycle_scripts/node_setup/install.py").read_bytes())
    manifest = json.loads((old / "manifest.json").read_text())
    manifest["bundle"]["install.py"] = build_bundle.sha256((old / "install.py").read_bytes())
    (old / "manifest.json").write_text(json.dumps(manifest))
    command = f"umask 077; HYPERPOD_TOPOLOGY_ROOT={root} exec {sys.executable} -I {old}/install.py stock"
    subprocess.run(["sh", "-c", command], check=True, capture_output=True)
    for place in (root / "opt").rglob("*"):
        if place.name != ".lock" and not place.is_symlink():
            assert place.stat().st_mode & 0o777 == (0o755 if place.is_dir() or place.parent.name == "bin" else 0o644), (
                place
            )


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])


def rename_version(payload: Path, version: str) -> None:
    manifest = json.loads((payload / "manifest.json").read_text())
    (payload / "manifest.json").write_text(json.dumps({**manifest, "version": version}))


def add_installed(payload: Path, name: str) -> None:
    manifest = json.loads((payload / "manifest.json").read_text())
    manifest["installed"][name] = "0" * 64
    (payload / "manifest.json").write_text(json.dumps(manifest))


def test_the_archive_itself_holds_no_names_outside(payload: Path) -> None:
    with zipfile.ZipFile(payload / "payload.zip") as archive:
        assert all(name.split("/")[0] in ("lib", "licenses", "systemd") for name in archive.namelist())
