"""Names the real adapters in one place: from flags, variables and files to settings, paths and doors."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topology_plugin.adapters.clock import Clock, SystemClock
from topology_plugin.adapters.root import Root, exists, is_file
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.settings import Settings, from_environment, layered

if TYPE_CHECKING:
    from topology_plugin.adapters.cluster_lock import ClusterLock
    from topology_plugin.adapters.controller import Controller
    from topology_plugin.adapters.documents import Documents
    from topology_plugin.adapters.imds import Imds
    from topology_plugin.adapters.live_files import LiveFiles
    from topology_plugin.adapters.registry import Registry
    from topology_plugin.adapters.sagemaker import SageMakerCluster
    from topology_plugin.adapters.slurm import Slurm
    from topology_plugin.adapters.this_host import Host
    from topology_plugin.app.apply import Doors
    from topology_plugin.app.observation import Api
    from topology_plugin.app.prune import Pruner
    from topology_plugin.app.reconcile import Reconciler, Thought
    from topology_plugin.app.register import Registrar
    from topology_plugin.app.watch import Ground, Watch
    from topology_plugin.app.writer import Writer
    from topology_plugin.core.disk import Disk
    from topology_plugin.core.matching import ApiGroup
    from topology_plugin.core.state import State
    from topology_plugin.core.topology import Configuration

SETTINGS_FILE = "/etc/hyperpod-topology.json"
PROVISIONING_PARAMETERS = "/opt/ml/config/provisioning_parameters.json"
RESOURCE_CONFIG = "/opt/ml/config/resource_config.json"
CLUSTER_AGENT = "/opt/ml/config/cluster_agent.json"
DEFAULT_SLURM_CONF = "/opt/slurm/etc/slurm.conf"
DEFAULT_SLURM_BIN = "/opt/slurm/bin"
REGISTRY_PARENT = "/fsx/hyperpod-topology"


@dataclass(frozen=True)
class Wiring:
    root: Root
    settings: Settings
    environment: Mapping[str, str]
    metrics: Callable[[State], None] = field(default=lambda state: None)
    clock: Clock = field(default_factory=SystemClock)
    given_slurm: Slurm | None = None
    given_controller: Controller | None = None
    given_lock: ClusterLock | None = None
    given_host: Host | None = None

    @classmethod
    def of(cls, root: str | None, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Wiring:
        """Settings by strength: flags, variables, /etc/hyperpod-topology.json, provisioning_parameters.json."""
        place = Root(root)
        layers: list[tuple[str, Mapping[str, Any]]] = []
        provisioning = _json_object(place.path(PROVISIONING_PARAMETERS), tolerant=True)
        topology = provisioning.get("topology")
        if isinstance(topology, dict):
            layers.append((f"{PROVISIONING_PARAMETERS}: topology", topology))
        layers.append((SETTINGS_FILE, _json_object(place.path(SETTINGS_FILE))))
        layers.extend(from_environment(environment))
        layers.extend((f"flag --{name.replace('_', '-')}", {name: value}) for name, value in flags.items())
        return cls(place, layered(layers), environment)

    def placed(self, name: str, default: str) -> Path:
        """The path a setting names: as it is if given by flag or variable, else below the root."""
        value = getattr(self.settings, name)
        if value is None or value == "auto":
            return self.root.path(default)
        return Path(value) if self.settings.explicit(name) else self.root.path(value)

    @cached_property
    def slurm_conf(self) -> Path:
        """slurm.conf through every link: what is written is the real file (multi-head: a shared directory)."""
        if self.settings.slurm_conf is None and self.environment.get("SLURM_CONF"):
            return Path(self.environment["SLURM_CONF"]).resolve()
        found = self.placed("slurm_conf", DEFAULT_SLURM_CONF)
        return found.resolve() if self.root.directory is None or self.settings.explicit("slurm_conf") else found

    @cached_property
    def slurm_bin(self) -> Path | None:
        """Directory of Slurm's commands; None: nowhere found."""
        if self.settings.slurm_bin is not None:
            return self.placed("slurm_bin", DEFAULT_SLURM_BIN)
        for directory in self.environment.get("PATH", "").split(os.pathsep):
            if directory and is_file(Path(directory) / "scontrol"):
                return Path(directory)
        fallback = self.root.path(DEFAULT_SLURM_BIN)
        return fallback if is_file(fallback / "scontrol") else None

    @cached_property
    def slurm(self) -> Slurm:
        if self.given_slurm is not None:
            return self.given_slurm
        from topology_plugin.adapters.slurm import SlurmCommands

        # Configless nodes have no slurm.conf on disk: Slurm's commands then find the controller by themselves.
        conf = self.slurm_conf if exists(self.slurm_conf) or self.settings.explicit("slurm_conf") else None
        return SlurmCommands(self.slurm_bin or self.root.path(DEFAULT_SLURM_BIN), conf, self.environment)

    @cached_property
    def state_dir(self) -> Path:
        return self.placed("state_dir", "/var/lib/hyperpod-topology")

    @cached_property
    def resource_config(self) -> Path:
        """`SAGEMAKER_RESOURCE_CONFIG_PATH` is the path's documented name, given by variable: not prefixed."""
        given = self.environment.get("SAGEMAKER_RESOURCE_CONFIG_PATH")
        return Path(given) if given else self.root.path(RESOURCE_CONFIG)

    @cached_property
    def provisioning_parameters(self) -> Path:
        return self.root.path(PROVISIONING_PARAMETERS)

    @cached_property
    def cluster_agent(self) -> Path:
        return self.root.path(CLUSTER_AGENT)

    def registry(self, cluster_arn: str | None) -> Path | None:
        """The registry's directory; None where it is switched off. `auto` needs the cluster's ARN."""
        if self.settings.registry is None:
            return None
        if self.settings.registry != "auto":
            return self.placed("registry", REGISTRY_PARENT)
        if not cluster_arn:
            raise InputError(
                Issue(
                    RESOURCE_CONFIG,
                    "no ClusterArn, so the registry's directory is unknown",
                    'set "registry" in ' + SETTINGS_FILE,
                )
            )
        return self.root.path(f"{REGISTRY_PARENT}/{cluster_arn.rsplit('/', 1)[-1]}")

    # --- the controller's doors; imported only by the commands that use them ---

    @cached_property
    def named_slurm_conf(self) -> str:
        """slurm.conf as this machine names it: topology.yaml and relative Includes are beside the link if it is one."""
        given = self.settings.slurm_conf or self.environment.get("SLURM_CONF")
        return given or DEFAULT_SLURM_CONF

    def machine_path(self, path: str) -> Path:
        """Where a path that slurm.conf or the machine names lies: below the root, unless it was given explicitly."""
        explicit = self.settings.explicit("slurm_conf") or (
            self.settings.slurm_conf is None and self.environment.get("SLURM_CONF")
        )
        beside = Path(self.named_slurm_conf).parent
        if explicit and Path(path).is_relative_to(beside):
            return Path(path)
        return self.root.path(path)

    @cached_property
    def documents(self) -> Documents:
        from topology_plugin.adapters.documents import Documents

        return Documents(self.resource_config, self.provisioning_parameters, self.cluster_agent)

    def cluster_arn(self) -> str | None:
        """The ARN in resource_config.json; None if it cannot be read. A machine never changes its cluster."""
        found: str | None = self.__dict__.get("_arn")
        if found is None:
            try:
                found = self.documents.resource_config().cluster_arn
            except InputError:
                return None
            self.__dict__["_arn"] = found
        return found

    def doors(self, say: Callable[[str], None] | None = None) -> Doors:
        """Everything that a pass writes through."""
        from topology_plugin.adapters.controller import SlurmctldProcess
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.generations import Generations
        from topology_plugin.adapters.live_files import LiveFiles
        from topology_plugin.adapters.one_look import OneLook
        from topology_plugin.app.apply import Doors
        from topology_plugin.core.versions import support

        files = RealFiles()
        live = LiveFiles(files, self.named_slurm_conf, self.machine_path)
        arn = self.cluster_arn()
        generations = Generations(
            files, self.shared_directory(), self.state_dir, self.settings.generations_keep, arn, self._mounted()
        )
        standard = self.named_slurm_conf == DEFAULT_SLURM_CONF
        controller = self.given_controller or SlurmctldProcess(self.slurm_conf, standard)
        classic = support(self.slurm.version(), {}).classic
        return Doors(
            live,
            OneLook(self.slurm) if self.given_slurm is None else self.slurm,
            self.clock,
            generations,
            controller,
            lambda disk: self.check(disk),
            classic,
            say or (lambda sentence: None),
            lambda: self._writing(live),
        )

    def writer(self, stays: bool = False) -> Writer:
        """The right to write for this cluster. `stays`: kept from the first pass on."""
        from topology_plugin.adapters.cluster_lock import ClusterLock
        from topology_plugin.adapters.mounts import SystemMounts
        from topology_plugin.adapters.pass_lock import PassLock
        from topology_plugin.adapters.this_host import ThisHost
        from topology_plugin.app.writer import Writer

        local = PassLock(self.state_dir)
        lock = self.given_lock or ClusterLock(self.shared_directory, local.path, SystemMounts())
        return Writer(lock, local, self.given_host or ThisHost(), self.clock, stays)

    def _writing(self, live: LiveFiles) -> AbstractContextManager[None]:
        from topology_plugin.app.writer import writing

        return writing(self.writer(), lambda: live.disk().conf.parameters.get("slurmctldhost", ""), self.slurm)

    def shared_directory(self) -> Path | None:
        """The registry's directory, if it is known."""
        try:
            return self.registry(self.cluster_arn())
        except InputError:
            return None

    def registry_door(self, cluster_arn: str | None) -> Registry | None:
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.registry import RegistryDirectory

        directory = self.registry(cluster_arn)
        if directory is None:
            return None
        return RegistryDirectory(directory, RealFiles(), self.clock, self._mounted())

    def _mounted(self) -> Callable[[Path], str]:
        """Says why a registry is not where all see it. It lies on a shared file system or nowhere: nobody else would
        see the root volume. Below --root, or by flag or variable, someone chose the very place."""
        from topology_plugin.adapters.mounts import SystemMounts, shared_only

        if self.root.directory is not None or self.settings.explicit("registry"):
            return lambda path: ""
        return shared_only(SystemMounts())

    def registrar(self, instance_id: str | None, say: Callable[[str], None]) -> Registrar:
        """What `register` needs; imports neither requests nor boto3 before they are called for."""
        from topology_plugin.adapters.identity import DMI_TAG, LocalMachine
        from topology_plugin.app.register import Registrar

        def imds() -> Imds:
            from topology_plugin.adapters.imds import RequestsImds

            return RequestsImds(self.environment)

        machine = LocalMachine(self.root.path(DMI_TAG))
        timeout = self.settings.register_timeout_seconds
        return Registrar(self.documents, machine, imds, self.registry_door, self.clock, timeout, instance_id, say)

    def pruner(self) -> Pruner:
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.live_files import LiveFiles
        from topology_plugin.app.prune import Pruner

        files = RealFiles()
        live = LiveFiles(files, self.named_slurm_conf, self.machine_path)
        return Pruner(
            lambda: live.disk().conf,
            lambda: self.slurm.nodes() or [],
            self.documents,
            self.registry_door,
            files,
            self.clock,
            self.state_dir,
        )

    def reconciler(self, say: Callable[[str], None] | None = None, stays: bool = False) -> Reconciler:
        from topology_plugin.app.observation import Observer, Places
        from topology_plugin.app.reconcile import Reconciler

        places = Places(self.resource_config, self.provisioning_parameters, self.cluster_agent)
        apis, groups = self._apis()
        observer = Observer(self.documents, places, self.registry_door, apis, self.settings, self.clock, groups)
        return Reconciler(self, lambda: self.doors(say), observer, self.writer(stays), say or (lambda sentence: None))

    def _apis(self) -> tuple[dict[str, Callable[[], Api]], Callable[[], Mapping[str, ApiGroup]]]:
        """AWS, where `sources` allow it: source → its door, made (and boto3 imported) only when it is first asked."""
        doors: dict[str, Api] = {}

        def sagemaker() -> SageMakerCluster:
            from topology_plugin.adapters.aws import Calls, boto3_client, region_of
            from topology_plugin.adapters.sagemaker import SageMakerCluster

            arn = self.cluster_arn() or ""
            if "sagemaker" not in doors:
                calls = Calls(boto3_client("sagemaker", region_of(arn)), self.clock, self.settings.api_budget_seconds)
                doors["sagemaker"] = SageMakerCluster(calls, self.clock, arn)
            found = doors["sagemaker"]
            assert isinstance(found, SageMakerCluster)  # noqa: S101 (narrowing for the type checker)
            return found

        def ec2() -> Api:
            from topology_plugin.adapters.aws import Calls, boto3_client, region_of
            from topology_plugin.adapters.ec2 import Ec2Topology

            if "ec2" not in doors:
                region = region_of(self.cluster_arn())
                calls = Calls(boto3_client("ec2", region), self.clock, self.settings.api_budget_seconds)
                doors["ec2"] = Ec2Topology(calls, self.clock)
            return doors["ec2"]

        makers: dict[str, Callable[[], Api]] = {"sagemaker": sagemaker, "ec2": ec2}
        wanted = {source: make for source, make in makers.items() if source in self.settings.sources}
        return wanted, lambda: sagemaker().groups() if self.cluster_arn() else {}

    def ground(self, say: Callable[[str], None] | None = None) -> Ground:
        """What a watch stands on, as long as these settings hold."""
        from topology_plugin.adapters.signs import Signs
        from topology_plugin.app.watch import SETTINGS, Ground

        reconciler = self.reconciler(say, stays=True)
        places = {
            "resource_config": self.resource_config,
            "provisioning_parameters": self.provisioning_parameters,
            "cluster_agent": self.cluster_agent,
            SETTINGS: self.root.path(SETTINGS_FILE),
        }
        signs = Signs(lambda: {**reconciler.slurm_files(), **reconciler.notes(), **places}, reconciler.shared_directory)
        return Ground(reconciler, signs, self.settings)

    def watcher(self, say: Callable[[str], None], again: Callable[[], Wiring] | None = None) -> Watch:
        """`again`: the wiring by the settings as they are then."""
        from topology_plugin.app.watch import Watch

        renew = again or (lambda: self)
        return Watch(self.ground(say), self.clock, say, lambda: renew().ground(say))

    def check(self, disk: Disk) -> list[Issue]:
        """What slurmctld would die of if it started from these files."""
        from topology_plugin.app.judgement import deadly

        return deadly(disk, self.slurm_numbers)

    @property
    def slurm_numbers(self) -> tuple[int, int, int] | None:
        """(26, 5, 5) of the installed Slurm, asked anew as an upgrade may come any time; None: it can't tell."""
        version = self.slurm.version()
        return None if version is None else version.numbers

    def faults(self, configuration: Configuration, after: Disk, doors: Doors, offline: bool = False) -> list[Issue]:
        """What is refused beyond that: nodes of a partition that no topology covers, and the like. `offline`: Slurm is
        not asked for dynamic nodes and words that its nodes keep."""
        from topology_plugin.app.judgement import faults
        from topology_plugin.core.stock import dynamic_nodes

        loaded = [] if offline else doors.slurm.nodes() or []
        dynamic = [(str(n["name"]), tuple(n.get("features") or ())) for n in dynamic_nodes(after.conf, loaded)]
        return faults(configuration, after, self.slurm_numbers, dynamic, loaded)

    def rehearsal(self, doors: Doors) -> Callable[[Thought], str] | None:
        """Starts the installed slurmctld with what a pass would publish; the answer says what is wrong with it.

        None: not wanted, or (`auto`) not possible here."""
        if self.settings.rehearse == "never":
            return None
        from topology_plugin.adapters.rehearsal import NamespaceRehearsal
        from topology_plugin.app.judgement import Rehearser
        from topology_plugin.core import target
        from topology_plugin.core.live import Live

        rehearsal = NamespaceRehearsal(self.slurm_bin)
        if (reason := rehearsal.available()) is not None:
            return None if self.settings.rehearse == "auto" else lambda thought: f"rehearse is always, but {reason}"
        rehearser = Rehearser(rehearsal, self.slurm_numbers, doors.say)

        def problem(thought: Thought) -> str:
            after = target.in_place(thought.disk, thought.target, doors.classic)
            return rehearser.problem(thought.disk, after, thought.state, Live.parse((), doors.slurm.jobs()).jobs)

        return problem

    def write_metrics(self, state: State) -> None:
        self.metrics(state)


def _json_object(path: Path, tolerant: bool = False) -> dict[str, Any]:
    """The object in a JSON file; {} if there is none. `tolerant`: also if it cannot be read (others report that)."""
    try:
        found = json.loads(path.read_bytes().decode("utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        if tolerant:
            return {}
        raise InputError(Issue(str(path), f"cannot be read: {error}", "mend or remove it")) from None
    if not isinstance(found, dict):
        if tolerant:
            return {}
        raise InputError(Issue(str(path), "holds no JSON object", 'write {"name": value, …}'))
    return found
