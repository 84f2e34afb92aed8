"""Slurm's files as they were without us: our words out, our files gone, everything of others as it is."""

from __future__ import annotations

from dataclasses import dataclass

from topology_plugin.app import ownership
from topology_plugin.app.apply import Applied, ApplyFailed, execute
from topology_plugin.app.doors import Doors
from topology_plugin.core import plan as planning
from topology_plugin.core import target
from topology_plugin.core.disk import Disk
from topology_plugin.core.plan import Plan, Target


@dataclass(frozen=True)
class Uninstalled:
    """`stays`: what is left in Slurm's files and why, a sentence each; `applied` None: only planned."""

    plan: Plan
    stays: tuple[str, ...] = ()
    applied: Applied | None = None


def uninstall(doors: Doors, *, dry_run: bool = False, offline: bool = False) -> Uninstalled:
    """Take our words and files out, with one reconfigure; from then on passes write nothing, on any controller, until
    `resume`. Raises ApplyFailed with the former state kept.

    Ours is what any kept generation holds, so registry and state_dir must still be there. Without topology.yaml Slurm
    falls back to TopologyPlugin and topology.conf: where it would not start with these, `flat` alone stays.
    """
    if dry_run:
        disk = doors.live.disk()
        wanted, stays = _wanted(doors, disk)
        return Uninstalled(_plan(doors, disk, wanted, offline), stays)
    with doors.one_writer():
        disk = doors.live.disk()
        wanted, stays = _wanted(doors, disk)
        wrong = doors.check(target.in_place(disk, wanted, doors.classic))
        if wrong:
            raise ApplyFailed("validation", f"nothing was changed: {'; '.join(map(str, wrong[:5]))}")
        plan = _plan(doors, disk, wanted, offline)
        with ownership.uninstalling(doors) as untold:
            if untold:
                stays = (*stays, f"other controllers cannot be told, so stop their watch service: {untold}")
            # Not rehearsed, but nothing is simpler to start from than less: under plain -D this is taken for rehearsed.
            applied = execute(doors, disk, plan, rehearsed=True)
        return Uninstalled(plan, stays, applied)


def _wanted(doors: Doors, disk: Disk) -> tuple[Target, tuple[str, ...]]:
    ours = doors.generations
    words = {p: None for p, word in disk.words.items() if word is not None and ours.ours_word(p, word)}
    left = {p: word for p, word in disk.words.items() if word is not None and p not in words}
    stays = [f"partition {p} keeps Topology={word}, which is not ours" for p, word in left.items()]
    yaml_ours = disk.topology_yaml is not None and ours.ours_text(disk.topology_yaml)
    if disk.topology_yaml is not None and not yaml_ours:
        stays.append("topology.yaml stays: it is not ours")
    elif yaml_ours and left and not doors.classic:
        stays.append("topology.yaml stays: words that are not ours name its topologies")
        yaml_ours = False
    conf_ours = disk.topology_conf is not None and ours.ours_text(disk.topology_conf)
    current = ours.current()
    plugin = None
    if ours.ours_plugin(disk.plugin):
        plugin = (current.meta.get("plugin_before") if current else None) or planning.NO_LINE
    wanted = target.without_us(disk, yaml_ours, conf_ours, plugin, words)
    if wanted.topology_yaml is None and not doors.classic and doors.check(target.in_place(disk, wanted, doors.classic)):
        stays.append("topology.yaml stays with flat alone: without it slurmctld would not start")
        wanted = target.flat_file(disk, words)
    return wanted, tuple(stays)


def _plan(doors: Doors, disk: Disk, wanted: Target, offline: bool) -> Plan:
    return planning.plan(disk, wanted, reconfigure=not offline, classic=doors.classic)
