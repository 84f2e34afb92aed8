"""`register` as a real process, below a directory that stands for `/`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import cases
from tests.cli.typed import typed
from tests.fake_imds import FakeImds, serving

A1 = "i-0a000000000000001"
SLOW = {"boto3", "botocore", "requests", "urllib3", "rich", "yaml", "prometheus_client", "asyncio", "ssl"}
NO_IMDS = {"AWS_EC2_METADATA_DISABLED": "true"}


class Machine:
    """The directory that stands for `/` on one node."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.nodes = path / "fsx/hyperpod-topology/abc123def456/nodes"
        (path / "opt/ml/config").mkdir(parents=True)
        self.write("opt/ml/config/resource_config.json", cases.f0())
        self.write("opt/ml/config/provisioning_parameters.json", cases.f0_provisioning())

    def write(self, name: str, document: Any) -> None:
        (self.path / name).write_text(json.dumps(document))

    def tag(self, text: str) -> None:
        place = self.path / "sys/devices/virtual/dmi/id"
        place.mkdir(parents=True)
        (place / "board_asset_tag").write_text(text)

    def run(self, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
        return typed("register", "--root", self.path, *arguments, **environment)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_a_node_registers_and_the_second_time_writes_nothing(machine: Machine) -> None:
    first = machine.run("--instance-id", A1)
    assert (first.returncode, first.stderr) == (0, "")
    assert first.stdout.startswith(f"registered {A1} (worker-a-1, group worker-a): network path nn-1")
    (path,) = machine.nodes.iterdir()
    before = path.stat()  # (reading may move the access time)
    second = machine.run(HYPERPOD_TOPOLOGY_INSTANCE_ID=A1)
    assert second.returncode == 0
    assert "is registered already" in second.stdout
    after = path.stat()
    assert (after.st_ino, after.st_mtime_ns, after.st_size) == (before.st_ino, before.st_mtime_ns, before.st_size)
    assert json.loads(path.read_text())["partitions"] == ["train"]


def test_the_dmi_tag_below_the_root_names_the_node(machine: Machine) -> None:
    machine.tag("i-0b000000000000002\n")
    done = machine.run("-v")
    assert done.returncode == 0
    assert "known by the DMI asset tag" in done.stderr
    assert [path.name for path in machine.nodes.iterdir()] == ["i-0b000000000000002.json"]


def test_imds_names_the_node_and_its_zone(machine: Machine) -> None:
    with serving(FakeImds({"instance-id": A1, "placement/availability-zone-id": "usw2-az2"})) as imds:
        done = machine.run(AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=imds.url)
    assert done.returncode == 0, done.stderr
    assert json.loads((machine.nodes / f"{A1}.json").read_text())["zone_id"] == "usw2-az2"


def test_imds_is_not_asked_where_it_is_not_needed_so_the_zone_is_unknown(machine: Machine) -> None:
    with serving(
        FakeImds({"instance-id": "i-0b000000000000002", "placement/availability-zone-id": "usw2-az2"})
    ) as imds:
        machine.run("--instance-id", A1, AWS_EC2_METADATA_DISABLED="false", AWS_EC2_METADATA_SERVICE_ENDPOINT=imds.url)
    assert imds.log == []
    assert json.loads((machine.nodes / f"{A1}.json").read_text())["zone_id"] is None


def test_the_resource_config_may_lie_where_the_variable_says(machine: Machine, tmp_path: Path) -> None:
    (machine.path / "opt/ml/config/resource_config.json").rename(tmp_path / "elsewhere.json")
    done = machine.run("--instance-id", A1, SAGEMAKER_RESOURCE_CONFIG_PATH=str(tmp_path / "elsewhere.json"))
    assert done.returncode == 0, done.stderr


def test_who_cannot_be_told_is_not_registered_in_time_with_exit_code_1(machine: Machine) -> None:
    done = machine.run("--register-timeout-seconds", "0.5")
    assert (done.returncode, done.stdout) == (1, "")
    assert "not registered: IMDS is switched off by AWS_EC2_METADATA_DISABLED; " in done.stderr
    assert "Traceback" not in done.stderr
    assert not machine.nodes.exists()


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (["--instance-id", "me"], None, "'me' is not an instance id"),
        (["--instance-id", A1], "", "resource_config.json: is empty"),
        (["--instance-id", A1], '{"InstanceGroups": [,]}', "resource_config.json:1:21: is not valid JSON"),
        (["--instance-id", A1], '{"ClusterType": "Kubernetes"}', "this is a Kubernetes cluster"),
        (["--instance-id", A1], '{"InstanceGroups": null}', "InstanceGroups: is missing"),
        (["--mode", "nonsense"], None, "'nonsense' is not one of auto, manage, observe, off"),
    ],
)
def test_input_that_cannot_be_used_is_exit_code_2_with_the_place(
    machine: Machine, arguments: list[str], content: str | None, words: str
) -> None:
    if content is not None:
        (machine.path / "opt/ml/config/resource_config.json").write_text(content)
    done = machine.run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_cluster_without_an_arn_needs_a_registry_by_name(machine: Machine, tmp_path: Path) -> None:
    document = cases.f0()
    del document["ClusterConfig"]
    machine.write("opt/ml/config/resource_config.json", document)
    done = machine.run("--instance-id", A1)
    assert done.returncode == 2
    assert "no ClusterArn" in done.stderr
    done = machine.run("--instance-id", A1, "--registry", str(tmp_path / "chosen"))
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "chosen/nodes" / f"{A1}.json").is_file()


def test_without_a_registry_nothing_is_written(machine: Machine) -> None:
    done = machine.run("--instance-id", A1, "--registry", "null")
    assert done.returncode == 0
    assert "registry is switched off" in done.stdout
    assert not (machine.path / "fsx").exists()


def test_br_02_a_broken_parameters_file_does_not_fail_the_hook(machine: Machine) -> None:
    (machine.path / "opt/ml/config/provisioning_parameters.json").write_text('{"a": 1,, "b": 2}')
    done = machine.run("--instance-id", A1)
    assert done.returncode == 0
    assert "provisioning_parameters.json:1:9: is not valid JSON" in done.stderr
    assert (machine.nodes / f"{A1}.json").is_file()


@pytest.mark.parametrize("way", ["option", "tag"])
def test_neither_boto3_nor_requests_is_imported_where_no_network_is_needed(machine: Machine, way: str) -> None:
    arguments = ["register", "--root", str(machine.path), *(["--instance-id", A1] if way == "option" else [])]
    if way == "tag":
        machine.tag(A1)
    code = (
        "import sys\nfrom topology_plugin.cli.main import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit as end:\n    print(end.code)\n"
        f"print(sorted(set(sys.modules) & {SLOW!r}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.splitlines()[1:] == ["0", "[]"]


@pytest.mark.parametrize(
    ("settings", "instance_id", "code"),
    [
        pytest.param({}, A1, 0, id="registered"),
        pytest.param({"registry": None}, A1, 0, id="no registry"),
        pytest.param({"register_timeout_seconds": 0}, "i-0b000000000000009", 1, id="not listed"),
        pytest.param({}, "nonsense", 2, id="no instance id"),
        pytest.param({"no_such": 1, "mode": "sometimes"}, A1, 2, id="settings that are none"),
    ],
)
def test_as_the_hook_it_says_and_does_what_the_command_line_does(
    machine: Machine, settings: dict[str, Any], instance_id: str, code: int
) -> None:
    """Without an option it starts without the command line's library."""
    (machine.path / "etc").mkdir()
    machine.write("etc/hyperpod-topology.json", settings)
    variables = {"HYPERPOD_TOPOLOGY_ROOT": str(machine.path), "HYPERPOD_TOPOLOGY_INSTANCE_ID": instance_id}
    ways = []
    for module in ("topology_plugin.cli.main", "topology_plugin.cli.hook"):
        program = f"import sys; from {module} import main; sys.argv[1:] = ['register']\ntry:\n    main()\n"
        program += "finally:\n    print(*sorted({'click', 'rich'} & set(sys.modules)))"
        environment = {"PATH": os.defpath, **NO_IMDS, **variables}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        *said, loaded = done.stdout.splitlines()
        assert loaded == ("click" if module.endswith("main") else "")
        record = machine.nodes / f"{A1}.json"
        ways.append((done.returncode, said, done.stderr, record.read_bytes() if record.exists() else None))
        record.unlink(missing_ok=True)
    assert ways[0] == ways[1]
    assert ways[0][0] == code


@pytest.mark.parametrize("unbuffered", ["", "1"], ids=["buffered", "unbuffered"])
def test_a_registration_that_can_be_told_to_nobody_is_one(machine: Machine, unbuffered: str) -> None:
    machine.tag(A1)
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "topology_plugin", "register"],
            env={**os.environ, **NO_IMDS, "HYPERPOD_TOPOLOGY_ROOT": str(machine.path), "PYTHONUNBUFFERED": unbuffered},
            stdout=full, stderr=subprocess.PIPE, text=True, timeout=60, check=False,
        )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "") and len(list(machine.nodes.iterdir())) == 1


def test_sixteen_machines_that_boot_together_all_register(machine: Machine, tmp_path: Path) -> None:
    document = cases.g(16)["rc"]
    document["ClusterConfig"] = {"ClusterArn": cases.ARN}
    machine.write("opt/ml/config/resource_config.json", document)
    ids = [entry["InstanceId"] for entry in document["InstanceGroups"][0]["Instances"]]
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("HYPERPOD_", "AWS_", "SAGEMAKER_"))}
    command = [sys.executable, "-m", "topology_plugin", "register", "--root", str(machine.path), "--instance-id"]
    started = [
        subprocess.Popen([*command, identity], env=clean, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
        for identity in ids
    ]
    failures = [process.communicate(timeout=120)[1] for process in started]
    assert [process.returncode for process in started] == [0] * 16, failures
    assert sorted(path.stem for path in machine.nodes.iterdir()) == sorted(ids)
