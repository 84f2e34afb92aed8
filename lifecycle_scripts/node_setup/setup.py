"""The order of things on a node: settings, storage, the hook, units, Slurm; and which of them may fail the instance."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from node_setup import slurm_daemons, storage
from node_setup.install import LOG
from node_setup.processes import Background, Systemd, our_command
from node_setup.role import controller_addresses, role_of
from node_setup.units import Units, write_atomically
from topology_plugin.app.register import Known
from topology_plugin.app.wiring import Wiring
from topology_plugin.core.inventory import Role
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.provisioning import ProvisioningParameters

SETTINGS = "etc/hyperpod-topology.json"
PARAMETERS = "opt/ml/config/provisioning_parameters.json"
PARAMETERS_COPIED = "var/lib/hyperpod-topology/provisioning_parameters.sha256"
IDENTIFY_SECONDS = 60.0
GRACE_SECONDS = 15.0


@dataclass
class Setup:
    """Sets up one node. `bundle`: where the bundle was unpacked, gone later; `version`: the installed directory."""

    root: Path
    version: Path
    bundle: Path | None
    units: Units
    systemd: Systemd
    log: Callable[[str], None]
    environment: Mapping[str, str]

    def run(self, way: str, role: Role | None, install_failed: bool = False) -> int:
        """0; 1 if the whole OnCreate failed at mounting or starting Slurm, or with `strict` if anything failed."""
        troubles = ["the bundle"] if install_failed else []
        whole = way == "on-create"
        fatal = []
        self._copy_settings(troubles)
        self._copy_parameters()
        if whole and not self._mount():
            fatal.append("mounting")
        wiring, strict, seconds = self._wiring(troubles)
        hook = self._start_hook()
        started = time.monotonic()
        known = self._identify(wiring) if wiring else None
        parameters = self._parameters(wiring)
        if role is None and known is not None:
            role = role_of(known.config, parameters, known.group, known.instance)
        self.log(self._sentence(role, known))
        try:
            self.units.place(controller=role == "controller")
        except OSError as error:
            troubles.append("the units")
            self.log(f"ERROR: units: {error}")
        if whole and not self._start_slurm(wiring, role, known, parameters):
            fatal.append("starting Slurm")
        if role == "controller":
            self.units.start_watch()
        code = hook.wait(seconds + GRACE_SECONDS - (time.monotonic() - started))
        if code:
            troubles.append(f"register (exit code {code})")
        elif code is None:
            troubles.append("register (left running)")
        if code != 0:
            self.units.register_later()
        return self._verdict(fatal, troubles, strict)

    def _verdict(self, fatal: list[str], troubles: list[str], strict: bool) -> int:
        if fatal:
            self.log(f"ERROR: this node cannot be used: {', '.join(fatal)} failed")
            return 1
        if troubles:
            self.log(f"{'ERROR' if strict else 'WARNING'}: the node goes on, but not done: {', '.join(troubles)}")
            return 1 if strict else 0
        self.log("set up")
        return 0

    def _wiring(self, troubles: list[str]) -> tuple[Wiring | None, bool, float]:
        """The doors, `strict` and the hook's time limit; where settings are unusable, the safe defaults."""
        try:
            wiring = Wiring.of(str(self.root), {}, self.environment)
        except InputError as error:
            self.log(f"ERROR: {error}")
            troubles.append("the settings")
            return None, False, 180.0
        return wiring, wiring.settings.strict, wiring.settings.register_timeout_seconds

    def _start_hook(self) -> Background:
        log_file = self.root / LOG
        log_file.parent.mkdir(parents=True, exist_ok=True)
        with log_file.open("a", encoding="utf-8") as output:
            return Background(our_command(self.version, "register"), output)

    def _identify(self, wiring: Wiring) -> Known | None:
        asked = wiring.registrar(self.environment.get("HYPERPOD_TOPOLOGY_INSTANCE_ID"), self.log)
        try:
            return replace(asked, timeout=min(asked.timeout, IDENTIFY_SECONDS)).identify()
        except (InputError, PassError) as error:
            self.log(f"ERROR: which instance this is cannot be told: {error}")
            return None

    def _parameters(self, wiring: Wiring | None) -> ProvisioningParameters:
        try:
            found = wiring.documents.provisioning() if wiring else None
        except InputError as error:
            self.log(f"ERROR: {error}")
            found = None
        return found or ProvisioningParameters()

    def _sentence(self, role: Role | None, known: Known | None) -> str:
        who = f"group {known.group.name}" if known else "instance not known"
        what = {
            "controller": "a controller: the watch service and slurmctld's guard are set up",
            "login": "a login node: it registers",
            "compute": "a compute node: it registers",
        }
        return f"{who}: {what.get(str(role), 'no controller as far as can be told: it registers')}"

    def _copy_settings(self, troubles: list[str]) -> None:
        """The bundle's hyperpod_topology.json becomes this node's settings; {} leaves what is there."""
        source = self.bundle / "hyperpod_topology.json" if self.bundle else None
        if source is None or not source.is_file():
            return
        data = source.read_bytes()
        try:
            settings = json.loads(data.decode("utf-8-sig"))
            if not isinstance(settings, dict):
                raise ValueError("it holds no JSON object")
        except ValueError as error:
            self.log(f"ERROR: {source.name} is not used: {error}")
            troubles.append(source.name)
            return
        target = self.root / SETTINGS
        if not settings or (target.is_file() and target.read_bytes() == data):
            return
        if target.exists():
            target.replace(target.with_name(target.name + ".former"))
            self.log(f"{target.name}: the bundle's settings take the place of others, kept as {target.name}.former")
        write_atomically(target, data)

    def _copy_parameters(self) -> None:
        """File-driven clusters: what lies beside the scripts goes with /tmp. HyperPod's own copy comes first."""
        source = self.bundle.parent / "provisioning_parameters.json" if self.bundle else None
        if source is None or not source.is_file():
            return
        target, mark = self.root / PARAMETERS, self.root / PARAMETERS_COPIED
        data = source.read_bytes()
        if target.is_file():
            there = target.read_bytes()
            if there == data:
                return
            if not mark.is_file() or mark.read_text().strip() != hashlib.sha256(there).hexdigest():
                self.log(f"{target} is not ours and stays, though the one beside the scripts differs")
                return
        write_atomically(target, data)
        write_atomically(mark, hashlib.sha256(data).hexdigest().encode() + b"\n")

    def _mount(self) -> bool:
        try:
            parameters = json.loads((self.root / PARAMETERS).read_text(encoding="utf-8-sig"))
            wanted = storage.filesystems(parameters if isinstance(parameters, dict) else {})
        except FileNotFoundError:
            wanted = []
        except (OSError, ValueError) as error:
            self.log(f"ERROR: {PARAMETERS}: {error}")
            return False
        if not wanted:
            self.log("no filesystem to mount is named in provisioning_parameters.json")
        try:
            storage.mount(wanted, self.root, self.log)
        except (storage.MountError, OSError) as error:
            self.log(f"ERROR: {error}")
            return False
        return True

    def _start_slurm(
        self, wiring: Wiring | None, role: Role | None, known: Known | None, parameters: ProvisioningParameters
    ) -> bool:
        if wiring is None or (known is None and role is None):
            self.log("ERROR: Slurm is not started, as this node's role is not known")
            return False
        addresses = controller_addresses(known.config, parameters) if known else ()
        return slurm_daemons.start(
            role == "controller", addresses, wiring.places.slurm_conf, self.root, self.systemd, self.log
        )
