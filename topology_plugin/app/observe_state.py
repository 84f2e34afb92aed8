"""Where a reading command gets its State: a pass in memory on the controller, state.json elsewhere, or a given file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from topology_plugin.adapters import given_file
from topology_plugin.adapters.root import exists, is_file
from topology_plugin.app.wiring import Wiring
from topology_plugin.core import state_json
from topology_plugin.core.diff import Diff, Fact, places
from topology_plugin.core.generation import Generation
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.json_document import json_object
from topology_plugin.core.live import Live
from topology_plugin.core.state import State
from topology_plugin.core.steps import sentence
from topology_plugin.core.topology import Configuration

if TYPE_CHECKING:
    from topology_plugin.adapters.slurm import Slurm

STATE_FILE = "state.json"


@dataclass(frozen=True)
class Seen:
    """A State, where it comes from (a sentence), whether it is of this moment, what went wrong on the way to it, node
    states if the same source told them, and the Slurm that was asked, if any: it need not tell its nodes twice.
    `files`: what a pass would do to files that say something else than slurmctld runs, although that is desired."""

    state: State
    origin: str
    fresh: bool
    warnings: tuple[str, ...] = ()
    live: Live | None = None
    slurm: Slurm | None = None
    files: tuple[str, ...] = ()


def see(wiring: Wiring, given: str | None = None) -> Seen:
    """The State that reading commands show. `given`: a file with a state or `kubectl get nodes -o json` (`-`: stdin).

    Raises InputError when nothing can be read, with what was tried.
    """
    if given is not None:
        return _from_file(given)
    tried: list[Issue] = []
    if is_controller(wiring):
        try:
            return _pass_in_memory(wiring)
        except InputError as error:
            tried.extend(error.issues)
    for path in state_files(wiring):
        try:
            state = load(path)
        except FileNotFoundError:
            tried.append(Issue(str(path), "is not there"))
        except OSError as error:
            tried.append(Issue(str(path), f"cannot be read: {error.strerror or error}"))
        except InputError as error:
            tried.extend(error.issues)
        else:
            return Seen(state, f"{path}, written by the last pass", False, tuple(map(str, tried)))
    if not tried:
        tried.append(Issue("", "neither slurm.conf and resource_config.json nor a state.json can be found"))
    remedy = "run this on the controller, or name the file: --from state.json"
    raise InputError([*tried[:-1], Issue(tried[-1].where, tried[-1].what, tried[-1].remedy or remedy)])


def observe(wiring: Wiring) -> State:
    """A pass in memory: what is in force, what is desired and why. Writes nothing. Raises InputError."""
    return _pass_in_memory(wiring).state


def _pass_in_memory(wiring: Wiring) -> Seen:
    from topology_plugin.app.reconcile import Wish

    reconciler = wiring.reconciler()
    thought = reconciler.think(Wish(dry_run=True, ask=False))
    settled = thought.state.in_force == thought.state.desired
    files = tuple(sentence(step) for step in thought.plan.file_steps) if settled else ()
    return Seen(thought.state, "a pass in memory just now", True, slurm=reconciler.doors.slurm, files=files)


def is_controller(wiring: Wiring) -> bool:
    """Only the controller's resource_config is current: elsewhere what the last pass wrote is nearer to the truth.

    True where both inputs are on disk, and this machine keeps a state directory or nobody left a state.json.
    """
    places = wiring.places
    if not (is_file(places.slurm_conf) and is_file(places.resource_config)):
        return False
    return exists(places.state_dir) or not any(is_file(path) for path in state_files(wiring))


def state_files(wiring: Wiring) -> list[Path]:
    """Places of state.json, the shared one first."""
    directories = (wiring.shared_directory(), wiring.places.state_dir)
    return [directory / STATE_FILE for directory in directories if directory is not None]


def load(path: Path) -> State:
    """The state in a state.json of ours. Raises OSError, InputError."""
    return state_json.load(json_object(path.read_bytes(), str(path)), str(path))


def facts_in_force(wiring: Wiring, state: State) -> dict[str, Fact]:
    """What the generation in force rests on, node by node; {} where its facts.json cannot be read."""
    if state.generation is None:
        return {}
    for base in (path.parent for path in state_files(wiring)):
        try:
            path = base / "generations" / str(state.generation) / "facts.json"
            facts = json_object(path.read_bytes(), str(path))
            return {node: Fact(fact.get("instance_id"), fact.get("source")) for node, fact in facts.items()}
        except (OSError, InputError, AttributeError):
            continue
    return {}


@dataclass(frozen=True)
class Past:
    """A generation and what changed its place with it. `diff` None: it is the first one kept, or cannot be read
    (`readable`)."""

    number: int
    time: float | None
    by: str
    diff: Diff | None
    readable: bool = True


def recent_generations(wiring: Wiring, state: State, most: int = 6) -> list[Past]:
    """The newest generations, newest first. [] where none can be read. Reasons in their diffs are of today's facts."""
    try:
        finished = wiring.doors().generations.finished()[-most - 1 :]
    except (OSError, InputError):
        return []
    made: list[Past] = []
    former: Configuration | None = None
    for kept in finished:
        now = _configuration(kept)
        diff = places(state, former, now) if now is not None and former is not None else None
        time = kept.meta.get("time")
        stamp = float(time) if isinstance(time, (int, float)) else None
        made.append(Past(kept.number, stamp, str(kept.meta.get("by", "")), diff, now is not None))
        former = now
    return made[::-1][:most]


def _configuration(kept: Generation) -> Configuration | None:
    from topology_plugin.core import topology_conf, topology_yaml

    try:
        if kept.topology_yaml is not None:
            return Configuration(topology_yaml.parse(kept.topology_yaml).topologies, kept.words)
        return Configuration((topology_conf.of_cluster((kept.topology_conf or b"").decode(errors="replace")),), {})
    except InputError:
        return None


def load_live(wiring: Wiring, seen: Seen | None = None) -> Live | None:
    """Node states and jobs of this moment, which is that of `seen`; None where Slurm gives no answer."""
    if wiring.places.slurm_bin is None:
        return None
    slurm = (seen.slurm if seen is not None else None) or wiring.slurm
    nodes = slurm.nodes()
    return None if nodes is None else Live.parse(nodes, slurm.jobs())


def _from_file(given: str) -> Seen:
    where = given_file.shown(given)
    try:
        data = json_object(given_file.read(given), where)
        if data.get("kind") in ("List", "NodeList", "Node") or "items" in data:
            from topology_plugin.core.kubernetes import cluster

            state, live = cluster(data)
            return Seen(state, f"{where} (Kubernetes nodes)", True, live=live)
        return Seen(state_json.load(data, where), where, False)
    except InputError as error:
        remedy = "give a state.json, or the output of `kubectl get nodes -o json`"
        raise InputError(replace(issue, remedy=remedy) for issue in error.issues) from None
