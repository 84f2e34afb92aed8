"""Looking: everything a pass decides upon, read once, before anything is decided. Reads only what changed since."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeVar

from topology_plugin.adapters.asking import LATE
from topology_plugin.adapters.clock import Clock
from topology_plugin.adapters.documents import Documents
from topology_plugin.adapters.registry import Reading, Registry, Unavailable
from topology_plugin.core.cluster_agent import ClusterAgent
from topology_plugin.core.decision import Memory
from topology_plugin.core.groups import roles_told
from topology_plugin.core.instance_types import capability
from topology_plugin.core.inventory import Inventory
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.provisioning import ProvisioningParameters, unknown_groups
from topology_plugin.core.records import Record
from topology_plugin.core.resource_config import ResourceConfig, WrongOrchestrator
from topology_plugin.core.settings import Settings
from topology_plugin.core.slurm_conf import SlurmConf
from topology_plugin.core.sources import ApiAnswers, ApiGroup, Sources
from topology_plugin.core.stock import stock

T = TypeVar("T")


class Api(Protocol):
    """SageMaker or EC2: what it knows of these instances, within the budget. Never raises for a service that fails."""

    def answers(self, instance_ids: Sequence[str]) -> ApiAnswers: ...


@dataclass(frozen=True)
class Documented:
    """What lies in files: instances, roles, records. None: could not be read or is empty (`issues` says which)."""

    config: ResourceConfig | None
    provisioning: ProvisioningParameters | None
    agent: ClusterAgent | None
    records: Mapping[str, Record] | None
    issues: tuple[Issue, ...] = ()


@dataclass(frozen=True)
class Observation:
    """One look. `loaded`: slurmctld's nodes as JSON, None if it does not answer; `open_answers`: an API was throttled
    or does not know an instance yet, and is to be asked again."""

    documents: Documented
    inventory: Inventory
    memory: Memory
    loaded: list[dict[str, Any]] | None
    notes: tuple[str, ...] = ()
    open_answers: bool = False

    @property
    def blind(self) -> bool:
        """Neither an instance list nor a record: nothing is known of any node."""
        return self.documents.config is None and not self.documents.records


_REMEDY = "nothing was changed; put it back (HyperPod's agent writes it anew), then merge again"


def must_be_complete(conf: SlurmConf) -> None:
    """Raises InputError for a slurm.conf with an Include that is not there. To be asked before Slurm's commands are,
    each of which waits for such a file (a minute, run)."""
    if not conf.complete:
        unread = [issue for issue in conf.issues if "Include" in issue.what]
        raise InputError(
            [*unread, Issue(conf.files[0].path, "an Include cannot be read, so nodes may be missing", _REMEDY)]
        )


def must_list_something(conf: SlurmConf, knew_nodes: bool) -> None:
    """Raises InputError for a slurm.conf that is cut off: an empty config is no data, not "no nodes" (a node leaves
    when slurm.conf no longer lists it, and only then). `knew_nodes`: there were some before."""
    if knew_nodes and not conf.nodes and not conf.partitions:
        raise InputError(Issue(conf.files[0].path, "lists neither nodes nor partitions any more", _REMEDY))


@dataclass
class Observer:
    """Reads the documents and the registry, asks the APIs. Lives as long as `watch`, so that a look is cheap."""

    documents: Documents
    registry: Callable[[str | None], Registry | None]
    apis: Mapping[str, Callable[[], Api]]
    settings: Settings
    clock: Clock
    api_groups: Callable[[], Mapping[str, ApiGroup]] = dict
    _reading: Reading | None = None
    _asked: dict[str, ApiAnswers] = field(default_factory=dict)
    _groups: Mapping[str, ApiGroup] | None = None
    _groups_due: float = 0.0

    def read(self, known_arn: str | None = None) -> Documented:
        """The documents as they are now. `known_arn`: the cluster's, where its file cannot be read. Raises
        WrongOrchestrator."""
        issues: list[Issue] = []
        config = _document(self.documents.resource_config, issues)
        if config is not None and not any(True for _ in config.instances()):
            issues.append(Issue("resource_config.json", "lists no instance: taken as no data, not as no nodes"))
            config = None
        if config is not None:
            issues.extend(config.issues)
        parameters = _document(self.documents.provisioning, issues)
        if config is not None and parameters is not None:
            issues.extend(unknown_groups(parameters, [group.name for group in config.groups]))
        if parameters is not None:
            issues.extend(parameters.issues)
        agent = _document(self.documents.cluster_agent, issues)
        records = self._records((config.cluster_arn if config else None) or known_arn, issues)
        return Documented(config, parameters, agent, records, tuple(issues))

    def look(
        self,
        conf: SlurmConf,
        loaded: list[dict[str, Any]] | None,
        memory: Memory,
        *,
        ask: bool = True,
        known_arn: str | None = None,
    ) -> Observation:
        """An inventory of `conf`'s nodes. `ask` False: no API is called (`--offline`)."""
        documents = self.read(known_arn)
        sources = Sources(documents.config, documents.records, documents.provisioning)
        inventory, known = stock(conf, loaded or [], sources, memory)
        if ask:
            answers = self._ask(inventory, memory)
            groups = self._api_groups(sources)
            if answers or groups:
                sources = replace(sources, answers=answers, api_groups=groups)
                inventory, known = stock(conf, loaded or [], sources, memory)
        notes = [f"{source}: {api.problem}" for source, api in sources.answers.items() if api.problem]
        inventory = replace(inventory, issues=(*documents.issues, *inventory.issues))
        pending = any(api.pending for api in sources.answers.values())
        return Observation(documents, inventory, known, loaded, tuple(notes), pending)

    def _records(self, cluster_arn: str | None, issues: list[Issue]) -> Mapping[str, Record] | None:
        try:
            registry = self.registry(cluster_arn)
            if registry is None:
                return {}
            self._reading = registry.read_all(cluster_arn, self._reading)
        except (Unavailable, InputError) as error:
            issues.append(Issue("registry", f"cannot be read: {error}", "last known positions hold"))
            return None
        issues.extend(self._reading.issues)
        return self._reading.records

    def _ask(self, inventory: Inventory, memory: Memory) -> dict[str, ApiAnswers]:
        """The APIs' answers, where a node that should have a position has none from its label."""
        sources = [source for source in self.settings.sources if source in self.apis]
        everyone = _in_question(inventory, memory) if sources else []
        answers: dict[str, ApiAnswers] = {}
        for source in sources:
            before = self._asked.get(source, ApiAnswers())
            open_ids = [i for i in everyone if i not in before.positions or i in before.pending]
            if open_ids:
                before = _joined(before, self.apis[source]().answers(open_ids), everyone)
                self._asked[source] = before
            if before.positions or before.silent or before.problem:
                answers[source] = before
        return answers

    def _api_groups(self, sources: Sources) -> Mapping[str, ApiGroup]:
        """Roles and partitions by API, when no file tells them: asked once for the groups there are, again for new ones
        and, not soon, after it said nothing of one."""
        if roles_told(sources) or "sagemaker" not in self.settings.sources:
            return {}
        names = {group.name for group in sources.config.groups} if sources.config else set()
        now = self.clock.monotonic()
        if (self._groups is None or not names <= self._groups.keys()) and now >= self._groups_due:
            found = self.api_groups()
            self._groups = found or self._groups or {}
            self._groups_due = now if names <= found.keys() else now + LATE
        return self._groups or {}


def _document(read: Callable[[], T | None], issues: list[Issue]) -> T | None:
    try:
        return read()
    except WrongOrchestrator:
        raise
    except InputError as error:
        issues.extend(error.issues)
        return None


def _in_question(inventory: Inventory, memory: Memory) -> list[str]:
    """All capable instances if one of them has no position of the kind that it is capable of (all, as the ids of two
    sources cannot be mixed), else none."""
    capable: list[str] = []
    lacking = False
    seen: dict[tuple[str | None, int], tuple[bool, bool]] = {}  # nodes of a leaf share their answers
    for node in inventory.nodes.values():
        key = node.instance_type, id(node.answers)
        known = seen.get(key)
        if known is None:
            ability = memory.types.get(node.instance_type or "") or capability(node.instance_type)
            useful = any(p.ultraserver if ability == "block" else p.path for p in node.answers.values())
            known = seen[key] = (ability is not None, useful)
        if known[0] and node.instance_id is not None:
            capable.append(node.instance_id)
            lacking = lacking or not known[1]
    return sorted(capable) if lacking else []


def _joined(before: ApiAnswers, now: ApiAnswers, ids: Sequence[str]) -> ApiAnswers:
    """Positions once told stay for instances that are still here; silence and problems are of this moment."""
    current = set(ids)

    def both(old: Mapping[str, T], new: Mapping[str, T]) -> dict[str, T]:
        return {i: value for i, value in {**old, **new}.items() if i in current}

    return ApiAnswers(
        both(before.positions, now.positions),
        both(before.zones, now.zones),
        both(before.ultraserver_types, now.ultraserver_types),
        dict(now.silent),
        now.problem,
        now.pending,
    )
