"""What the job commands stand on: partitions with their networks, from the last pass or else from Slurm alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from topology_plugin.core.issues import InputError, Issue
from topology_plugin.core.topology import Configuration, Topology
from topology_plugin.jobs.submission import MAX_SWITCH_WAIT

if TYPE_CHECKING:
    from topology_plugin.adapters.slurm import Slurm
    from topology_plugin.app.wiring import Wiring
    from topology_plugin.core.live import Live
    from topology_plugin.core.state import State
    from topology_plugin.jobs.distance import Network


class JobView:
    """Partitions, their topologies and networks, node states and jobs. `given`: a state.json to read instead."""

    def __init__(self, wiring: Wiring, given: str | None = None) -> None:
        self.wiring, self._given = wiring, given
        self._networks: dict[str, Network] = {}

    @cached_property
    def _seen(self) -> Any:
        from topology_plugin.app.observe_state import see

        try:
            return see(self.wiring, self._given)
        except InputError as error:
            if self._given is not None or self._loaded is None:
                raise
            from topology_plugin.cli.talk import say

            say(f"only Slurm itself can be asked ({error.issues[0]}): layers have no numbers")
            return None

    @property
    def _slurm(self) -> Slurm | None:
        """None: its commands are not here."""
        return self.wiring.slurm if self.wiring.places.slurm_bin else None

    @property
    def state(self) -> State | None:
        found: State | None = self._seen.state if self._seen else None
        return found

    @cached_property
    def live(self) -> Live | None:
        """Node states and jobs of this moment: a given file tells positions, not who runs where."""
        from topology_plugin.app.observe_state import load_live

        told: Live | None = self._seen.live if self._seen else None
        return told if told is not None else load_live(self.wiring, self._seen)

    @property
    def silence(self) -> str:
        """Why jobs are not known, where `live` does not tell them."""
        if self._slurm is None:
            return "Slurm's commands are not here (--slurm-bin), so jobs are not known"
        return "slurmctld does not answer, so jobs and their nodes are not known"

    @cached_property
    def _loaded(self) -> Configuration | None:
        """What slurmctld has loaded, by its own words (25.05+); None: it gives no answer."""
        text = self._slurm.topoconf() if self._slurm else None
        words = self._slurm.partitions() if self._slurm and text is not None else None
        if text is None or words is None:
            return None
        from topology_plugin.core.topology_yaml import parse

        try:
            found = parse(text, where="scontrol show topoconf")
        except InputError:  # kinds that we have no model for (ring, torus3d)
            return None
        return Configuration(found.topologies, words)

    @cached_property
    def _rows(self) -> Mapping[str, Mapping[str, str]]:
        """`scontrol show partitions` by partition: key → value."""
        answer = self._slurm.run("scontrol", "show", "partitions", "--oneliner") if self._slurm else None
        rows = {}
        for line in answer.out.splitlines() if answer and answer.ok else ():
            row = dict(pair.split("=", 1) for pair in line.split() if "=" in pair)
            if "PartitionName" in row:
                rows[row["PartitionName"]] = row
        return rows

    @property
    def partitions(self) -> tuple[str, ...]:
        return tuple(self.state.inventory.partitions) if self.state else tuple(self._rows)

    def default_partition(self) -> str | None:
        return next((name for name, row in self._rows.items() if row.get("Default") == "YES"), None)

    def chosen(self, partition: str | None) -> str:
        """The named partition, else the cluster's default, else the only one. Raises InputError."""
        known = ", ".join(self.partitions) or "none"
        name = partition or self.default_partition() or (self.partitions[0] if len(self.partitions) == 1 else None)
        if name is None:
            raise InputError(Issue("partition", "none is named", f"choose one with -p: {known}"))
        if name not in self.partitions:
            raise InputError(Issue("partition", f"there is no {name!r}", f"known are {known}"))
        return name

    def named(self, nodelist: str, partition: str) -> tuple[str, ...]:
        """Nodes that somebody names instead of a job. Raises InputError for what is no node of the partition."""
        from topology_plugin.core.hostlists import expand, fold

        nodes = tuple(dict.fromkeys(expand(nodelist)))
        if not nodes:
            raise InputError(Issue("--nodes", "names no node", "--nodes ip-10-1-1-[11-18]"))
        members = self.network(partition).members
        strange = [node for node in nodes if node not in members]
        if strange:
            what = f"{fold(strange)}: not in partition {partition}"
            raise InputError(Issue("--nodes", what, f"`show {partition} -o table` lists its nodes; -p names another"))
        return nodes

    def topology(self, partition: str) -> Topology | None:
        if self.state is not None:
            return (self.state.in_force or self.state.desired).of_partition(partition)
        return self._loaded.of_partition(partition) if self._loaded else None

    @property
    def configuration(self) -> Configuration | None:
        return (self.state.in_force or self.state.desired) if self.state is not None else self._loaded

    def network(self, partition: str) -> Network:
        if partition not in self._networks:
            self._networks[partition] = self._network(partition)
        return self._networks[partition]

    def _network(self, partition: str) -> Network:
        from topology_plugin.core.hostlists import expand
        from topology_plugin.jobs import distance

        if self.state is not None:
            return distance.of_state(self.state, partition)
        topology = self.topology(partition)
        nodes = expand(self._rows[partition].get("Nodes", "").replace("(null)", ""))
        return distance.of_topology(topology, nodes) if topology else distance.Network(tuple(nodes))

    @cached_property
    def _parameters(self) -> Mapping[str, str]:
        return (self._slurm.config() if self._slurm else None) or {}

    def parameter(self, name: str) -> str:
        """A line of `scontrol show config`; "" where Slurm gives no answer."""
        return self._parameters.get(name, "")

    @property
    def topo_optional(self) -> bool:
        """A tree refuses only jobs with `--switches`."""
        from topology_plugin.core.job_sizes import topo_optional

        return self.state.topo_optional if self.state is not None else topo_optional(self.parameter("TopologyParam"))

    @property
    def max_switch_wait(self) -> int:
        """Seconds that Slurm waits for `--switches` at most."""
        for word in self.parameter("SchedulerParameters").split(","):
            name, _, value = word.strip().partition("=")
            if name == "max_switch_wait" and value.isdigit():
                return int(value)
        return MAX_SWITCH_WAIT
