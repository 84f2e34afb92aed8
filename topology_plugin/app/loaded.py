"""What slurmctld has loaded, against what it is to have loaded."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from topology_plugin.adapters.slurm import Answer
from topology_plugin.app.doors import Doors
from topology_plugin.core import shown_topology, topology_conf, topology_yaml
from topology_plugin.core.disk import decoded
from topology_plugin.core.issues import InputError
from topology_plugin.core.plan import Target, needs_conf

PATIENCE = 300.0  # a big tree takes slurmctld far longer than scontrol waits (run: 10 s at 2,000 switches)
SECOND_LOOK = 5.0  # after an answer that differs: it may be the former slurmctld's last one
POLL = 0.5


@dataclass(frozen=True)
class Unlike:
    """`code`: a short stable word; `what`: a sentence."""

    code: str
    what: str


def await_loaded(doors: Doors, target: Target, words: Mapping[str, str | None], patient: bool = False) -> Unlike | None:
    """None as soon as slurmctld has `target` loaded; what is wrong, once it answers otherwise or not for PATIENCE.

    `patient`: scontrol gave up waiting, so the slurmctld that answers may be the one that is about to be replaced.
    """
    clock = doors.clock
    begin = clock.monotonic()
    differs_since: float | None = None
    while True:
        found = differences(doors, target, words)
        now = clock.monotonic()
        if found == []:
            return None
        if found is None:
            differs_since = None
            if doors.controller.running() is False:
                # Looked at twice: while one slurmctld hands over to the next there may be none for a moment.
                clock.sleep(POLL)
                if doors.controller.running() is False and not doors.slurm.ping():
                    return Unlike("died", "slurmctld is not running any more")
            if now - begin >= PATIENCE:
                return Unlike("no-answer", f"slurmctld gave no answer for {PATIENCE:g} s")
        else:
            differs_since = now if differs_since is None else differs_since
            if now - differs_since >= (PATIENCE if patient else SECOND_LOOK):
                return Unlike("read-back", "slurmctld runs something else: " + "; ".join(found[:5]))
        clock.sleep(POLL)


def differences(doors: Doors, target: Target, words: Mapping[str, str | None]) -> list[str] | None:
    """How what slurmctld runs differs from the target, a sentence each; None: it does not answer.

    `words`: the words that its partitions are to have, all of them. Partitions it does not show don't count.
    """
    return _classic(doors, target) if doors.classic else _modern(doors, target, words)


def _modern(doors: Doors, target: Target, words: Mapping[str, str | None]) -> list[str] | None:
    partitions = doors.slurm.partitions()
    if partitions is None:
        return None
    result = [
        f"partition {name} has {_word(partitions[name])}, wanted is {_word(word)}"
        for name, word in words.items()
        if name in partitions and partitions[name] != word
    ]
    if target.configuration is None:
        return result
    shown = doors.slurm.topoconf()
    if shown is None:
        return None
    try:
        return result + topology_yaml.same(target.configuration, shown)
    except InputError as error:
        return [*result, str(error)]


def _classic(doors: Doors, target: Target) -> list[str] | None:
    config = doors.slurm.config()
    if config is None:
        return None
    plugin = target.plugin or "topology/default"
    running = config.get("TopologyPlugin", "")
    result = [] if _same_plugin(running, plugin) else [f"TopologyPlugin is {running}, wanted is {plugin}"]
    if not needs_conf(plugin) or target.topology_conf is None or result:
        return result
    shown = doors.slurm.run("scontrol", "show", "topology")
    if not shown.ok:
        return None
    try:
        return shown_topology.differences(topology_conf.parse(decoded(target.topology_conf)), shown.out)
    except InputError as error:
        return [str(error)]


def _same_plugin(one: str, other: str) -> bool:
    names = {"": "default", "(null)": "default", "none": "default", "flat": "default"}
    short = [names.get(n, n) for n in (plugin.lower().removeprefix("topology/") for plugin in (one, other))]
    return short[0] == short[1]


def _word(word: str | None) -> str:
    return f"Topology={word}" if word else "no Topology="


def no_verdict(answer: Answer) -> bool:
    """scontrol gave up waiting: that says nothing about the reconfigure (it waits MessageTimeout, 10 s)."""
    return answer.timed_out or (answer.code is not None and not answer.ok and "timed out" in answer.words.lower())
