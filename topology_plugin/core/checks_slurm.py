"""Checks of Slurm: version, files that it starts from, how it runs, settings of its own that concern topologies."""

from __future__ import annotations

import re

from topology_plugin.core.checkup import Examination, Patient, Verdict, bad, ok, some, unknown, warn
from topology_plugin.core.rules import RULES, Finding, unhealthy
from topology_plugin.core.rules_conf import keeps_words
from topology_plugin.core.versions import NEWEST_KNOWN, TESTED

_MENDED = "the next `merge` mends it; `guard` does before slurmctld starts"
_OWN_CHECK = {
    "keep-part-info",
    "switches-many",
    "switches-too-many",
    "configless-unsent",
    "slurm-untested",
}


def commands(patient: Patient) -> Verdict:
    if patient.slurm.commands is None:
        return bad("scontrol is neither on PATH nor in /opt/slurm/bin", "set slurm_bin")
    return ok(patient.slurm.commands)


def version(patient: Patient) -> Verdict:
    numbers = patient.slurm.version
    if numbers is None:
        return unknown("scontrol does not tell its version")
    text = patient.slurm.text
    if numbers[:2] < (24, 11):
        return bad(f"{text} is too old: 24.11 is the oldest that works", "upgrade Slurm")
    if numbers in ((25, 5, 0), (25, 5, 1)):
        return warn(f"{text} does not send topology.yaml to configless nodes", "upgrade to 25.11.7 or newer")
    if numbers[:2] < (25, 5):
        return ok(f"{text}: one topology.conf for the whole cluster; one per partition needs 25.05")
    if numbers[:2] >= (25, 5) and numbers < (25, 11, 7):
        return warn(f"{text} has faults in topology handling that later ones mended", "upgrade to 25.11.7 or newer")
    return ok(str(text))


def untested(patient: Patient) -> Verdict:
    numbers = patient.slurm.version
    if numbers is None:
        return unknown("the version is not known, so rules of the newest known one hold")
    if numbers[:2] > NEWEST_KNOWN:
        return warn(
            f"{patient.slurm.text} is newer than what was tested (26.05)", "watch the first pass: merge --dry-run"
        )
    read = [rule.id for rule in RULES.values() if rule.holds(numbers) and "run" not in rule.known]
    held = sum(1 for rule in RULES.values() if rule.holds(numbers))
    told = f"{len(read)} of {held} rules that hold for it were read in Slurm's source, not tried: {some(read)}"
    if numbers[:2] in TESTED:
        return ok(f"{patient.slurm.text} is of a release that the tests run; {told}")
    return unknown(f"{patient.slurm.text} is between the releases that the tests run (24.11, 26.05); {told}")


def answers(patient: Patient) -> Verdict:
    if patient.slurm.answers:
        return ok("slurmctld answers")
    if patient.slurm.running is False and patient.role == "controller":
        return bad("slurmctld is not running", "journalctl -u slurmctld; see the check files-startable")
    return (bad if patient.role == "controller" else unknown)("slurmctld does not answer", "scontrol ping says why")


def slurm_conf(patient: Patient) -> Verdict:
    if patient.disk is None:
        return bad(patient.disk_error or "slurm.conf cannot be read", "set slurm_conf, or run this on the controller")
    conf = patient.disk.conf
    if conf.issues:
        return bad(some([str(i) for i in conf.issues], 3), "slurmctld does not start with it")
    if not conf.complete:
        return bad("an Include cannot be read, so nodes may be missing here", "make it readable for this user")
    files = f"{len(conf.files)} files" if len(conf.files) > 1 else conf.files[0].path
    return ok(f"{files}: {len(conf.nodes)} nodes, {len(conf.partitions)} partitions")


def files_startable(patient: Patient) -> Verdict:
    if patient.disk is None:
        return unknown("slurm.conf cannot be read")
    deadly = unhealthy(patient.findings)
    if deadly:
        return bad(f"slurmctld would not start or take no job: {_told(deadly)}", deadly[0].remedy or _MENDED)
    return ok("slurmctld starts from what is on disk, by every rule known")


def files_sound(patient: Patient) -> Verdict:
    if patient.disk is None:
        return unknown("slurm.conf cannot be read")
    others = [f for f in patient.findings if f.rule not in _OWN_CHECK and f not in unhealthy(patient.findings)]
    wrong = [f for f in others if f.severity != "warns"]
    if wrong:
        return bad(_told(wrong), wrong[0].remedy or _MENDED)
    if others:
        return warn(_told(others), others[0].remedy)
    return ok("nothing that Slurm would misread")


def configless(patient: Patient) -> Verdict:
    found = [f for f in patient.findings if f.rule == "configless-unsent"]
    if found:
        return bad(found[0].what, "upgrade to 25.05.2 or newer")
    if patient.disk is None:
        return unknown("slurm.conf cannot be read")
    told = patient.disk.conf.parameters.get("slurmctldparameters", "").lower()
    if "enable_configless" in told:
        return ok("configless: slurmctld sends topology.yaml to the nodes")
    remedy = "see that every node and backup controller has the same topology.yaml, or set enable_configless"
    return warn("not configless: each node reads its own topology.yaml", remedy)


def foreground(patient: Patient) -> Verdict:
    if patient.slurm.running is None or patient.slurm.running is False:
        return unknown("no slurmctld of this slurm.conf is seen on this machine")
    if not patient.slurm.foreground:
        return ok("not under plain -D: a failed reconfigure leaves the former slurmctld running")
    if patient.rehearsal is None and patient.settings.rehearse != "never":
        return warn(
            "runs under plain -D: a failed reconfigure kills it. Each change is rehearsed first", "use --systemd"
        )
    what = (
        "runs under plain -D, where a failed reconfigure kills it, and no rehearsal is possible: it is not reconfigured"
    )
    return bad(what, "start it with --systemd, or make rehearsals possible (see that check)")


def rehearsal(patient: Patient) -> Verdict:
    if patient.settings.rehearse == "never":
        return warn("switched off (rehearse: never)", "slurmctld itself is the first to try a change")
    if patient.rehearsal is None:
        return ok("a throw-away slurmctld can try each change apart from everything")
    if not patient.root_user:
        return unknown(patient.rehearsal, "run it with sudo")
    return (bad if patient.settings.rehearse == "always" else warn)(patient.rehearsal, "rules alone judge changes")


def guard(patient: Patient) -> Verdict:
    if patient.services.guard:
        return ok(f"runs before slurmctld ({patient.services.guard})")
    if not patient.services.systemd:
        return unknown("no systemd here")
    return warn("not installed: what others leave broken stops slurmctld at its next start", "install the bundle")


def watch(patient: Patient) -> Verdict:
    word = patient.services.watch
    if word == "active":
        return ok("hyperpod-topology-watch is active")
    if not patient.services.systemd:
        return unknown("no systemd here")
    return warn(
        f"hyperpod-topology-watch is {word or 'not installed'}", "systemctl enable --now hyperpod-topology-watch"
    )


def keep_part_info(patient: Patient) -> Verdict:
    if patient.disk is None:
        return unknown("slurm.conf cannot be read")
    if keeps_words(patient.disk.conf):
        return warn("ReconfigFlags=KeepPartInfo: partitions keep the Topology= that slurmctld saved", "take it out")
    return ok("slurm.conf's words hold after each reconfigure")


def max_switch_wait(patient: Patient) -> Verdict:
    if patient.disk is None:
        return unknown("slurm.conf cannot be read")
    found = re.search(r"max_switch_wait=(\d+)", patient.disk.conf.parameters.get("schedulerparameters", ""))
    seconds = int(found[1]) if found else 300
    told = f"{seconds} s{'' if found else ' (default)'}: no job waits longer for --switches, then it starts anywhere"
    if seconds < 60:
        return warn(told, "raise SchedulerParameters=max_switch_wait=…")
    return ok(told)


def explicit_topologies(patient: Patient) -> Verdict:
    lines = [f for f in patient.findings if f.rule in ("node-stated-twice", "node-word-bare")]
    if patient.slurm.explicit:
        names = some(list(patient.slurm.explicit))
        what = (
            f"{len(patient.slurm.explicit)} nodes have a topology of their own, which overrides topology.yaml: {names}"
        )
        return warn(what, "take `Topology=` off their NodeName lines and undo `scontrol update … topology=`")
    if lines:
        return warn(_told(lines), lines[0].remedy)
    if not patient.slurm.answers:
        return unknown("slurmctld does not answer")
    return ok("no node overrides topology.yaml")


def _told(findings: list[Finding]) -> str:
    told = [f"{f.where}: {f.what} [{f.rule}]" if f.where else f"{f.what} [{f.rule}]" for f in findings]
    return "; ".join(told[:3]) + (f"; and {len(told) - 3} more" if len(told) > 3 else "")


CHECKS = (
    Examination("slurm-commands", "Slurm's commands", commands),
    Examination("slurm-version", "Slurm's version", version),
    Examination("slurm-untested", "what is untested on this Slurm", untested),
    Examination("slurmctld-answers", "slurmctld answers", answers),
    Examination("slurm-conf", "slurm.conf and what it includes", slurm_conf, "controller"),
    Examination("files-startable", "slurmctld starts from what is on disk", files_startable, "controller"),
    Examination("files-sound", "nothing on disk that Slurm would misread", files_sound, "controller"),
    Examination("configless", "nodes get topology.yaml", configless, "controller"),
    Examination("slurmctld-foreground", "a failed reconfigure leaves slurmctld alive", foreground, "controller"),
    Examination("rehearsal", "changes can be rehearsed", rehearsal, "controller"),
    Examination("guard", "guard is installed", guard, "controller"),
    Examination("watch", "passes run by themselves", watch, "controller"),
    Examination("keep-part-info", "slurm.conf decides about partitions", keep_part_info, "controller"),
    Examination("max-switch-wait", "how long --switches may wait", max_switch_wait, "controller"),
    Examination("explicit-topologies", "no node overrides the topology", explicit_topologies),
)
