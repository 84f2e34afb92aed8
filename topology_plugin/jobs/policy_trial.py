"""Whether this machine's Slurm can load the policy plugin: tried on a throw-away slurmctld, never on the live one."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path

from topology_plugin.adapters.private_slurmctld import PrivateSlurmctld, SlurmctldDied
from topology_plugin.jobs import policy
from topology_plugin.jobs.programs import gathered

_FLAT = "- topology: flat\n  cluster_default: true\n  flat: true\n"


@dataclass(frozen=True)
class Trial:
    """`loads`: slurmctld starts with JobSubmitPlugins=lua and our script; `words`: what it says if not, or what it says
    of the policy."""

    loads: bool
    words: tuple[str, ...] = ()


def trial(slurm_bin: Path | None, policy_text: str) -> Trial:
    """Raises InputError where no slurmctld is installed."""
    with tempfile.TemporaryDirectory(prefix="hyperpod-topology-policy-") as name:
        place = Path(name)
        place.chmod(0o755)
        names = ("slurmctld", "scontrol", "sbatch")
        cluster = PrivateSlurmctld(place / "cluster", gathered(slurm_bin, place, names))
        partition = "PartitionName=trial Nodes=ALL Default=YES State=UP"
        cluster.write_conf("NodeName=trial-[1-2] State=CLOUD CPUs=1", partition, extra="JobSubmitPlugins=lua")
        for file, text in ((policy.SCRIPT, policy.script()), (policy.POLICY, policy_text), ("topology.yaml", _FLAT)):
            (cluster.conf.parent / file).write_text(text)
        try:
            cluster.start()
            # A submission runs the script once, on the policy as it is.
            cluster.run("sbatch", "--test-only", "-N2", "--wrap", "true", check=False)
            said = [
                line for line in cluster.log.splitlines() if "error: lua:" in line or "error: job_submit/lua" in line
            ]
            return Trial(not said, tuple(line.partition("error: ")[2] for line in said))
        except SlurmctldDied as died:
            return Trial(False, tuple(died.words))
        finally:
            cluster.kill()  # nobody needs the state it would save
            cluster.stop()
