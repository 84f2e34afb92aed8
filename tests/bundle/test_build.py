"""What `make bundle` builds: pure, small, the same bytes every time, and enough for a node with a bare Python."""

from __future__ import annotations

import ast
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import build_bundle
import pytest

from tests.bundle import ROOT

BUILDER = ROOT / "lifecycle_scripts" / "build_bundle.py"


@pytest.fixture(scope="session")
def lib(payload: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The installed libraries, unpacked."""
    directory = tmp_path_factory.mktemp("unpacked")
    with zipfile.ZipFile(payload / "payload.zip") as archive:
        archive.extractall(directory)
    return directory / "lib"


def bare(python: str, lib: Path, code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs code as a node does: nothing but the standard library and the bundle."""
    start = f"import sys; sys.path.insert(0, {str(lib)!r}); "
    return subprocess.run(
        [python, "-IS", "-c", start + code, *arguments], capture_output=True, text=True, check=False, env={}
    )


def test_the_upload_holds_the_entry_scripts_and_one_directory_and_nothing_else(bundle: Path) -> None:
    """A provisioning_parameters.json anywhere in it would make an API-driven cluster's update fail."""
    files = sorted(file.relative_to(bundle).as_posix() for file in bundle.rglob("*") if file.is_file())
    assert files == [
        "hyperpod-topology/entry.sh",
        "hyperpod-topology/hyperpod_topology.json",
        "hyperpod-topology/install.py",
        "hyperpod-topology/manifest.json",
        "hyperpod-topology/payload.zip",
        "on_create.sh",
        "on_init_complete.sh",
    ]
    with zipfile.ZipFile(bundle / "hyperpod-topology/payload.zip") as archive:
        assert not [name for name in archive.namelist() if "provisioning_parameters" in name and name.endswith(".json")]


def test_it_stays_below_twelve_megabytes(bundle: Path) -> None:
    assert sum(file.stat().st_size for file in bundle.rglob("*") if file.is_file()) < 12_000_000


def test_nothing_in_it_is_compiled(payload: Path) -> None:
    with zipfile.ZipFile(payload / "payload.zip") as archive:
        for name in archive.namelist():
            assert not name.endswith((".so", ".pyc", ".pyd", ".dll")), name
            assert archive.read(name)[:4] != b"\x7fELF", name


def test_another_python_another_place_and_another_umask_build_the_same_bytes(
    bundle: Path, sources: Path, python: str, tmp_path: Path
) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(sources, copy)
    for file in copy.rglob("*"):
        os.utime(file, (1_700_000_000, 1_700_000_000))
    (copy / "topology_plugin" / "__pycache__").mkdir(exist_ok=True)
    (copy / "topology_plugin" / "__pycache__" / "stale.cpython-310.pyc").write_bytes(b"stale")
    command = f"umask 077; exec {python} -I {copy}/lifecycle_scripts/build_bundle.py --dist {tmp_path}/dist"
    ended = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    for place in (bundle, *bundle.parent.glob("*.tar.bz2")):
        for file in [place, *place.rglob("*")]:
            if file.is_file():
                other = tmp_path / "dist" / file.relative_to(bundle.parent)
                assert other.read_bytes() == file.read_bytes(), file.name


def test_the_manifest_names_every_file_with_its_checksum(payload: Path) -> None:
    manifest = json.loads((payload / "manifest.json").read_text())
    for name, digest in manifest["bundle"].items():
        assert hashlib.sha256((payload / name).read_bytes()).hexdigest() == digest
    with zipfile.ZipFile(payload / "payload.zip") as archive:
        found = {name: hashlib.sha256(archive.read(name)).hexdigest() for name in archive.namelist()}
    assert found == manifest["installed"]
    assert set(manifest["bundle"]) == {"entry.sh", "install.py", "payload.zip"}


def test_the_tarball_holds_the_same_files(bundle: Path) -> None:
    (tarball,) = bundle.parent.glob("*.tar.bz2")
    with tarfile.open(tarball) as archive:
        for member in archive.getmembers():
            file = archive.extractfile(member)
            assert file is not None
            assert file.read() == (bundle.parent / member.name).read_bytes()
            assert (member.uid, member.gid, member.mtime) == (0, 0, build_bundle.TIME_SECONDS)
        assert len(archive.getmembers()) == 7


def test_every_component_comes_with_its_licence(lib: Path) -> None:
    locked = [line.split("==")[0] for line in build_bundle.LOCK.read_text().splitlines() if "==" in line]
    with_licence = {
        place.name.rsplit("-", 1)[0].lower().replace("_", "-") for place in (lib.parent / "licenses").iterdir()
    }
    assert {name.lower().replace("_", "-") for name in locked} == with_licence


class TestOnEachPython:
    def test_the_command_line_starts(self, python: str, lib: Path) -> None:
        ended = bare(python, lib, "from topology_plugin.cli.main import main; main(['--version'])")
        assert (ended.returncode, ended.stderr) == (0, "")
        assert ended.stdout.startswith("hyperpod-topology, version ")

    def test_whatever_the_package_imports_anywhere_is_there(self, python: str, lib: Path) -> None:
        """Imports inside functions too: they are the ones that fail on a node months later."""
        wanted = sorted(imports_of(lib / "topology_plugin") | imports_of(lib / "node_setup"))
        assert {"boto3", "yaml", "click"} <= {name.split(".")[0] for name in wanted}
        ended = bare(python, lib, "import importlib; [importlib.import_module(n) for n in sys.argv[1:]]", *wanted)
        assert ended.returncode == 0, ended.stderr

    def test_every_module_of_the_package_can_be_imported(self, python: str, lib: Path) -> None:
        modules = sorted(
            file.relative_to(lib).with_suffix("").as_posix().replace("/", ".").removesuffix(".__init__")
            for top in ("topology_plugin", "node_setup")
            for file in (lib / top).rglob("*.py")
            if file.name != "__main__.py"
        )
        ended = bare(python, lib, "import importlib; [importlib.import_module(n) for n in sys.argv[1:]]", *modules)
        assert ended.returncode == 0, ended.stderr

    def test_the_aws_clients_work_with_the_data_that_is_left(self, python: str, lib: Path) -> None:
        ended = bare(python, lib, AWS)
        assert ended.returncode == 0, ended.stderr
        assert json.loads(ended.stdout) == {"nodes": ["i-0a000000000000001"], "network": ["nn-1", "nn-2"], "pages": 2}

    def test_yaml_requests_rich_and_metrics_work(self, python: str, lib: Path) -> None:
        ended = bare(python, lib, LIBRARIES)
        assert ended.returncode == 0, ended.stderr
        assert ended.stdout.splitlines()[0] == "{'a': [1, 'é']} False"
        assert "leaf" in ended.stdout
        assert "hyperpod_nodes 4.0" in ended.stdout


AWS = """
import json
import boto3
from botocore.stub import Stubber
session = boto3.session.Session(aws_access_key_id="x", aws_secret_access_key="y", region_name="us-west-2")
sagemaker, ec2 = session.client("sagemaker"), session.client("ec2")
session.client("sts")
with Stubber(sagemaker) as answers:
    summary = dict(InstanceGroupName="g", InstanceId="i-0a000000000000001", InstanceType="ml.p5.48xlarge",
                   LaunchTime=0, InstanceStatus=dict(Status="Running"))
    answers.add_response("list_cluster_nodes", dict(ClusterNodeSummaries=[summary], NextToken="t"))
    answers.add_response("list_cluster_nodes", dict(ClusterNodeSummaries=[]))
    pages = list(sagemaker.get_paginator("list_cluster_nodes").paginate(ClusterName="c"))
with Stubber(ec2) as answers:
    answers.add_response("describe_instance_topology", dict(Instances=[dict(NetworkNodes=["nn-1", "nn-2"])]))
    network = ec2.describe_instance_topology(InstanceIds=["i-0a000000000000001"])["Instances"][0]["NetworkNodes"]
print(json.dumps(dict(nodes=[n["InstanceId"] for p in pages for n in p["ClusterNodeSummaries"]], network=network,
                      pages=len(pages))))
"""

LIBRARIES = """
import io, yaml, requests, prometheus_client
from rich.console import Console
from rich.table import Table
from rich.tree import Tree
print(yaml.safe_load(yaml.safe_dump(dict(a=[1, "\\u00e9"]))), yaml.__with_libyaml__)
table = Table("leaf"); table.add_row("nn-1")
Console(file=sys.stdout, width=40).print(table, Tree("root"))
registry = prometheus_client.CollectorRegistry()
prometheus_client.Gauge("hyperpod_nodes", "n", registry=registry).set(4)
print(prometheus_client.generate_latest(registry).decode())
"""


def imports_of(package: Path) -> set[str]:
    """Modules of other packages that a package's files name in an import statement, but for type checking only."""
    own = {package.name, "__future__"}
    found: set[str] = set()
    for file in package.rglob("*.py"):
        tree = ast.parse(file.read_text(), feature_version=(3, 10))
        only_types = {
            id(inner)
            for node in ast.walk(tree)
            if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if id(node) in only_types:
                continue
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                found.add(node.module)
    return {name for name in found if name.split(".")[0] not in own}


def test_endpoints_are_those_of_the_whole_botocore(lib: Path) -> None:
    """In every partition, in regions that endpoints.json lists and in some that only its patterns match."""
    whole = subprocess.run([sys.executable, "-c", ENDPOINTS], capture_output=True, text=True, check=True)
    assert len(json.loads(whole.stdout)) == 18
    assert json.loads(bare(sys.executable, lib, ENDPOINTS).stdout) == json.loads(whole.stdout)


ENDPOINTS = """
import json
import botocore.session
session = botocore.session.get_session()
keys = dict(aws_access_key_id="x", aws_secret_access_key="y")
regions = ("us-west-2", "eu-north-1", "ap-southeast-7", "us-gov-west-1", "cn-north-1", "eusc-de-east-1")
print(json.dumps({f"{service} {region}": session.create_client(service, region, **keys).meta.endpoint_url
                  for service in ("sagemaker", "ec2", "sts") for region in regions}))
"""


@pytest.mark.parametrize(
    ("name", "kept"),
    [
        pytest.param("click/core.py", "lib/click/core.py", id="python"),
        pytest.param("certifi/cacert.pem", "lib/certifi/cacert.pem", id="certificates"),
        pytest.param("charset_normalizer/md.cpython-310-x86_64-linux-gnu.so", None, id="compiled"),
        pytest.param("yaml/_yaml.cpython-310-x86_64-linux-gnu.so", None, id="compiled-yaml"),
        pytest.param("_yaml/__init__.py", None, id="door-to-compiled-yaml"),
        pytest.param("rich/py.typed", None, id="types"),
        pytest.param("rich-15.dist-info/RECORD", None, id="metadata"),
        pytest.param("rich-15.dist-info/licenses/LICENSE", "licenses/rich-15/LICENSE", id="licence"),
        pytest.param("botocore/data/s3/2006-03-01/service-2.json.gz", None, id="service-not-used"),
        pytest.param("botocore/data/ec2/2015-10-01/service-2.json.gz", None, id="old-version-of-the-api"),
        pytest.param("botocore/data/ec2/2016-11-15/waiters-2.json", None, id="waiters"),
        pytest.param(
            "botocore/data/ec2/2016-11-15/service-2.json.gz",
            "lib/botocore/data/ec2/2016-11-15/service-2.json.gz",
            id="service-used",
        ),
        pytest.param("botocore/data/partitions.json", "lib/botocore/data/partitions.json", id="partitions"),
        pytest.param("boto3/data/ec2/2016-11-15/resources-1.json", None, id="boto3-resources"),
    ],
)
def test_of_a_wheel_only_what_runs_on_a_node_is_kept(name: str, kept: str | None) -> None:
    assert build_bundle.kept_as(name) == kept


def test_a_wheel_with_other_bytes_than_locked_is_not_built_in(tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"click==8.5.1 \\\n    --hash=sha256:{'0' * 64}\n")
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / "click-8.5.1-py3-none-any.whl").write_bytes(b"something else")
    with pytest.raises(build_bundle.BuildError, match=r"pip could not download the wheels of requirements\.lock"):
        build_bundle.wheels(lock, tmp_path / "wheels")


def test_line_ends_that_kill_a_script_stop_the_build() -> None:
    with pytest.raises(build_bundle.BuildError, match=r"on_create\.sh has CRLF line ends"):
        build_bundle.check_line_ends({"on_create.sh": b"#!/bin/bash\r\n"})


def test_a_bundle_that_cannot_be_built_leaves_the_former_one(tmp_path: Path) -> None:
    former = tmp_path / "dist" / "lifecycle_scripts" / "on_create.sh"
    former.parent.mkdir(parents=True)
    former.write_text("former")
    wheel = tmp_path / "huge-1-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("huge/data.py", b"#" * build_bundle.LIMIT_BYTES)
    with pytest.raises(build_bundle.BuildError, match="12000000 is the limit"):
        build_bundle.build(tmp_path / "dist", [wheel])
    assert former.read_text() == "former"
    assert [place.name for place in (tmp_path / "dist").iterdir()] == ["lifecycle_scripts"]
