"""Gathers what `doctor` looks at: reads everything, tries a few things out, changes nothing."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

from topology_plugin import __version__
from topology_plugin.adapters.probe import Probe, SystemProbe
from topology_plugin.adapters.registry import NODES, Unavailable
from topology_plugin.app.observe_state import is_controller, load, observe, state_files
from topology_plugin.app.unpublished import unpublished
from topology_plugin.app.wiring import Wiring
from topology_plugin.core import checks_inputs, checks_slurm, checks_topology
from topology_plugin.core.checkup import (
    Check,
    Document,
    Examination,
    Patient,
    RegistryFacts,
    ServiceFacts,
    SlurmFacts,
    unknown,
)
from topology_plugin.core.disk import Disk
from topology_plugin.core.issues import InputError, PassError
from topology_plugin.core.live import Live
from topology_plugin.core.state import State
from topology_plugin.core.validation import check_files

T = TypeVar("T")
EXAMINATIONS: tuple[Examination, ...] = (*checks_inputs.CHECKS, *checks_slurm.CHECKS, *checks_topology.CHECKS)
SYSTEMD = "/etc/systemd/system"
WATCH = "hyperpod-topology-watch.service"
_PATIENCE = 2.0  # seconds to find out who this machine is; `register` waits longer


def examine(patient: Patient) -> tuple[Check, ...]:
    """Every check that means something on this machine, in order. A check that itself fails says so and stops none."""
    found = []
    for one in EXAMINATIONS:
        if one.where == "controller" and patient.role != "controller":
            continue
        try:
            verdict = one.judge(patient)
        except Exception as error:  # a fault of ours must not hide what the others found
            verdict = unknown(f"the check itself failed: {error!r}", "please report it (doctor --bundle)")
        found.append(Check(one.id, one.title, verdict))
    return tuple(found)


def gather(wiring: Wiring, *, ask_aws: bool = True, probe: Probe | None = None) -> Patient:
    """Reads and tries everything once. Never raises for what is broken: that is what the checks are about."""
    probe = probe or SystemProbe()
    controller = is_controller(wiring)
    documents: dict[str, Document] = {}
    config = _document(documents, "resource_config", wiring.places.resource_config, wiring.documents.resource_config)
    provisioning = _document(
        documents, "provisioning_parameters", wiring.places.provisioning_parameters, wiring.documents.provisioning
    )
    agent = _document(documents, "cluster_agent", wiring.places.cluster_agent, wiring.documents.cluster_agent)
    arn = config.cluster_arn if config else None
    identity, identity_error = _identity(wiring)
    disk, disk_error = _disk(wiring)
    written = _written(wiring)
    state, state_error, fresh = _state(wiring, controller, written)
    patient = Patient(
        role="controller" if controller else "node",
        settings=wiring.settings,
        version=__version__,
        now=wiring.clock.now(),
        root_user=os.geteuid() == 0,
        documents=documents,
        config=config,
        provisioning=provisioning,
        agent=agent,
        identity=identity,
        identity_error=identity_error,
        registry=_registry(wiring, arn, probe),
        slurm=_slurm(wiring),
        services=_services(wiring, probe),
        disk=disk,
        disk_error=disk_error,
        state=state,
        state_error=state_error,
        fresh=fresh,
        written=written,
    )
    if disk is not None:
        found = check_files(disk.conf, disk.topology_yaml, disk.topology_conf, patient.slurm.version)
        patient = replace(patient, findings=tuple(found))
    return replace(
        patient,
        live=_live(wiring, patient),
        aws=_aws(wiring, patient) if ask_aws and controller else {},
        rehearsal=_rehearsal(wiring),
        unpublished=tuple(unpublished(wiring, patient)),
        **_way_back(wiring),
    )


def _document(into: dict[str, Document], name: str, path: Path, read: Callable[[], T | None]) -> T | None:
    try:
        found = read()
    except InputError as error:
        into[name] = Document(str(path), path.exists(), "; ".join(map(str, error.issues[:3])))
        return None
    into[name] = Document(str(path), found is not None, issues=tuple(getattr(found, "issues", ())))
    return found


def _identity(wiring: Wiring) -> tuple[str, str]:
    given = wiring.places.environment.get("HYPERPOD_TOPOLOGY_INSTANCE_ID")
    registrar = wiring.registrar(given, lambda sentence: None)
    registrar.timeout = _PATIENCE
    try:
        known = registrar.identify()
    except (InputError, PassError) as error:
        return "", str(error).removeprefix("not registered: ")
    instance = known.instance
    name = f"{instance.instance_id} ({instance.instance_name or 'no name'}, group {known.group.name})"
    return f"{name}, told by {known.how}", ""


def _registry(wiring: Wiring, arn: str | None, probe: Probe) -> RegistryFacts:
    from topology_plugin.adapters.mounts import SystemMounts, shared_only

    if wiring.settings.registry is None:
        return RegistryFacts(off=True)
    try:
        directory = wiring.places.registry(arn)
    except InputError as error:
        return RegistryFacts(read_error=str(error))
    if directory is None:
        return RegistryFacts(off=True)
    mounts = SystemMounts()
    mount = mounts.holding(directory)
    chosen = wiring.places.registry_chosen
    facts = RegistryFacts(
        str(directory),
        mount="" if chosen else shared_only(mounts)(directory),
        file_system=f"{mount.kind} at {mount.point}" if mount else "",
        user=os.geteuid(),
    )
    if facts.mount:
        return replace(facts, read_error=facts.mount)
    nodes = directory / NODES
    try:
        found = nodes.stat()
    except OSError as error:
        return replace(facts, exists=False, read_error=f"{nodes}: {error.strerror}")
    tried = probe.directory(directory)
    facts = replace(
        facts,
        exists=True,
        mode=found.st_mode & 0o7777,
        owner=found.st_uid,
        write_error=tried.write_error,
        made_by=tried.made_by,
        locks=tried.locks,
        lock_error=tried.lock_error,
    )
    door = wiring.registry(arn)
    try:
        reading = door.read_all(arn) if door else None
    except Unavailable as error:
        return replace(facts, read_error=str(error))
    return replace(facts, records=reading.records, record_issues=reading.issues) if reading else facts


def _slurm(wiring: Wiring) -> SlurmFacts:
    if wiring.given_slurm is None and wiring.places.slurm_bin is None:
        return SlurmFacts()
    slurm = wiring.slurm
    version = slurm.version()
    answers = slurm.ping()
    running: bool | None = None
    plain = False
    with contextlib.suppress(InputError, OSError):
        controller = wiring.doors().controller
        running, plain = controller.running(), controller.foreground()
    nodes = slurm.nodes() or [] if answers else []
    explicit = tuple(str(n["name"]) for n in nodes if isinstance(n, dict) and n.get("topology"))
    return SlurmFacts(
        str(wiring.places.slurm_bin or "given"),
        version.numbers if version else None,
        version.text if version else None,
        answers,
        slurm.config() if answers else None,
        running,
        plain,
        explicit,
    )


def _services(wiring: Wiring, probe: Probe) -> ServiceFacts:
    base = wiring.places.root.path(SYSTEMD)
    drop_ins = sorted(base.glob("slurmctld.service.d/*hyperpod-topology*.conf")) if base.is_dir() else []
    guard = wiring.places.root.inside(drop_ins[0]) if drop_ins else None
    simulated = wiring.places.root.directory is not None
    watch = None if simulated else probe.service(WATCH)
    return ServiceFacts(guard, watch, systemd=not simulated and watch is not None)


def _disk(wiring: Wiring) -> tuple[Disk | None, str]:
    try:
        return wiring.live_files().disk(), ""
    except InputError as error:
        return None, "; ".join(map(str, error.issues[:3]))
    except OSError as error:
        return None, f"{error.filename or 'slurm.conf'} cannot be read: {error.strerror}"


def _state(wiring: Wiring, controller: bool, written: State | None) -> tuple[State | None, str, bool]:
    """A pass in memory on the controller, else what the last one wrote."""
    why = ""
    if controller:
        try:
            return observe(wiring), "", True
        except (InputError, PassError) as error:
            why = f"no pass can be made: {error}"
        except OSError as error:
            why = f"no pass can be made: {error.filename or ''} {error.strerror}"
    return written, why if written is None else "", False


def _written(wiring: Wiring) -> State | None:
    """The last pass's state.json: of several copies the one after more passes."""
    found = []
    for path in state_files(wiring):
        with contextlib.suppress(OSError, InputError):
            found.append(load(path))
    return max(found, key=lambda state: state.counters.passes, default=None)


def _live(wiring: Wiring, patient: Patient) -> Live | None:
    return Live.parse(wiring.slurm.nodes(), wiring.slurm.jobs()) if patient.slurm.answers else None


def _aws(wiring: Wiring, patient: Patient) -> dict[str, str]:
    """Each action once, for one instance. Below --root nobody asks for a cluster that may be made up."""
    if wiring.places.root.directory is not None or patient.config is None:
        return {}
    return wiring.aws().problems([i.instance_id for _, i in patient.config.instances() if i.instance_id][:1])


def _rehearsal(wiring: Wiring) -> str | None:
    from topology_plugin.adapters.rehearsal import NamespaceRehearsal

    return NamespaceRehearsal(wiring.places.slurm_bin).available()


def _way_back(wiring: Wiring) -> dict[str, Any]:
    """The newest finished generation in state_dir, and whether state_dir can be used."""
    from topology_plugin.adapters.files import RealFiles
    from topology_plugin.adapters.generations import Generations

    directory = wiring.places.state_dir
    try:
        if directory.is_dir() and not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
            return {"state_dir_error": "no permission"}
        if directory.exists() and not directory.is_dir():
            return {"state_dir_error": "it is no directory"}
        current = Generations(RealFiles(), None, directory, cluster_arn=wiring.cluster_arn()).current()
    except (OSError, InputError) as error:
        return {"state_dir_error": str(error)}
    return {"good_generation": current.number if current else None}
