"""Placement of jobs on a real slurmctld: 256 p5 under flat and ours, 72 GB200 nodes under blocks of 18, 17, 16 and 9.

    python -m benchmarks.placement [--quick] [--only p5|gb200] [--json FILE]      (make bench-placement)

Sizes and run times as published (topology_plugin/jobs/traces.py); names shuffled; every figure is what slurmctld did.
All policies of a cluster play one trace with the same lost nodes, side by side, each on a slurmctld of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from topology_plugin.cli.simulate import told
from topology_plugin.core.issues import InputError
from topology_plugin.jobs.contest import contest, end_cleanly_on_sigterm
from topology_plugin.jobs.outcome import Outcome
from topology_plugin.jobs.play import Play
from topology_plugin.jobs.policies import place_of, policies
from topology_plugin.jobs.traces import Mix, TraceJob, synthetic

ROOT = Path(__file__).parent.parent
# Node losses per 1,000 node-days: 466 interruptions in 54 days on 16,384 GPUs (Llama 3, arXiv 2407.21783) are about 4;
# raised, so that a trace of half a day sees some. Replacement takes 20 to 30 minutes on HyperPod.
LOSSES = 60.0
SEED = 7

# Who asks for powers of two (64 GPUs are 16 nodes) and who for whole UltraServers and halves of them.
POWERS = {1: 4.0, 2: 3.0, 4: 3.0, 8: 3.0, 16: 3.0, 32: 1.0}
NINES = {1: 4.0, 3: 3.0, 6: 3.0, 9: 3.0, 18: 3.0, 36: 1.0}


def say(text: str) -> None:
    print(f"bench-placement: {text}", file=sys.stderr, flush=True)


def slurm_bin() -> Path:
    """SLURM_PREFIX's, or Debian's in its cached root directory. Exits with the reason where there is none."""
    script = ROOT / "tests" / "slurm" / "slurm_root.py"
    done = subprocess.run([sys.executable, str(script)], stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        sys.exit("bench-placement needs a real Slurm (see above)")
    return Path(done.stdout.strip())


def played(
    title: str, cluster: str, names: Sequence[str], trace: Sequence[TraceJob], play: Play, programs: Path
) -> list[Outcome]:
    begun = time.monotonic()
    place = place_of(cluster, SEED)
    most = max(job.nodes for job in trace)
    say(f"{title}: {len(trace)} jobs of up to {most} nodes on {cluster} under {', '.join(names)}")
    found = contest(place, policies(names), trace, play, programs, parallel=len(names))
    print(f"\n{title}: {cluster}, {len(trace)} jobs, seed {SEED}, {time.monotonic() - begun:.0f} s\n")
    print(told(found, blocks=cluster.startswith("gb200")), flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--quick", action="store_true", help="A fifth of the jobs: a minute, for a look.")
    parser.add_argument("--only", choices=("p5", "gb200"), help="Only this cluster.")
    parser.add_argument("--json", metavar="FILE", help="Write all outcomes.")
    options = parser.parse_args()
    programs = slurm_bin()
    end_cleanly_on_sigterm()
    share = 5 if options.quick else 1
    results: dict[str, list[Outcome]] = {}
    try:
        for mix, count in (("kalos", 300), ("helios", 200)) if options.only != "gb200" else ():
            trace = synthetic(Mix.published(mix, 64), count // share, 256, 0.9, SEED)
            play = Play(seed=SEED, occupancy=0.82)
            title = f"256 p5, leaves of 16, sizes and times of {mix}"
            results[f"p5 {mix}"] = played(title, "p5:256x16", ("flat", "ours", "ours+10"), trace, play, programs)
        run_times = Mix.published("kalos", 16, gpus_a_node=4)
        sizes = (("powers of two", POWERS), ("multiples of nine", NINES))
        for name, shares in sizes if options.only != "p5" else ():
            trace = synthetic(run_times.with_sizes(shares), 150 // share, 72, 0.9, SEED)
            play = Play(seed=SEED, occupancy=0.85, losses=LOSSES)
            results[f"gb200 {name}"] = played(
                f"72 GB200 nodes, sizes in {name}, nodes get lost", "gb200:72x18",
                ("flat", "block-18", "block-17", "block-16", "block-9"), trace, play, programs,
            )  # fmt: skip
    except InputError as error:
        sys.exit(f"bench-placement: {error}")
    if options.json:
        shown = {name: [one.to_json() for one in found] for name, found in results.items()}
        Path(options.json).write_text(json.dumps(shown, indent=1) + "\n")
    if "p5 kalos" not in results:
        return 0
    tree = {one.policy: one for one in results["p5 kalos"]}
    ours, flat = tree["ours"].near.leaf_ratio or 0, tree["flat"].near.leaf_ratio or 0
    print(f"leaves over the fewest possible on 256 p5: {ours:.2f} with the tree, {flat:.2f} with flat")
    return 0 if ours < flat / 2 else 1


if __name__ == "__main__":
    sys.exit(main())
