"""A machine whose first process is systemd: a copy-on-write view of this one's disk, in namespaces of its own.

What it writes is thrown away with it; its network is this machine's (slurmctld's loopback). The test's own directory
is shared, at the same path.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

APART = ("setpriv", "--pdeathsig", "KILL", "unshare", "-m", "--propagation", "private")
# From outside: a control group that is the machine's root, and the namespaces. $1: the test's directory.
OUTSIDE = """
set -e
mkdir "$1/groups"; mount -t cgroup2 cgroup2 "$1/groups"
group="$1/groups/booted-$$"; mkdir "$group"
sh -c 'echo $$ > "$1/cgroup.procs"; exec setpriv --pdeathsig KILL unshare -m -p -f -C -i -u --kill-child \\
    --propagation private sh -c "$2" sh "$3"' sh "$group" "$INSIDE" "$1" || true
find "$group" -depth -type d -exec rmdir {} +
"""
# From inside: the disk, then systemd with no unit but ours and the few that everything hangs on.
INSIDE = """
set -e
mount -t tmpfs tmpfs "$1/disk"; mkdir "$1/disk/upper" "$1/disk/work" "$1/disk/root"; root="$1/disk/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/disk/upper,workdir=$1/disk/work" "$root"
mount -t proc proc "$root/proc"; mount --rbind /sys "$root/sys"
mount -t tmpfs tmpfs "$root/sys/fs/cgroup"; umount "$root/sys/fs/cgroup"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount --rbind /dev "$root/dev"; mount -t tmpfs tmpfs "$root/run"
mkdir -p "$root/fsx"; mount -t tmpfs tmpfs "$root/fsx"
mkdir -p "$root$1/shared"; mount --bind "$1/shared" "$root$1/shared"
cd "$root"; rm -rf etc/systemd/system; mkdir -p etc/systemd/system etc/systemd/system.conf.d run/bare run/old
printf '[Manager]\nDefaultEnvironment=%s\n' "$VARIABLES" > etc/systemd/system.conf.d/variables.conf
for name in basic sysinit shutdown umount multi-user network-online remote-fs paths; do
    printf '[Unit]\\nDefaultDependencies=no\\n' > "run/bare/$name.target"
done
printf '[Unit]\\nDefaultDependencies=no\\nAllowIsolate=yes\\n' > run/bare/rescue.target
pivot_root . run/old; umount -l /run/old
exec env -i container=lxc SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/bare PATH=/usr/sbin:/usr/bin:/sbin:/bin \\
    /lib/systemd/systemd --system --unit=basic.target --log-target=console --show-status=no
"""


class CannotBoot(Exception):
    """Why no systemd runs as first process here."""


class Booted:
    """`directory`/shared is seen by both; everything else that the machine writes is its own. `environment`: of every
    process there."""

    def __init__(self, directory: Path, environment: Mapping[str, str]) -> None:
        self.shared = directory / "shared"
        self._directory = directory
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None

    def boot(self, seconds: float = 30) -> None:
        """Raises CannotBoot where this machine does not allow it."""
        if os.geteuid() != 0 or not Path("/lib/systemd/systemd").exists():
            raise CannotBoot("needs root and systemd's executable")
        self.shared.mkdir(parents=True, exist_ok=True)
        (self._directory / "disk").mkdir()
        variables = " ".join(f'"{name}={value}"' for name, value in self._environment.items())
        with self.console.open("wb") as output:
            self._process = subprocess.Popen(
                [*APART, "sh", "-c", OUTSIDE, "sh", str(self._directory)],
                env={"PATH": os.environ["PATH"], "INSIDE": INSIDE, "VARIABLES": variables},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + seconds
        while self._process.poll() is None and time.monotonic() < deadline:
            if self.first is not None and self.run("systemctl", "is-active", "basic.target").stdout == "active\n":
                return
            time.sleep(0.1)
        said = self.console.read_text(errors="replace")[-2000:]
        self.stop()
        raise CannotBoot(f"systemd does not come up within {seconds:.0f} s: {said}")

    @property
    def console(self) -> Path:
        return self._directory / "console"

    @property
    def first(self) -> int | None:
        """The machine's first process, as this one numbers it."""
        place = [self._process.pid] if self._process else []
        while place:
            pid = place.pop()
            try:
                if Path(f"/proc/{pid}/comm").read_text() == "systemd\n":
                    return pid
                place += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            except OSError:
                continue
        return None

    def run(self, *command: str | Path, timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """On the machine, as root."""
        words = ["nsenter", "--target", str(self.first), "--all", "--root", "--wd", "--", *map(str, command)]
        return subprocess.run(
            words,
            env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", **self._environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )

    def write(self, path: str, text: str) -> None:
        """A file of the machine, replaced as a whole, as HyperPod's agent does."""
        fresh = self.shared / "fresh"
        fresh.write_text(text)
        ended = self.run("sh", "-c", f'mkdir -p "$(dirname {path})" && cp {fresh} {path}.new && mv {path}.new {path}')
        assert ended.returncode == 0, ended.stdout

    def show(self, unit: str, name: str) -> str:
        """One property of a unit."""
        return self.run("systemctl", "show", "--value", f"--property={name}", unit).stdout.strip()

    def stop(self) -> None:
        first = self.first
        if first is not None:
            os.kill(first, signal.SIGKILL)  # and with it the kernel ends everything of its namespace
        if self._process is not None:
            try:
                self._process.wait(20)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
