"""state.json: what the last pass saw, wants and did; all that reading commands need where Slurm can't be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from topology_plugin.core.decision import Decision, Memory, PartitionDecision, Placement
from topology_plugin.core.inventory import Group, Inventory, Node, Partition
from topology_plugin.core.issues import Issue
from topology_plugin.core.topology import Configuration

SCHEMA = 1


@dataclass(frozen=True)
class PassResult:
    """How a pass ended. `result`: unchanged, applied, observed, pending (`error` says for what), failed.

    `time`: seconds since the epoch on the controller; `next_try`: same, None if none is due;
    `code`: a short stable word for what failed (metrics label)."""

    result: str = "unchanged"
    error: str = ""
    code: str = ""
    time: float = 0.0
    next_try: float | None = None


@dataclass(frozen=True)
class Counters:
    """Totals since the state began; kept across passes and re-images."""

    passes: int = 0
    reconfigures: int = 0
    reconfigure_seconds: float = 0.0
    failures: Mapping[str, int] = field(default_factory=dict)
    agent_reverts: int = 0
    last_success: float | None = None
    failed_in_a_row: int = 0


@dataclass(frozen=True)
class Owner:
    """Who owns the topology here: `owner` us, agent, operator or nobody; `reason` a sentence; `writes`: may we."""

    owner: str = "us"
    reason: str = ""
    writes: bool = True

    @property
    def pending(self) -> str:
        """What to do about a change that is pending."""
        makes = "`hyperpod-topology merge` makes it" if self.writes else f"no pass makes it: {self.reason}"
        return f"`hyperpod-topology diff` shows it, {makes}"


@dataclass(frozen=True)
class State:
    """Everything a pass knows, in plain data. `in_force` None: slurmctld could not be asked and nothing was ever
    applied.

    `refused`: topology → job sizes that it can't run although flat could, as ascending inclusive ranges.
    `held`: ids of pending jobs that an apply of ours got held by Slurm. `hold`: passes only add joiners as unplaced,
    `hold_note`: since when, by which command and why. `topo_optional`: slurm.conf says TopologyParam=TopoOptional, so a
    tree refuses only jobs with `--switches`. `notes`: what an operator should know, the decision's notes among it.
    """

    cluster_arn: str | None
    version: str
    slurm_version: str | None
    generation: int | None
    last: PassResult
    owner: Owner
    inventory: Inventory
    decision: Decision
    in_force: Configuration | None
    refused: Mapping[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    held: tuple[int, ...] = ()
    hold: bool = False
    hold_note: str = ""
    adopted: bool = False
    topo_optional: bool = False
    counters: Counters = field(default_factory=Counters)
    notes: tuple[str, ...] = ()

    @property
    def of_slurm(self) -> bool:
        """Slurm stands behind it. Of a Kubernetes cluster, which no pass ever saw, nothing refuses a size of jobs."""
        return bool(self.version)

    @property
    def desired(self) -> Configuration:
        return self.decision.configuration

    @property
    def drift(self) -> bool:
        """In force differs from what the last pass wanted."""
        return self.in_force is not None and self.in_force != self.desired


__all__ = [
    "SCHEMA", "Counters", "Decision", "Group", "Inventory", "Issue", "Memory", "Node", "Owner", "Partition",
    "PartitionDecision", "PassResult", "Placement", "State",
]  # fmt: skip
