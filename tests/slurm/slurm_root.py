#!/usr/bin/env python3
"""Provide a real Slurm for the tests, without installing anything on the machine that runs them.

    python3 tests/slurm/slurm_root.py [forky|trixie]

prints a directory of executables (slurmctld, slurmd, scontrol, sinfo, sbatch, squeue, srun, scancel, sacct, salloc,
sdiag, and slurm-inside, which runs any other command with that Slurm around it). They run Debian's own Slurm (forky:
26.05, trixie: 24.11) out of a root directory in `${XDG_CACHE_HOME:-~/.cache}/hyperpod-topology/`, which is built with
debootstrap at the first call (about a minute) and reused afterwards. Progress goes to stderr; exit code 2 and one
sentence say why it is impossible.

SLURM_PREFIX=/opt/slurm   use the Slurm installed there instead of Debian's forky; nothing is built
DEBIAN_MIRROR=URL         where to fetch Debian from, if not from what apt on this machine uses

Each executable keeps the pid it was started with, and sees the host's file system at its usual paths; only /usr and
/etc are the root directory's. They are bind-mounted in a mount namespace that ends with the process, so that even a
kill -9 leaves no mount behind. The host's /usr and /etc are therefore the only places a test can't keep files in.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

TOOLS = {
    "slurmctld": "/usr/sbin/slurmctld",
    "slurmd": "/usr/sbin/slurmd",
    **{name: f"/usr/bin/{name}" for name in
       ("scontrol", "sinfo", "sbatch", "squeue", "srun", "scancel", "sacct", "salloc", "sdiag")},
    "slurm-inside": "/usr/bin/env",  # any command, such as `slurm-inside setpriv --reuid=65534 … sbatch …`
}  # fmt: skip
PACKAGES = "slurmctld,slurmd,slurm-client,slurm-wlm-basic-plugins,munge"
RELEASES = ("forky", "trixie")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
SCRIPT = Path("/usr/share/debootstrap/scripts/sid")  # serves every release; older debootstraps don't know forky's name
RECIPE = 1  # raise when a root directory built by the former recipe will not do

# perl-base is part of every Debian. A shell with unshare(1) and mount(1) does the same in three times the time
# (7 ms instead of 2 on top of the program's own start), and tests call these executables thousands of times.
WRAPPER = r"""#!/usr/bin/env -S PERL_BADLANG=0 /usr/bin/perl
# Runs @PROGRAM@ with @ROOT@'s /usr and /etc. Written by tests/slurm/slurm_root.py.
use strict;
my ($root, $program) = ('@ROOT@', '@PROGRAM@');
my ($MOUNT, $UNSHARE) = (@SYSCALLS@);
my ($MS_BIND, $MS_REC, $MS_PRIVATE, $CLONE_NEWNS) = (0x1000, 0x4000, 0x40000, 0x20000);
delete $ENV{PERL_BADLANG};

sub fail {
    print STDERR "$program: cannot $_[0]: $!. Running Slurm from a root directory needs root and CAP_SYS_ADMIN.\n";
    exit 126;
}

# A job started by these executables that calls them again is inside already (and need not be root).
if (!-e '/etc/hyperpod-topology-root') {
    open(my $name, '<', '/proc/sys/kernel/hostname') or fail('read the host name');
    chomp(my $host = <$name>);
    open(my $hosts, '+>>', "$root/etc/hosts") or fail("open $root/etc/hosts");
    seek($hosts, 0, 0);
    print $hosts "127.0.0.1 $host\n" unless grep { $_ eq "127.0.0.1 $host\n" } <$hosts>;
    close($hosts);
    my ($none, $slash) = ('none', '/');
    syscall($UNSHARE, $CLONE_NEWNS) == 0 or fail('make a mount namespace');
    syscall($MOUNT, $none, $slash, $none, $MS_REC | $MS_PRIVATE, 0) == 0 or fail('make mounts private');
    for my $directory ('/etc', '/usr') {
        my ($source, $target) = ("$root$directory", "$directory");  # syscall() takes no constants
        syscall($MOUNT, $source, $target, $none, $MS_BIND, 0) == 0 or fail("mount $source on $directory");
    }
}
# Inside, Slurm is in /usr; whoever a command or job becomes there can't use, or not even read, these executables.
$ENV{PATH} = join(':', grep { $_ ne '@BIN@' } split(/:/, $ENV{PATH})) if defined $ENV{PATH};
exec { $program } $program, @ARGV or fail('run it');
"""
SYSCALLS = {"x86_64": "165, 272", "aarch64": "40, 97"}  # mount, unshare


class Impossible(Exception):
    """Says in one sentence why there can be no Slurm here."""


def say(text: str) -> None:
    print(f"slurm_root: {text}", file=sys.stderr, flush=True)


def cache_directory() -> Path:
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "hyperpod-topology"


@contextlib.contextmanager
def only_one(lock: Path) -> Iterator[None]:
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as handle:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another process is building it; waiting")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def replace_text(path: Path, text: str, mode: int) -> None:
    """Write atomically, and only if it differs: another test session may be running the file right now."""
    if path.is_file() and path.read_text() == text:
        return
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}-", delete=False) as handle:
        handle.write(text)
    os.chmod(handle.name, mode)  # noqa: PTH101  the name is a string
    Path(handle.name).replace(path)


def apt_get(*arguments: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    done = subprocess.run(["apt-get", "-q", "-y", *arguments], env=environment, stdin=subprocess.DEVNULL,
                          stdout=sys.stderr, stderr=subprocess.PIPE, text=True)  # fmt: skip
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if line.startswith("E:")), done.stderr.strip())
        raise Impossible(f"`apt-get {' '.join(arguments)}` failed: {reason}")


def have_debootstrap() -> None:
    if shutil.which("debootstrap") and SCRIPT.is_file() and KEYRING.is_file():
        return
    if not shutil.which("apt-get"):
        raise Impossible("debootstrap is missing and this system has no apt-get to install it with.")
    say("installing debootstrap")
    wanted = ("install", "--no-install-recommends", "debootstrap", "debian-archive-keyring")
    try:
        apt_get(*wanted)
    except Impossible:  # package lists that are missing or too old are the usual cause
        apt_get("update")
        apt_get(*wanted)


def mirrors_of_apt() -> list[str]:
    """Debian archives (no security archives, those lack whole releases) that apt on this machine fetches from."""
    line = "$(ORIGIN) $(SUITE) $(REPO_URI)"
    command = ["apt-get", "indextargets", "--format", line, "Created-By: Packages", "Component: main"]
    if not shutil.which("apt-get"):
        return []
    rows = [row.split() for row in subprocess.run(command, capture_output=True, text=True).stdout.splitlines()]
    return [row[2] for row in rows
            if len(row) == 3 and row[0] == "Debian" and "security" not in row[1]
            and row[2].startswith(("http:", "https:", "file:"))]  # fmt: skip


def mirror() -> str:
    if given := os.environ.get("DEBIAN_MIRROR"):
        return given
    found = mirrors_of_apt()
    if not found and shutil.which("apt-get"):
        apt_get("update")  # without package lists apt doesn't know an archive's origin
        found = mirrors_of_apt()
    if not found:
        raise Impossible("apt on this system fetches from no Debian archive; name one in DEBIAN_MIRROR.")
    return found[0]


def debootstrap(release: str, target: Path, log: Path) -> None:
    """Fill `target`. In namespaces of its own: what it mounts and starts ends with it, also when we are killed."""
    apart = ["setpriv", "--pdeathsig=KILL", "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
    command = [*apart, "debootstrap", "--variant=minbase", f"--include={PACKAGES}"]
    source = [release, str(target), mirror(), str(SCRIPT)]
    for unchecked in ((), ("--no-check-gpg",)):
        with log.open("w") as out:
            environment = {**os.environ, "LC_ALL": "C"}
            run = subprocess.Popen([*command, *unchecked, *source], env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)  # fmt: skip
            assert run.stdout
            for line in run.stdout:
                out.write(line)
                if re.match(r"I: .*(InRelease|base system|core packages)", line):
                    say(line[3:].strip())
        if run.wait() == 0:
            return
        lines = log.read_text().splitlines()
        errors = [line for line in lines if line.startswith(("E:", "unshare:"))] or lines[-1:] or ["no output"]
        if unchecked or not any("unknown key" in line or "NO_PUBKEY" in line for line in lines):
            break
        say(f"warning: {KEYRING} lacks the key that signs {release}; fetching it unverified")
        shutil.rmtree(target, ignore_errors=True)
    raise Impossible(f"debootstrap of {release} failed: {errors[-1]} (all of its output: {log})")


def build(release: str, home: Path) -> None:
    if not shutil.which("unshare"):
        raise Impossible("unshare (util-linux) is missing.")
    have_debootstrap()
    for stale in home.parent.glob(f"{home.name}.building-*"):  # we hold the lock: whoever made them is gone
        shutil.rmtree(stale, ignore_errors=True)
    work = Path(tempfile.mkdtemp(dir=home.parent, prefix=f"{home.name}.building-"))
    try:
        full = work / "full"
        say(f"building Debian {release} with Slurm in {home} (a minute or two)")
        debootstrap(release, full, home.parent / f"{home.name}.log")
        root = work / "root"
        root.mkdir()
        for part in ("etc", "usr"):  # all else comes from the host
            (full / part).rename(root / part)
        shutil.rmtree(full)
        for part in ("doc", "man", "locale", "info"):
            shutil.rmtree(root / "usr/share" / part, ignore_errors=True)
        etc = root / "etc"
        (etc / "hosts").write_text("127.0.0.1 localhost\n::1 localhost\n")
        # No test may depend on, wait for, or ask a name server.
        (etc / "nsswitch.conf").write_text("passwd: files\ngroup: files\nshadow: files\nhosts: files\n")
        (etc / "resolv.conf").unlink(missing_ok=True)
        (etc / "resolv.conf").write_text("")
        (etc / "hyperpod-topology-root").write_text(f"{release}\n")
        work.chmod(0o755)
        work.rename(home)
    finally:
        shutil.rmtree(work, ignore_errors=True)


def write_wrappers(home: Path) -> Path:
    machine = platform.machine()
    if machine not in SYSCALLS:
        raise Impossible(f"system call numbers of {machine} are unknown to this script; use SLURM_PREFIX.")
    directory = home / "bin"
    directory.mkdir(exist_ok=True)
    for name, program in TOOLS.items():
        if os.path.lexists(home / "root" / program[1:]):  # an "alternative": a link that is only good inside
            text = WRAPPER.replace("@PROGRAM@", program).replace("@ROOT@", str(home / "root"))
            text = text.replace("@BIN@", str(directory)).replace("@SYSCALLS@", SYSCALLS[machine])
            replace_text(directory / name, text, 0o755)
    return directory


def from_prefix(prefix: Path) -> Path:
    """One directory with all tools of an installed Slurm (its daemons are usually in sbin, its commands in bin)."""
    prefix = prefix.resolve()
    places = [prefix / "bin", prefix / "sbin", prefix]
    found = {name: place / name for place in reversed(places) for name in TOOLS if (place / name).is_file()}
    if missing := {"slurmctld", "scontrol", "sbatch", "squeue"} - found.keys():
        raise Impossible(f"SLURM_PREFIX={prefix} has no {', '.join(sorted(missing))} in bin or sbin.")
    homes = {path.parent for path in found.values()}
    if len(homes) == 1:
        return homes.pop()
    links = cache_directory() / f"prefix{str(prefix).replace('/', '-')}"
    links.mkdir(parents=True, exist_ok=True)
    for name, path in found.items():
        fresh = links / f".{name}-{os.getpid()}"
        fresh.symlink_to(path)
        fresh.replace(links / name)
    return links


def provide(release: str) -> Path:
    """Directory of the executables of `release`, built if need be. Raises Impossible."""
    if (prefix := os.environ.get("SLURM_PREFIX")) and release == RELEASES[0]:
        return from_prefix(Path(prefix))
    if os.geteuid() != 0:
        raise Impossible("only root can run Slurm from a root directory; become root or set SLURM_PREFIX.")
    if not Path("/lib").resolve().is_relative_to("/usr"):
        raise Impossible("/lib of this system is not in /usr, so Debian's libraries can't take its place.")
    home = cache_directory() / f"slurm-{release}-{platform.machine()}-{RECIPE}"
    with only_one(home.with_name(f"{home.name}.lock")):
        if not home.exists():
            build(release, home)
        directory = write_wrappers(home)
    check = subprocess.run([directory / "slurmctld", "-V"], capture_output=True, text=True)
    if check.returncode:
        raise Impossible(f"{directory}/slurmctld does not run: {(check.stderr or check.stdout).strip()}")
    return directory


def main(arguments: list[str]) -> int:
    release = arguments[0] if arguments else RELEASES[0]
    if len(arguments) > 1 or release not in RELEASES:
        print(f"usage: slurm_root.py [{'|'.join(RELEASES)}]", file=sys.stderr)
        return 2
    try:
        print(provide(release))
    except Impossible as reason:
        print(f"slurm_root: {reason}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"slurm_root: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
