"""The first stage: checked bytes, one switch, and whatever happens the version in use stays whole."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import build_bundle
import pytest
from node_setup.install import InstallError, install

from tests.bundle.conftest import ROOT

Say = Callable[[str], None]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "node"


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


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return small_bundle(tmp_path / "old-bundle", "1.0+aaaaaaaa")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return small_bundle(tmp_path / "new-bundle", "2.0+bbbbbbbb")


@pytest.fixture(scope="session")
def newer(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The payload of the next version."""
    copy = tmp_path_factory.mktemp("newer") / "sources"
    shutil.copytree(sources, copy)
    init = copy / "topology_plugin" / "__init__.py"
    init.write_text(init.read_text().replace('__version__ = "', '__version__ = "9.'))
    command = [sys.executable, str(copy / "lifecycle_scripts/build_bundle.py"), "--dist", str(copy.parent / "dist")]
    subprocess.run(command, check=True, capture_output=True)
    return copy.parent / "dist" / "lifecycle_scripts" / "hyperpod-topology"


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


def test_an_upgrade_is_one_switch_and_the_former_version_stays_for_what_still_runs(
    payload: Path, newer: Path, root: Path
) -> None:
    old = put(payload, root)
    running = subprocess.Popen(
        [sys.executable, "-IS", "-c", RUNNING, str(old / "lib")], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert running.stdout is not None
    assert running.stdout.readline() == b"ready\n"
    new = put(newer, root)
    assert version_of(root).startswith("9.")
    home = root / "opt/hyperpod-topology"
    assert [str((home / link).readlink()) for link in ("current", "previous")] == [new.name, old.name]
    assert running.communicate(b"\n")[0] == b"imported late\n"


RUNNING = """
import sys
sys.path.insert(0, sys.argv[1])
import click
print("ready", flush=True)
sys.stdin.readline()
import requests, rich.table
print("imported late")
"""


def test_going_back_is_installing_the_former_bundle(old: Path, new: Path, root: Path) -> None:
    first = put(old, root)
    second = put(new, root)
    assert put(old, root) == first
    assert version_of(root) == "1.0+aaaaaaaa"
    assert versions(root) == [first.name, second.name]


def test_old_versions_go_but_never_the_current_and_the_previous_one(old: Path, new: Path, root: Path) -> None:
    home = root / "opt/hyperpod-topology"
    for number in range(4):
        (home / f"0.0.{number}+00000000" / "lib").mkdir(parents=True)
        os.utime(home / f"0.0.{number}+00000000", (number, number))
    assert versions(root) != []
    put(old, root)
    put(new, root)
    assert versions(root) == ["1.0+aaaaaaaa", "2.0+bbbbbbbb"]


def test_a_version_that_lost_a_file_is_made_whole_again(old: Path, root: Path) -> None:
    target = put(old, root)
    (target / "lib/topology_plugin/late.py").unlink()
    (target / "lib/topology_plugin/cli/hook.py").write_text("raise SystemExit('torn')")
    put(old, root)
    assert version_of(root) == "1.0+aaaaaaaa"
    assert leftovers(root) == []


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


def test_several_at_once_leave_one_whole_version(old: Path, root: Path) -> None:
    runs = [installer(old, root) for _ in range(8)]
    assert [run.wait() for run in runs] == [0] * 8
    assert version_of(root) == "1.0+aaaaaaaa"
    assert leftovers(root) == []


def test_leftovers_of_a_killed_installer_are_removed(old: Path, root: Path) -> None:
    (root / "opt/hyperpod-topology/.new-123/lib").mkdir(parents=True)
    put(old, root)
    assert leftovers(root) == []


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


def versions(root: Path) -> list[str]:
    home = root / "opt/hyperpod-topology"
    return sorted(place.name for place in home.iterdir() if place.is_dir() and not place.is_symlink())


def leftovers(root: Path) -> list[str]:
    return [place.name for place in (root / "opt/hyperpod-topology").iterdir() if place.name.startswith(".new")]


@pytest.mark.parametrize("part", range(4))
def test_a_kill_at_any_point_of_an_upgrade_leaves_a_whole_version(
    old: Path, new: Path, tmp_path: Path, part: int
) -> None:
    """Every single change of the disk is a point; the next run ends what was begun."""
    dry = tmp_path / "dry"
    put(old, dry)
    events = subprocess.run(
        [sys.executable, "-I", "-c", KILLED, str(ROOT / "lifecycle_scripts"), str(new), str(dry), "-1"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.splitlines()
    assert len(events) >= 30
    assert any(line.startswith("os.rename") and "/current" in line for line in events)
    for point in range(part, len(events), 4):
        root = tmp_path / f"node-{point}"
        put(old, root)
        killed = subprocess.run(
            [sys.executable, "-I", "-c", KILLED, str(ROOT / "lifecycle_scripts"), str(new), str(root), str(point)],
            capture_output=True,
            check=False,
        )
        assert killed.returncode == -9, events[point]
        assert version_of(root) in ("1.0+aaaaaaaa", "2.0+bbbbbbbb"), events[point]
        put(new, root)
        assert version_of(root) == "2.0+bbbbbbbb", events[point]
        assert leftovers(root) == [], events[point]
        shutil.rmtree(root)


# Counts what changes the disk and kills itself right before event number argv[4].
KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from node_setup import install
count, last = 0, int(sys.argv[4])
def hook(event, arguments):
    global count
    flags = arguments[2] if event == "open" and isinstance(arguments[2], int) else 0
    writing = flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if writing or event in ("os.rename", "os.symlink", "os.remove", "os.mkdir", "os.chmod", "os.rmdir"):
        if count == last:
            os.kill(os.getpid(), signal.SIGKILL)
        count += 1
        if last < 0:
            print(event, arguments[0:2], flush=True)
sys.addaudithook(hook)
install.install(Path(sys.argv[2]), Path(sys.argv[3]), sys.executable, lambda text: None)
"""


def installer(payload: Path, root: Path) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-I", "-c", KILLED, str(ROOT / "lifecycle_scripts"), str(payload), str(root), "1000000"]
    )


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "small"
    place.mkdir()
    mounted = (
        os.geteuid() == 0
        and not subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=14m", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    )
    if not mounted:
        pytest.skip("needs root and mount for a small disk")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_full_disk_stops_an_upgrade_and_the_version_in_use_stays(
    payload: Path, newer: Path, small_disk: Path
) -> None:
    put(payload, small_disk)
    former = version_of(small_disk)
    with pytest.raises(OSError, match="No space left"):
        put(newer, small_disk)
    assert version_of(small_disk) == former
    assert leftovers(small_disk) == []


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
