"""Names the real adapters in one place: who gets which, for every command."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from topology_plugin.adapters.clock import Clock, SystemClock
from topology_plugin.adapters.root import exists
from topology_plugin.app.places import DEFAULT_SLURM_BIN, DEFAULT_SLURM_CONF, Places
from topology_plugin.core.issues import InputError
from topology_plugin.core.settings import Settings

if TYPE_CHECKING:  # each command imports only what it uses: `register` must start fast
    from topology_plugin.adapters.cluster_lock import ClusterLock
    from topology_plugin.adapters.controller import Controller
    from topology_plugin.adapters.documents import Documents
    from topology_plugin.adapters.generations import Generations
    from topology_plugin.adapters.imds import Imds
    from topology_plugin.adapters.live_files import LiveFiles
    from topology_plugin.adapters.registry import Registry
    from topology_plugin.adapters.slurm import Slurm
    from topology_plugin.adapters.this_host import Host
    from topology_plugin.app.aws import Aws
    from topology_plugin.app.doors import Doors
    from topology_plugin.app.judgement import Judge
    from topology_plugin.app.prune import Pruner
    from topology_plugin.app.reconcile import Reconciler
    from topology_plugin.app.register import Registrar
    from topology_plugin.app.watch import Ground, Watch
    from topology_plugin.app.writer import Writer
    from topology_plugin.core.state import State

Say = Callable[[str], None]


def _silent(sentence: str) -> None:
    """Nobody asked for more than results."""


@dataclass(frozen=True)
class Wiring:
    """`metrics`: told the state after each pass. `given_…`: instead of the machine's own."""

    places: Places
    metrics: Callable[[State], None] = field(default=lambda state: None)
    clock: Clock = field(default_factory=SystemClock)
    given_slurm: Slurm | None = None
    given_controller: Controller | None = None
    given_lock: ClusterLock | None = None
    given_host: Host | None = None

    @classmethod
    def of(cls, root: str | None, flags: Mapping[str, Any], environment: Mapping[str, str]) -> Wiring:
        return cls(Places.of(root, flags, environment))

    @property
    def settings(self) -> Settings:
        return self.places.settings

    # --- what is asked ---

    @cached_property
    def slurm(self) -> Slurm:
        if self.given_slurm is not None:
            return self.given_slurm
        from topology_plugin.adapters.slurm import SlurmCommands

        places = self.places
        # Configless nodes have no slurm.conf on disk: Slurm's commands then find the controller by themselves.
        conf = places.slurm_conf if exists(places.slurm_conf) or self.settings.explicit("slurm_conf") else None
        return SlurmCommands(places.slurm_bin or places.root.path(DEFAULT_SLURM_BIN), conf, places.environment)

    @cached_property
    def documents(self) -> Documents:
        from topology_plugin.adapters.documents import Documents

        return Documents(self.places.resource_config, self.places.provisioning_parameters, self.places.cluster_agent)

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

    def aws(self) -> Aws:
        from topology_plugin.app.aws import Aws

        return Aws(self.settings, self.clock, self.cluster_arn)

    @cached_property
    def judge(self) -> Judge:
        from topology_plugin.app.judgement import Judge

        return Judge(self.settings, self.slurm, self.places.slurm_bin)

    # --- the registry ---

    def shared_directory(self) -> Path | None:
        """The registry's directory, if it is known."""
        try:
            return self.places.registry(self.cluster_arn())
        except InputError:
            return None

    def registry(self, cluster_arn: str | None) -> Registry | None:
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.registry import RegistryDirectory

        directory = self.places.registry(cluster_arn)
        if directory is None:
            return None
        return RegistryDirectory(directory, RealFiles(), self.clock, self._mounted())

    def _mounted(self) -> Callable[[Path], str]:
        """Says why a registry is not where all see it. It lies on a shared file system or nowhere: nobody else would
        see the root volume."""
        from topology_plugin.adapters.mounts import SystemMounts, shared_only

        return (lambda path: "") if self.places.registry_chosen else shared_only(SystemMounts())

    # --- what is written ---

    def live_files(self) -> LiveFiles:
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.live_files import LiveFiles

        return LiveFiles(RealFiles(), self.places.named_slurm_conf, self.places.machine_path)

    def local_generations(self) -> Generations:
        """Those on this machine's own disk: the shared one may hang."""
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.generations import Generations

        return Generations(RealFiles(), None, self.places.state_dir)

    def classic(self) -> bool:
        """Slurm up to 24.11."""
        from topology_plugin.core.versions import support

        return support(self.slurm.version(), {}).classic

    def doors(self, say: Say | None = None) -> Doors:
        """Everything that a pass writes through."""
        from topology_plugin.adapters.controller import SlurmctldProcess
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.adapters.generations import Generations
        from topology_plugin.adapters.one_look import OneLook
        from topology_plugin.app.doors import Doors

        places, live = self.places, self.live_files()
        standard = places.slurm_conf == Path(DEFAULT_SLURM_CONF).resolve()  # not the one below a --root
        keep, arn = self.settings.generations_keep, self.cluster_arn()
        return Doors(
            live,
            OneLook(self.slurm) if self.given_slurm is None else self.slurm,
            self.clock,
            Generations(RealFiles(), self.shared_directory(), places.state_dir, keep, arn, self._mounted()),
            self.given_controller or SlurmctldProcess(places.slurm_conf, standard),
            self.judge.deadly,
            self.classic(),
            say or _silent,
            lambda: self._writing(live),
        )

    def writer(self, stays: bool = False) -> Writer:
        """The right to write for this cluster. `stays`: kept from the first pass on."""
        from topology_plugin.adapters.cluster_lock import ClusterLock
        from topology_plugin.adapters.mounts import SystemMounts
        from topology_plugin.adapters.pass_lock import PassLock
        from topology_plugin.adapters.this_host import ThisHost
        from topology_plugin.app.writer import Writer

        local = PassLock(self.places.state_dir)
        lock = self.given_lock or ClusterLock(self.shared_directory, local.path, SystemMounts())
        return Writer(lock, local, self.given_host or ThisHost(), self.clock, stays)

    def _writing(self, live: LiveFiles) -> AbstractContextManager[None]:
        from topology_plugin.app.writer import writing

        return writing(self.writer(), lambda: live.disk().conf.parameters.get("slurmctldhost", ""), self.slurm)

    # --- use cases ---

    def registrar(self, instance_id: str | None, say: Say) -> Registrar:
        """What `register` needs; imports neither requests nor boto3 before they are called for."""
        from topology_plugin.adapters.identity import DMI_TAG, LocalMachine
        from topology_plugin.app.register import Registrar

        def imds() -> Imds:
            from topology_plugin.adapters.imds import RequestsImds

            return RequestsImds(self.places.environment)

        machine = LocalMachine(self.places.root.path(DMI_TAG))
        timeout = self.settings.register_timeout_seconds
        return Registrar(self.documents, machine, imds, self.registry, self.clock, timeout, instance_id, say)

    def pruner(self) -> Pruner:
        from topology_plugin.adapters.files import RealFiles
        from topology_plugin.app.prune import Pruner

        live = self.live_files()
        return Pruner(
            lambda: live.disk().conf,
            lambda: self.slurm.nodes() or [],
            self.documents,
            self.registry,
            RealFiles(),
            self.clock,
            self.places.state_dir,
        )

    def reconciler(self, say: Say | None = None, stays: bool = False) -> Reconciler:
        from topology_plugin.app.observation import Observer
        from topology_plugin.app.reconcile import Reconciler

        aws = self.aws()
        observer = Observer(self.documents, self.registry, aws.sources, self.settings, self.clock, aws.groups)
        return Reconciler(
            self.settings,
            self.judge,
            lambda: self.doors(say),
            observer,
            self.writer(stays),
            self.metrics,
            say or _silent,
        )

    def ground(self, say: Say | None = None) -> Ground:
        """What a watch stands on, as long as these settings hold."""
        from topology_plugin.adapters.signs import Signs
        from topology_plugin.app.watch import SETTINGS, Ground

        reconciler = self.reconciler(say, stays=True)
        inputs = {
            "resource_config": self.places.resource_config,
            "provisioning_parameters": self.places.provisioning_parameters,
            "cluster_agent": self.places.cluster_agent,
            SETTINGS: self.places.settings_file,
        }
        signs = Signs(lambda: {**reconciler.slurm_files(), **reconciler.notes(), **inputs}, reconciler.shared_directory)
        return Ground(reconciler, signs, self.settings)

    def watcher(self, say: Say, again: Callable[[], Wiring] | None = None) -> Watch:
        """`again`: the wiring by the settings as they are then."""
        from topology_plugin.app.watch import Watch

        renew = again or (lambda: self)
        return Watch(self.ground(say), self.clock, say, lambda: renew().ground(say))
