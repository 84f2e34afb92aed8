from __future__ import annotations

from pathlib import Path

import pytest

from topology_plugin.adapters.mounts import Mount, SystemMounts, holding, shared_only

ROOT = "22 1 259:1 / / rw,relatime shared:1 - ext4 /dev/root rw"
FSX = "90 22 0:51 / /fsx rw,noatime master:3 shared:4 - lustre 10.1.0.9@tcp:/abcd rw,flock"
AUTO = "80 22 0:49 / /fsx rw,relatime - autofs systemd-1 rw,fd=41"
SPACE = r"91 22 0:52 / /mnt/two\040words rw - nfs4 server:/x rw"
DEEP = "92 90 0:53 / /fsx/scratch rw - tmpfs tmpfs rw"


@pytest.mark.parametrize(
    ("lines", "path", "mount"),
    [
        ([ROOT], "/fsx/hyperpod-topology", Mount("/", "ext4")),
        ([ROOT, FSX], "/fsx/hyperpod-topology", Mount("/fsx", "lustre")),
        ([FSX, ROOT], "/fsx", Mount("/fsx", "lustre")),
        ([ROOT, FSX], "/fsxother/x", Mount("/", "ext4")),
        ([ROOT, AUTO], "/fsx/x", Mount("/fsx", "autofs")),
        ([ROOT, AUTO, FSX], "/fsx/x", Mount("/fsx", "lustre")),
        ([ROOT, FSX, DEEP], "/fsx/scratch/x", Mount("/fsx/scratch", "tmpfs")),
        ([ROOT, SPACE], "/mnt/two words/x", Mount("/mnt/two words", "nfs4")),
        (["garbage", "1 2 3 - "], "/fsx", None),
    ],
)
def test_a_path_lies_on_the_last_mount_of_the_longest_mount_point(
    lines: list[str], path: str, mount: Mount | None
) -> None:
    assert holding("\n".join(lines) + "\n", Path(path)) == mount


class Told:
    def __init__(self, mount: Mount | None) -> None:
        self.mount = mount

    def holding(self, path: Path) -> Mount | None:
        return self.mount


@pytest.mark.parametrize(
    ("mount", "fit"),
    [
        (Mount("/fsx", "lustre"), True),
        (Mount("/fsx", "nfs4"), True),
        (Mount("/fsx", "ext4"), True),
        (Mount("/", "nfs4"), True),
        (Mount("/", "ext4"), False),
        (Mount("/", "overlay"), False),
        (Mount("/fsx", "autofs"), False),
        (None, False),
    ],
)
def test_a_registry_of_ours_must_not_lie_on_the_root_volume(mount: Mount | None, fit: bool) -> None:
    why = shared_only(Told(mount))(Path("/fsx/hyperpod-topology/abc"))
    assert (why == "") is fit
    assert fit or "mounted at /fsx" in why


def test_this_machines_own_mounts_are_read() -> None:
    found = SystemMounts().holding(Path("/proc/self"))
    assert found is not None
    assert found.kind == "proc"
