"""Checks of the topology itself: whose it is, what is in force, who is left out, what it costs, how passes went."""

from __future__ import annotations

from topology_plugin.core import holding
from topology_plugin.core.checkup import Examination, Patient, Verdict, bad, ok, some, unknown, warn
from topology_plugin.core.consequences import refused
from topology_plugin.core.diff import compare
from topology_plugin.core.job_sizes import told
from topology_plugin.core.rules_topology import MOST_SWITCHES, WARN_SWITCHES, reconfigure_seconds
from topology_plugin.core.topology import Blocks, Configuration, Tree

_DIFF = "`hyperpod-topology diff` shows it, `merge` makes it"


def owner(patient: Patient) -> Verdict:
    if patient.state is None:
        return unknown(patient.state_error or "no pass has run and none can be made here")
    found = patient.state.owner
    agent = "" if patient.agent is None else f"; the agent's EnableTopology is {patient.agent.enable_topology}"
    if found.writes:
        return ok(f"ours (mode {patient.settings.mode}){agent}{f': {found.reason}' if found.reason else ''}")
    return warn(f"{found.owner}: {found.reason}{agent}", "see mode and `merge --adopt`")


def coverage(patient: Patient) -> Verdict:
    configuration = _in_force(patient)
    if configuration is None or patient.state is None:
        return unknown("it is not known what is in force")
    bare: list[str] = []
    for partition in patient.state.inventory.partitions.values():
        topology = configuration.of_partition(partition.name)
        if topology is None:
            return bad(f"partition {partition.name} names a topology that is not loaded", _DIFF)
        if topology.kind != "flat":
            held = set(topology.body.nodes())
            bare += [f"{node} ({partition.name})" for node in partition.nodes if node not in held]
    if bare:
        return bad(f"{len(bare)} nodes are in no switch or block of their partition's topology: {some(bare)}", _DIFF)
    return ok("every node of every partition is in its topology")


def placed(patient: Patient) -> Verdict:
    if patient.state is None:
        return unknown(patient.state_error or "no pass has run")
    lost = {n: why for p in patient.state.decision.placements.values() for n, why in p.unplaced.items()}
    if lost:
        names = sorted(lost)
        have = "1 node has" if len(names) == 1 else f"{len(names)} nodes have"
        return warn(f"{have} no known position: {some(names)} ({lost[names[0]]})", "`explain NODE`")
    return ok("every node that needs one has a position")


def fits_together(patient: Patient) -> Verdict:
    if patient.state is None:
        return unknown(patient.state_error or "no pass has run")
    issues = patient.state.inventory.issues
    if issues:
        return warn(some([str(i) for i in issues], 3), "see that slurm.conf and resource_config.json agree")
    return ok("nodes of slurm.conf and instances fit together")


def drift(patient: Patient) -> Verdict:
    state = patient.state
    if state is None or state.in_force is None:
        return unknown("it is not known what is in force")
    found = compare(state)
    if not found.pending:
        return ok("in force is what is desired")
    parts = [f"{len(found.partitions)} partitions", f"{len(found.nodes)} nodes", *found.other[:2]]
    words = ", ".join(part for part in parts if not part.startswith("0 "))
    return warn(f"what is in force differs from what is desired: {words}", state.owner.pending)


def switches(patient: Patient) -> Verdict:
    configuration = _in_force(patient) or (patient.state.desired if patient.state else None)
    if configuration is None:
        return unknown("no topology is known")
    counts = {t.name: len(t.body.switches) for t in configuration.topologies if isinstance(t.body, Tree)}
    if not counts:
        return ok("no tree")
    words = ", ".join(f"{name} has {count}" for name, count in counts.items())
    most = max(counts.values())
    if most > MOST_SWITCHES:
        return bad(f"{words}: slurmctld stands still at each reconfigure", "fewer layers or larger leaves")
    if most > WARN_SWITCHES:
        costs = f"each reconfigure costs slurmctld about {reconfigure_seconds(most):.1f} s"
        return warn(f"{words}: {costs}", "it grows with their cube")
    return ok(f"{words} switches; slurmctld's cost grows with their cube, from {WARN_SWITCHES} on it is felt")


def refused_sizes(patient: Patient) -> Verdict:
    configuration = _in_force(patient) or (patient.state.desired if patient.state else None)
    if configuration is None or patient.state is None:
        return unknown("no topology is known")
    found = {
        p.name: ranges
        for p in patient.state.inventory.partitions.values()
        if (ranges := refused(configuration, p.name, p.nodes, patient.state.topo_optional))
    }
    if found:
        words = "; ".join(f"{name} cannot run {told(ranges)}" for name, ranges in found.items())
        return warn(f"{words} nodes", "`explain PARTITION`; block_sizes or spares_per_ultraserver change it")
    return ok("no partition refuses a job size that flat could run")


def short_blocks(patient: Patient) -> Verdict:
    configuration = _in_force(patient)
    if configuration is None:
        return unknown("it is not known what is in force")
    short = [
        f"{b.name} ({len(b.nodes)} of {t.body.sizes[0]})"
        for t in configuration.topologies
        if isinstance(t.body, Blocks)
        for b in t.body.blocks
        if 0 < len(b.nodes) < t.body.sizes[0] and not b.name.startswith("unplaced")
    ]
    if short:
        return warn(
            f"{len(short)} blocks have fewer nodes than the base size: {some(short)}", "nodes missing or replaced?"
        )
    return ok("every block is full")


def held_jobs(patient: Patient) -> Verdict:
    if patient.live is None or not patient.live.jobs_known:
        return unknown("squeue gives no answer")
    ours = patient.state.held if patient.state else ()
    held = [j for j in patient.live.pending if j.reason == "BadConstraints" and j.priority == 0]
    if held:
        names = some([f"{j.label}{' (ours)' if j.id in ours else ''}" for j in held])
        return warn(f"Slurm holds {len(held)} jobs that it once found never runnable: {names}", "`explain job:ID`")
    return ok("Slurm holds no job for its topology")


def cluster_default(patient: Patient) -> Verdict:
    state = patient.state
    if state is None:
        return unknown(patient.state_error or "no pass has run")
    wanted = state.desired.default
    told_why = f"{wanted.name}: {state.decision.default_rule}" if state.decision.default_rule else wanted.name
    now = _in_force(patient)
    if now is not None and now.default.name != wanted.name:
        return warn(f"in force is {now.default.name}, desired {told_why}", _DIFF)
    return ok(told_why)


def last_pass(patient: Patient) -> Verdict:
    state = patient.written
    if state is None:
        return warn("no state.json: no pass has ended here yet", "`hyperpod-topology merge`")
    if state.last.result == "failed":
        return bad(f"failed ({state.last.code or 'no code'}): {state.last.error}", _next(patient, state.last.next_try))
    age = max(0.0, patient.now - state.last.time)
    words = f"{state.last.result}, {_age(age)} ago"
    if state.last.result == "pending":
        return warn(f"{words}: {state.last.error}", "it is made when what it waits for is over")
    if patient.services.watch == "active" and age > 3600:
        return warn(f"{words}, although watch is active", "journalctl -u hyperpod-topology-watch")
    return ok(words)


def hold(patient: Patient) -> Verdict:
    if patient.state is None:
        return unknown("no pass has run")
    if patient.state.hold:
        return warn(holding.told(patient.state.hold_note), "`hyperpod-topology resume` ends it")
    return ok("passes act")


def reverts(patient: Patient) -> Verdict:
    if patient.written is None:
        return unknown("no pass has run")
    count = patient.written.counters.agent_reverts
    if count:
        what = f"others took our words or files back {count} times since the beginning"
        return warn(what, "mode, or EnableTopology in cluster_agent.json, decides who owns the topology")
    return ok("nobody took our words or files back")


def way_back(patient: Patient) -> Verdict:
    if patient.state_dir_error and not patient.root_user:
        return unknown(
            f"only root can tell: {patient.settings.state_dir}: {patient.state_dir_error}", "run it with sudo"
        )
    if patient.state_dir_error:
        return bad(f"{patient.settings.state_dir} cannot be used: {patient.state_dir_error}", "guard needs it")
    if patient.good_generation is None:
        return warn(
            "no generation is kept on this machine yet: guard could only go back to flat", "a first `merge` makes one"
        )
    return ok(f"generation {patient.good_generation} is kept on this machine: guard goes back to it")


def unpublished(patient: Patient) -> Verdict:
    if not patient.unpublished:
        return unknown("nothing of it can be seen from here")
    return ok("; ".join(f"{question}: {answer}" for question, answer in patient.unpublished))


def _in_force(patient: Patient) -> Configuration | None:
    found = patient.state.in_force if patient.state else None
    return found if found is not None and found.topologies else None


def _age(seconds: float) -> str:
    for unit, length in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} seconds"


def _next(patient: Patient, next_try: float | None) -> str:
    if next_try is None:
        return "the former topology stays in force; `merge` tries again"
    return f"the former topology stays in force; the next try is in {_age(max(0.0, next_try - patient.now))}"


CHECKS = (
    Examination("owner", "whose the topology is", owner),
    Examination("fits-together", "nodes and instances fit together", fits_together, "controller"),
    Examination("coverage", "every node is in its partition's topology", coverage),
    Examination("placed", "every node has a position", placed),
    Examination("drift", "in force is what is desired", drift),
    Examination("cluster-default", "the cluster default", cluster_default),
    Examination("switches", "switches and their cost", switches),
    Examination("short-blocks", "blocks are full", short_blocks),
    Examination("refused-sizes", "job sizes that cannot run", refused_sizes),
    Examination("held-jobs", "jobs that Slurm holds for its topology", held_jobs),
    Examination("last-pass", "how the last pass ended", last_pass),
    Examination("hold", "passes act", hold),
    Examination("reverts", "nobody undoes our changes", reverts),
    Examination("way-back", "guard has a generation to go back to", way_back, "controller"),
    Examination("unpublished", "how what nobody has published looks here", unpublished),
)
