"""A fleet: a directory for every machine of a simulated cluster, the built bundle on each, one real slurmctld.

Nothing here is shared but the registry's directory. Where systemd would act (it does not run for a directory), the
command lines of the installed units are run instead.
"""

from __future__ import annotations

import configparser
import shutil
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from tests.bundle.machine import BareMachine
from tests.slurm.cluster import Cluster
from topology_plugin.core import topology_yaml
from topology_plugin.core.topology import Blocks, Configuration, Tree
from topology_plugin.jobs.simulated_cluster import Machine, SimulatedCluster

UNITS = "etc/systemd/system"
WATCH = f"{UNITS}/hyperpod-topology-watch.service"
REGISTER = f"{UNITS}/hyperpod-topology-register.service"
DROP_IN = f"{UNITS}/slurmctld.service.d/50-hyperpod-topology.conf"


class Imds:
    """IMDSv2 of one instance on a port of loopback; without a token it answers 401, as HyperPod's instances do."""

    def __init__(self, instance_id: str) -> None:
        answers = {"/latest/meta-data/instance-id": instance_id}
        answers["/latest/meta-data/placement/availability-zone-id"] = "usw2-az2"

        class Handler(BaseHTTPRequestHandler):
            def do_PUT(self) -> None:
                self.answer(200, "token") if self.path == "/latest/api/token" else self.answer(404, "")

            def do_GET(self) -> None:
                if self.headers.get("X-aws-ec2-metadata-token") != "token":
                    return self.answer(401, "")
                found = answers.get(self.path)
                return self.answer(404, "") if found is None else self.answer(200, found)

            def answer(self, code: int, text: str) -> None:
                self.send_response(code)
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.endpoint = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@dataclass
class Fleet:
    """`parameters` False: an API-driven cluster, whose nodes have no provisioning_parameters.json."""

    directory: Path
    bundle: Path
    slurm_bin: Path
    cluster: SimulatedCluster
    parameters: bool = True
    machines: dict[str, BareMachine] = field(default_factory=dict)
    _imds: dict[str, Imds] = field(default_factory=dict)
    _head: str = ""

    def __post_init__(self) -> None:
        self.registry = self.directory / "fsx" / "hyperpod-topology"
        self.registry.parent.mkdir(parents=True)
        self.controller_root = self.directory / "machines" / self.cluster.controller.name
        self.conf = self.controller_root / "opt/slurm/etc/slurm.conf"
        self.ctld = Cluster(self.directory / "slurm", self.slurm_bin, conf=self.conf)
        self.conf.parent.mkdir(parents=True)
        self.ctld.write_conf("", "", extra="SlurmctldParameters=enable_configless")
        # The rig's slurmctld listens on loopback; HyperPod's slurm.conf names the controller's own address.
        self._head = f"# controller {self.cluster.controller.address}\n" + "".join(
            line
            for line in self.conf.read_text().splitlines(keepends=True)
            if not line.startswith(("NodeName=", "PartitionName="))
        )

    def close(self) -> None:
        self.ctld.stop()
        for imds in self._imds.values():
            imds.close()

    # --- what AWS and HyperPod's agent do ---

    def become(self, cluster: SimulatedCluster) -> None:
        """The cluster is this one from now on; the agent tells the controller."""
        self.cluster = cluster
        self.agent_writes_slurm_conf()
        self.describe(cluster.controller)

    def agent_writes_slurm_conf(self) -> None:
        """As the agent does: from nothing, so none of our words are in it."""
        self.conf.parent.mkdir(parents=True, exist_ok=True)
        lines = [*self.cluster.node_lines(), *self.cluster.partition_lines()]
        self.conf.write_text(self._head + "\n".join(lines) + "\n")
        (self.conf.parent / "cgroup.conf").write_text("CgroupPlugin=disabled\n")

    def describe(self, machine: Machine) -> BareMachine:
        """The machine with the files that its agent wrote before any script runs. Only a node's own copy has its label:
        what the controller knows of others' places it must have from their records."""
        config = self.cluster.resource_config()
        for group in config["InstanceGroups"]:
            for instance in group["Instances"]:
                if instance["InstanceId"] != machine.instance_id:
                    instance["InstanceLabel"] = None
        found = self.machine(machine)
        found.describe(config, self.cluster.provisioning_parameters() if self.parameters else None)
        return found

    def machine(self, machine: Machine) -> BareMachine:
        if machine.instance_id not in self._imds:
            self._imds[machine.instance_id] = Imds(machine.instance_id)
        root = self.directory / "machines" / machine.name
        environment = {
            "AWS_EC2_METADATA_DISABLED": "false",
            "AWS_EC2_METADATA_SERVICE_ENDPOINT": self._imds[machine.instance_id].endpoint,
            "HYPERPOD_TOPOLOGY_REGISTRY": str(self.registry),
            "HYPERPOD_TOPOLOGY_SOURCES": "resource-config,records",
            "HYPERPOD_TOPOLOGY_REGISTER_TIMEOUT_SECONDS": "60",
        }
        if machine.instance_id == self.cluster.controller.instance_id:
            environment["HYPERPOD_TOPOLOGY_SLURM_BIN"] = str(self.slurm_bin)
        self.machines[machine.name] = BareMachine(root, None, environment=environment)
        return self.machines[machine.name]

    def wipe(self, machine: Machine) -> None:
        """The root volume is imaged anew, or the instance is another one."""
        shutil.rmtree(self.directory / "machines" / machine.name)

    # --- what HyperPod runs on a node ---

    def script(self, machine: Machine, script: str = "on_create.sh", bundle: Path | None = None) -> str:
        """The lifecycle script on one machine, from a place under its /tmp that is gone afterwards; its output."""
        node = self.describe(machine)
        unpacked = node.root / "tmp" / "lifecycle"
        shutil.rmtree(unpacked, ignore_errors=True)
        shutil.copytree(bundle or self.bundle, unpacked)
        ended = node.run("bash", unpacked / script, cwd=unpacked)
        shutil.rmtree(unpacked)
        assert ended.returncode == 0, f"{machine.name}: {ended.stdout}\n{node.log}"
        return ended.stdout

    def scripts(self, machines: Iterable[Machine], script: str = "on_create.sh", bundle: Path | None = None) -> None:
        with ThreadPoolExecutor(3) as pool:
            list(pool.map(lambda machine: self.script(machine, script, bundle), machines))

    # --- what systemd would run on the controller ---

    @property
    def controller(self) -> BareMachine:
        return self.machines[self.cluster.controller.name]

    def unit_command(self, node: BareMachine, unit: str, key: str) -> list[str]:
        """A unit's command line, in the machine's own directory."""
        parser = configparser.ConfigParser(strict=False, interpolation=None)
        parser.optionxform = str  # type: ignore[assignment, method-assign]
        parser.read_string((node.root / unit).read_text())
        program, *arguments = parser["Service"][key].lstrip("-+").split()
        return [f"{node.root}{program}", *arguments]

    def start_slurmctld(self) -> str:
        """As systemd would: first the guard, then slurmctld."""
        ended = self.controller.run(*self.unit_command(self.controller, DROP_IN, "ExecStartPre"))
        assert ended.returncode == 0, ended.stdout
        self.ctld.start()
        return ended.stdout

    @contextmanager
    def watching(self) -> Iterator[None]:
        """The watch service runs within the block, and ends cleanly when it is told to."""
        log = self.directory / "watch.log"
        said = len(log.read_text()) if log.exists() else 0
        with log.open("a") as output:
            process = subprocess.Popen(
                self.unit_command(self.controller, WATCH, "ExecStart"),
                env=self.controller.variables(),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            deadline = time.monotonic() + 60
            while "watching" not in log.read_text()[said:]:
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()[said:]
                time.sleep(0.05)
            yield
            assert process.poll() is None, f"watch ended: {log.read_text()}"
        finally:
            process.terminate()
            try:
                code = process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                raise
        assert code == 0, log.read_text()

    @property
    def controller_command(self) -> Path:
        return self.controller.root / "usr/local/bin/hyperpod-topology"

    def command(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """`hyperpod-topology …` as an operator types it on the controller."""
        return self.controller.run(self.controller_command, *arguments)

    # --- what holds ---

    def groups(self, topology: str) -> set[frozenset[str]]:
        """Which nodes are together under a leaf or in a block, as slurmctld has loaded it."""
        loaded = Configuration(topology_yaml.parse(self.ctld.topoconf()).topologies, self.ctld.partitions())
        found = loaded.topology(topology)
        if found is None:
            return set()
        if isinstance(found.body, Tree):
            return {frozenset(s.nodes) for s in found.body.switches if s.nodes}
        assert isinstance(found.body, Blocks)
        return {frozenset(b.nodes) for b in found.body.blocks}

    def expected(self, group: str) -> set[frozenset[str]]:
        """Which nodes of an instance group lie together, by the facts."""
        together: dict[Any, set[str]] = {}
        for machine in self.cluster.members(group):
            assert machine.label is not None
            together.setdefault(machine.label.ultraserver or machine.label.path, set()).add(machine.name)
        return {frozenset(names) for names in together.values()}

    def wait_for_facts(self, seconds: float = 60) -> None:
        """Until slurmctld has loaded what the facts say."""
        wanted = {"tree": self.expected("worker-p5"), "block": self.expected("worker-gb200")}
        words = {"train": "tree", "gb200": "block"}
        deadline = time.monotonic() + seconds
        while True:
            found: Mapping[str, Any] = {name: self.groups(name) for name in wanted}
            partitions = self.ctld.partitions()
            if found == wanted and {p: partitions.get(p) for p in words} == words:
                return
            assert time.monotonic() < deadline, (
                f"wanted {wanted}, found {found}, {partitions}\n{self.watch_log[-4000:]}\n{self.ctld.log[-2000:]}"
            )
            time.sleep(0.2)

    @property
    def watch_log(self) -> str:
        log = self.directory / "watch.log"
        return log.read_text() if log.exists() else ""

    @property
    def generation(self) -> tuple[str, bytes]:
        """The one in force: its number, and what slurmctld reads."""
        current = (self.registry / "generations" / "current").read_text().strip()
        return current, (self.conf.parent / "topology.yaml").read_bytes()

    @property
    def records(self) -> set[str]:
        return {file.stem for file in (self.registry / "nodes").glob("*.json")}


def bare_python_has_nothing() -> bool:
    """The Python that the scripts find can import none of our dependencies as the bundle calls it."""
    wanted = "import sys, importlib.util as u; sys.exit(any(u.find_spec(n) for n in ('click', 'yaml', 'boto3')))"
    return subprocess.run(["/usr/bin/python3", "-IS", "-c", wanted], check=False).returncode == 0
