"""Registering: a node finds out who it is and says so in a file of its own. Bounded in time; needs no AWS API."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.identity import Machine
from topology_plugin.adapters.registry import Registry, Unavailable
from topology_plugin.core import records
from topology_plugin.core.instances import INSTANCE_ID, Instance, names_no_machine
from topology_plugin.core.issues import InputError, Issue, PassError
from topology_plugin.core.json_document import shown
from topology_plugin.core.records import Record
from topology_plugin.core.resource_config import InstanceGroup, ResourceConfig

if TYPE_CHECKING:
    from topology_plugin.adapters.imds import Imds

MAX_NOTES = 5  # most are about other machines, and `doctor` on the controller lists them all
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 5.0


@dataclass(frozen=True)
class Registration:
    """`how`: what told this node who it is; `written` False: the record stood there already; `notes`: what could not be
    read or found on the way, for the operator."""

    record: Record
    how: str
    written: bool
    notes: tuple[str, ...] = ()

    def sentence(self) -> str:
        """For the provisioning log."""
        name = f"{self.record.instance_id} ({self.record.instance_name or 'no name'}, group {self.record.group})"
        did = f"registered {name}" if self.written else f"{name} is registered already"
        position = self.record.position
        if position is None:
            why = self.record.errors.get(records.LABELS, "its InstanceLabel is absent or empty")
            return f"{did}, without a position: {why}"
        where = [f"UltraServer {position.ultraserver}"] if position.ultraserver else []
        where += [f"network path {' > '.join(position.path)}"] if position.path else []
        return f"{did}: {', '.join(where)}"


@dataclass(frozen=True)
class Known:
    """This node in its resource_config."""

    config: ResourceConfig
    group: InstanceGroup
    instance: Instance
    how: str
    zone_id: str | None = None


@dataclass
class Registrar:
    """The doors of a registration. `given`: the instance id by option or variable; `registry`: for the cluster's ARN;
    `timeout`: seconds for everything together; `say`: one sentence to the operator while we wait."""

    documents: Documents
    machine: Machine
    imds: Callable[[], Imds]
    registry: Callable[[str | None], Registry | None]
    clock: Clock
    timeout: float
    given: str | None = None
    say: Callable[[str], None] = field(default=lambda sentence: None)
    _imds: Imds | None = None

    def register(self) -> Registration | None:
        """None: the registry is switched off. Raises InputError for input that cannot be used and
        PassError where this node could not register in time."""
        until = self.clock.monotonic() + self.timeout
        known = self._find(until)
        notes = [str(issue) for issue in known.config.issues[:MAX_NOTES]]
        if len(known.config.issues) > MAX_NOTES:
            notes.append(f"and {len(known.config.issues) - MAX_NOTES} more like these in resource_config.json")
        registry = self.registry(known.config.cluster_arn)
        if registry is None:
            return None
        record = records.of_instance(
            known.config.cluster_arn,
            known.group,
            known.instance,
            str(known.instance.instance_id),
            self._partitions(known.group, notes),
            known.zone_id,
        )
        try:
            written = registry.write(record, max(0.0, until - self.clock.monotonic()))
        except Unavailable as error:
            raise PassError(
                f"not registered: {error}. This node works without; its position then comes from the controller's copy "
                "of resource_config.json. Run `hyperpod-topology register` again later"
            ) from None
        return Registration(record, known.how, written, tuple(notes))

    def identify(self) -> Known:
        """This node in its resource_config, found within the timeout. Raises InputError and PassError as `register`."""
        return self._find(self.clock.monotonic() + self.timeout)

    def _find(self, until: float) -> Known:
        """Asks until someone names an instance that resource_config lists; the file is read anew each time, as it may
        not list this node yet."""
        if self.given is not None and not INSTANCE_ID.match(self.given):
            raise InputError(
                Issue("--instance-id", f"{shown(self.given)} is not an instance id", "e.g. i-0123456789abcdef0")
            )
        pause = FIRST_PAUSE
        said = ""
        while True:
            config: ResourceConfig | None = None
            error: InputError | None = None
            try:
                config = self.documents.resource_config()
            except InputError as unusable:  # it may just be being written
                error, why = unusable, str(unusable)
            else:
                found, why = self._told_by(config)
                if found is not None:
                    return found
            left = until - self.clock.monotonic()
            if left <= 0 or (error is not None and pause > 2 * FIRST_PAUSE):
                raise error or PassError(f"not registered: {why}")
            if why != said and config is not None:
                self.say(f"waiting at most {left:.0f} s: {why}")
                said = why
            self.clock.sleep(min(pause, left))
            pause = min(2 * pause, LONGEST_PAUSE)

    def _told_by(self, config: ResourceConfig) -> tuple[Known | None, str]:
        """This node, or why it cannot be told. An id that is listed wins; then CustomerIpAddress, and nothing else."""
        if self.given is not None:
            return self._listed(config, self.given, "the option", None)
        reasons = []
        tagged = self.machine.tagged_instance_id()
        if tagged is not None:
            found, why = self._listed(config, tagged, "the DMI asset tag", None)
            if found is not None:
                return found, ""
            reasons.append(why)
        if self._imds is None:
            self._imds = self.imds()
        asked = self._imds.instance_id()
        if asked is not None and INSTANCE_ID.match(asked):
            found, why = self._listed(config, asked, "IMDS", self._imds)
            # A file that does not list this very instance is stale: its address may still be another's (replacement).
            return found, why
        reasons.append(f"IMDS {self._imds.problem or 'names no instance'}")
        found, why = self._addressed(config, self.machine.address())
        return found, "; ".join([*reasons, why])

    def _listed(
        self, config: ResourceConfig, instance_id: str, how: str, imds: Imds | None
    ) -> tuple[Known | None, str]:
        found = config.by_id(instance_id)
        if found is None:
            return None, f"{how} says {instance_id}, which resource_config.json does not list"
        return Known(config, *found, how, imds.zone_id() if imds else None), ""

    def _addressed(self, config: ResourceConfig, address: str | None) -> tuple[Known | None, str]:
        if address is None:
            return None, "this machine has no address yet"
        if names_no_machine(address):
            return None, f"this machine's address is still {address}, which names no machine"
        agents = {instance.agent_address for _, instance in config.instances()}
        found = [f for f in config.instances() if f[1].customer_address == address and f[1].instance_id]
        if address in agents:
            return None, f"this machine's address is {address}, an agent's, which is not matched"
        if len(found) != 1:
            what = "several instances have" if found else "no instance has"
            return None, f"{what} this machine's address {address} as CustomerIpAddress in resource_config.json"
        return Known(config, *found[0], f"its address {address}"), ""

    def _partitions(self, group: InstanceGroup, notes: list[str]) -> tuple[str, ...] | None:
        """The partitions of this node's group: from provisioning_parameters.json, else from the group itself; None: not
        known here (API-driven clusters). A broken file costs this node nothing else (BR-02)."""
        try:
            parameters = self.documents.provisioning()
        except InputError as error:
            notes.extend(str(issue) for issue in error.issues)
            return group.partitions
        if parameters is None:
            return group.partitions
        notes.extend(str(issue) for issue in parameters.issues)
        named = parameters.partitions(group.name)
        if named is None and group.partitions is None and not parameters.issues:
            return ()
        return group.partitions if named is None else named
