"""Builds the lifecycle bundle: what is uploaded to S3 and runs on every node without internet and package index.

    python lifecycle_scripts/build_bundle.py [--dist DIR] [--wheels DIR]

The same inputs give the same bytes on every machine: wheels by hash, entries sorted, one fixed time stamp, stored or
bzip2 (whose output, unlike deflate's, is the same in every implementation), nothing compiled.
Exit code 0; 1 with a sentence if a wheel cannot be had or the bundle would be unfit.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path

HERE = Path(__file__).resolve().parent
PACKAGE = HERE.parent / "topology_plugin"
LOCK = HERE / "requirements.lock"
PAYLOAD_DIR = "hyperpod-topology"
LIMIT_BYTES = 12_000_000
TIME = (1980, 1, 1, 0, 0, 0)
TIME_SECONDS = 315_532_800  # the same moment for tar

# The AWS services whose models are carried. sts: a role's credentials where an operator's profile assumes one.
SERVICES = {"sagemaker": "2017-07-24", "ec2": "2016-11-15", "sts": "2011-06-15"}
SERVICE_FILES = (
    "service-2.json.gz",
    "endpoint-rule-set-1.json.gz",
    "paginators-1.json",
    "paginators-1.sdk-extras.json",
)
BOTOCORE_FILES = ("_retry.json", "endpoints.json", "partitions.json", "sdk-default-configuration.json")
PACKAGE_SUFFIXES = (".py", ".json", ".html", ".css", ".js", ".lua", ".typed")
SEPARATE_ENTRIES = ("on_create.sh", "on_init_complete.sh")


class BuildError(Exception):
    """The bundle cannot be built; the message says why."""


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Build the lifecycle bundle.")
    parser.add_argument("--dist", type=Path, default=HERE.parent / "dist", help="where the bundle goes")
    parser.add_argument(
        "--wheels",
        type=Path,
        default=Path.home() / ".cache" / "hyperpod-topology" / "wheels",
        help="wheels are kept here; with all of them there, nothing is downloaded",
    )
    options = parser.parse_args(arguments)
    try:
        bundle, tarball = build(options.dist, wheels(LOCK, options.wheels))
    except BuildError as error:
        print(f"build_bundle: {error}", file=sys.stderr)
        return 1
    size = sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file())
    print(f"{bundle}: {size / 1e6:.1f} MB, upload it as it is")
    print(f"{tarball}: {tarball.stat().st_size / 1e6:.1f} MB, the same in one file")
    return 0


def build(dist: Path, wheel_files: Iterable[Path]) -> tuple[Path, Path]:
    """Writes `dist`/lifecycle_scripts and the tarball; what stood there is replaced only when all is well."""
    entries = bundle_entries(wheel_files)
    size = sum(map(len, entries.values()))
    if size >= LIMIT_BYTES:
        raise BuildError(f"the bundle would have {size} bytes, {LIMIT_BYTES} is the limit")
    dist.mkdir(parents=True, exist_ok=True)
    bundle = dist / "lifecycle_scripts"
    with tempfile.TemporaryDirectory(prefix=".building-", dir=dist) as temporary:
        # The files keep the time of the build: `aws s3 sync` goes by size and time, and with one fixed time it would
        # take a changed manifest for the old one.
        fresh = Path(temporary) / "lifecycle_scripts"
        for name, data in entries.items():
            file = fresh / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
            file.chmod(0o755 if name.endswith(".sh") else 0o644)
        version = json.loads(entries[f"{PAYLOAD_DIR}/manifest.json"])["version"]
        tarball = dist / f"hyperpod-topology-lifecycle-scripts-{version.partition('+')[0]}.tar.bz2"
        packed = Path(temporary) / tarball.name
        packed.write_bytes(tar_bz2(entries))
        if bundle.exists():
            bundle.rename(Path(temporary) / "former")
        fresh.rename(bundle)
        packed.replace(tarball)
    return bundle, tarball


def bundle_entries(wheel_files: Iterable[Path]) -> dict[str, bytes]:
    """Every file of the bundle: name relative to the S3 prefix → bytes."""
    payload = payload_entries(wheel_files)
    separate = {name: (HERE / name).read_bytes() for name in SEPARATE_ENTRIES}
    inside = {
        "entry.sh": (HERE / PAYLOAD_DIR / "entry.sh").read_bytes(),
        "install.py": (HERE / "node_setup" / "install.py").read_bytes(),
        "payload.zip": stored_zip(payload),
    }
    check_line_ends({**separate, **inside, **payload})
    manifest = {
        "schema": 1,
        "version": bundle_version(payload),
        "bundle": {name: sha256(data) for name, data in sorted(inside.items())},
        "installed": {name: sha256(data) for name, data in sorted(payload.items())},
    }
    entries = {**separate, **{f"{PAYLOAD_DIR}/{name}": data for name, data in inside.items()}}
    entries[f"{PAYLOAD_DIR}/manifest.json"] = (json.dumps(manifest, indent=1, sort_keys=True) + "\n").encode()
    # The operator's own file: not in the manifest, so that it can be edited where it lies.
    settings = HERE / PAYLOAD_DIR / "hyperpod_topology.json"
    entries[f"{PAYLOAD_DIR}/hyperpod_topology.json"] = settings.read_bytes()
    return dict(sorted(entries.items()))


def check_line_ends(entries: Mapping[str, bytes]) -> None:
    for name, data in entries.items():
        if b"\r" in data and name.endswith((".sh", ".py", ".service", ".path", ".conf")) and "/" not in name[4:]:
            raise BuildError(f"{name} has CRLF line ends, which kill a script on the node: check git's autocrlf")


def bundle_version(payload: Mapping[str, bytes]) -> str:
    """<package version>+<8 hex of what is installed>: two builds that differ never share a directory on a node."""
    source = payload["lib/topology_plugin/__init__.py"].decode()
    found = re.search(r'^__version__ = "([^"]+)"', source, re.MULTILINE)
    if not found:
        raise BuildError("topology_plugin/__init__.py names no __version__")
    total = hashlib.sha256()
    for name, data in sorted(payload.items()):
        total.update(f"{name}\0{sha256(data)}\n".encode())
    return f"{found[1]}+{total.hexdigest()[:8]}"


def payload_entries(wheel_files: Iterable[Path]) -> dict[str, bytes]:
    """What is unpacked on the node: name below /opt/hyperpod-topology/<version> → bytes."""
    entries: dict[str, bytes] = {}
    for wheel in wheel_files:
        entries.update(wheel_entries(wheel))
    for source, prefix in ((PACKAGE, "lib/topology_plugin"), (HERE / "node_setup", "lib/node_setup")):
        for file in source.rglob("*"):
            if file.is_file() and file.suffix in PACKAGE_SUFFIXES and "__pycache__" not in file.parts:
                entries[f"{prefix}/{file.relative_to(source).as_posix()}"] = file.read_bytes()
    for file in (HERE / "systemd").iterdir():
        entries[f"systemd/{file.name}"] = file.read_bytes()
    compiled = sorted(name for name in entries if name.endswith((".so", ".pyd", ".pyc")))
    if compiled:
        raise BuildError(f"compiled files in the bundle: {', '.join(compiled)}")
    return entries


def wheel_entries(wheel: Path) -> dict[str, bytes]:
    """The pure Python of one wheel, its data cut to what is used, and its licence."""
    entries: dict[str, bytes] = {}
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            kept = kept_as(name)
            if kept:
                entries[kept] = archive.read(name)
    endpoints = "lib/botocore/data/endpoints.json"
    if endpoints in entries:
        entries[endpoints] = endpoints_of(entries[endpoints], SERVICES)
    return entries


def kept_as(name: str) -> str | None:
    """The name in the bundle of a wheel's file; None: left out."""
    top, _, rest = name.partition("/")
    if top.endswith(".dist-info"):
        base = rest.rsplit("/", 1)[-1]
        if base.upper().startswith(("LICENSE", "LICENCE", "COPYING", "NOTICE")):
            return f"licenses/{top.removesuffix('.dist-info')}/{base}"
        return None
    if name.startswith("botocore/data/"):
        parts = name.split("/")[2:]
        service_file = len(parts) == 3 and SERVICES.get(parts[0]) == parts[1] and parts[2] in SERVICE_FILES
        return f"lib/{name}" if service_file or (parts[-1] in BOTOCORE_FILES and len(parts) == 1) else None
    # boto3/data describes resources (`boto3.resource`), which nothing here uses; _yaml and dateutil's own time zones
    # are the compiled part of PyYAML and a copy of what the machine has.
    if name.startswith(("boto3/data/", "boto3/examples/", "_yaml/", "dateutil/zoneinfo/")):
        return None
    return f"lib/{name}" if name.endswith((".py", ".pem")) else None


def endpoints_of(data: bytes, services: Iterable[str]) -> bytes:
    """botocore's endpoints.json with these services only; every partition and region stays."""
    endpoints = json.loads(data)
    wanted = set(services)
    for partition in endpoints["partitions"]:
        partition["services"] = {name: value for name, value in partition["services"].items() if name in wanted}
    return json.dumps(endpoints, separators=(",", ":")).encode()


def stored_zip(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(entries.items()):
            info = zipfile.ZipInfo(name, TIME)
            info.create_system = 3  # Unix, whatever builds it
            info.external_attr = 0o100644 << 16
            archive.writestr(info, data)
    return buffer.getvalue()


def tar_bz2(entries: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:bz2", format=tarfile.USTAR_FORMAT) as archive:
        for name, data in sorted(entries.items()):
            info = tarfile.TarInfo(f"lifecycle_scripts/{name}")
            info.size, info.mtime = len(data), TIME_SECONDS
            info.mode = 0o755 if name.endswith(".sh") else 0o644
            archive.addfile(info, io.BytesIO(data))
    return buffer.getvalue()


def wheels(lock: Path, kept: Path) -> list[Path]:
    """The locked wheels as files in `kept`, downloaded with pip if one is missing; every hash is checked."""
    wanted = set(re.findall(r"--hash=sha256:([0-9a-f]{64})", lock.read_text()))
    kept.mkdir(parents=True, exist_ok=True)
    found = _by_hash(kept)
    if not wanted <= set(found):
        with tempfile.TemporaryDirectory(prefix=".download-", dir=kept) as temporary:
            _download(lock, Path(temporary))
            for wheel in Path(temporary).glob("*.whl"):
                wheel.replace(kept / wheel.name)
        found = _by_hash(kept)
    missing = wanted - set(found)
    if missing:
        raise BuildError(f"wheels of {lock.name} are missing in {kept}: {', '.join(sorted(missing))}")
    return sorted(found[digest] for digest in wanted)


def _by_hash(directory: Path) -> dict[str, Path]:
    return {sha256(wheel.read_bytes()): wheel for wheel in directory.glob("*.whl")}


def _download(lock: Path, into: Path) -> None:
    # One platform and one Python for every builder: the hashes in the lock name exactly these files. The pure wheels
    # are for any platform; PyYAML's is cut to its Python part.
    platforms = ["any", "manylinux_2_17_x86_64", "manylinux2014_x86_64"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    command += ["--only-binary=:all:", "--python-version=3.10", "--implementation=cp", "--abi=cp310", "--abi=none"]
    command += [f"--platform={platform}" for platform in platforms]
    ended = subprocess.run([*command, "-d", str(into), "-r", str(lock)], capture_output=True, text=True, check=False)
    if ended.returncode:
        reason = (ended.stderr.strip() or "pip gave no reason").splitlines()[-1]
        raise BuildError(f"pip could not download the wheels of {lock.name}: {reason}")


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


if __name__ == "__main__":
    sys.exit(main())
