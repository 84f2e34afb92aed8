"""`simulate`: a job trace on a slurmctld of its own, under several policies."""

from __future__ import annotations

import math
import time
from typing import Any

import click

from topology_plugin.adapters import given_file
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say
from topology_plugin.cli.terminal import put_json, put_text
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.jobs import outcome, traces
from topology_plugin.jobs.columns import columns
from topology_plugin.jobs.contest import contest, end_cleanly_on_sigterm
from topology_plugin.jobs.outcome import Outcome
from topology_plugin.jobs.play import Play
from topology_plugin.jobs.policies import Place, place_of, policies


class _Number(click.FloatRange):
    """Without `nan`, which is in every range."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        found: float = super().convert(value, param, ctx)
        return self.fail(f"{value!r} is no number.", param, ctx) if math.isnan(found) else found


@click.command()
@click.argument("trace", required=False)
@click.option("--cluster", default="p5:256x16", show_default=True, metavar="p5:NxLEAF|gb200:NxSIZE", help="The nodes.")
@click.option("--policy", "names", multiple=True, metavar="NAME", help="flat, ours, block-17, block-9,18 …; several.")
@click.option(
    "--synthetic", metavar="MIX", help=f"Instead of TRACE: {', '.join(traces.PUBLISHED)} (published moments)."
)
@click.option(
    "--jobs", "count", type=click.IntRange(min=1), default=300, show_default=True, help="Jobs of --synthetic."
)
@click.option("--load", type=_Number(0.05, 5), default=0.9, show_default=True, help="Offered load of --synthetic.")
@click.option("--occupancy", type=_Number(0.05, 1), help="Keep the cluster this full instead of the arrivals.")
@click.option(
    "--losses", type=_Number(0, 100_000), default=0.0, show_default=True, help="Lost nodes per 1,000 node-days."
)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--write", "target", metavar="FILE", help="Only write the trace, as JSON lines (also converts sacct's).")
@click.option("-o", "--output", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
@click.pass_obj
def simulate(
    door: Door, trace: str | None, cluster: str, names: tuple[str, ...], synthetic: str | None, count: int, load: float,
    occupancy: float | None, losses: float, seed: int, target: str | None, form: str,
) -> None:  # fmt: skip
    """Play TRACE (JSON lines, or sacct's output; - is stdin) in compressed time on slurmctlds of its own, CLOUD nodes,
    under several policies. Nothing of the real cluster is touched.

    \b
    Examples:
      hyperpod-topology simulate --synthetic kalos --occupancy 0.85
      sacct -X -a -S 2026-11-01 --parsable2 -o JobIDRaw,Submit,NNodes,ElapsedRaw,TimelimitRaw > november
      hyperpod-topology simulate november --cluster gb200:72 --policy block-18 --policy block-17
    """
    place = place_of(cluster, seed)
    jobs = _trace(trace, synthetic, count, load, place, seed)
    if target is not None:
        put_text(traces.dump(jobs), target)
        say(f"{len(jobs)} jobs written{f' to {target}' if target != '-' else ''}")
        return
    most = len(place.nodes)
    kept = [job for job in jobs if job.nodes <= most]
    if len(kept) < len(jobs):
        say(f"{len(jobs) - len(kept)} jobs are larger than the cluster ({most} nodes) and left out")
    chosen = policies(names or ("flat", "ours"))
    play = Play(seed=seed, occupancy=occupancy, losses=losses)
    end_cleanly_on_sigterm()
    say(f"{len(kept)} jobs on {cluster} under {', '.join(one.name for one in chosen)}")
    found = contest(place, chosen, kept, play, door.wiring().places.slurm_bin, _Progress())
    if form == "json":
        put_json({"cluster": cluster, "seed": seed, "jobs": len(kept), "outcomes": [one.to_json() for one in found]})
    else:
        click.echo(told(found, bool(place.network(chosen[0].configuration(place)).blocks)), nl=False)


def told(found: list[Outcome], blocks: bool) -> str:
    """The tables for people."""
    lines = [columns(outcome.HEAD, outcome.rows(found))]
    head, cells = outcome.size_rows(found, blocks)
    if len(head) > 1:
        what = "UltraServers" if blocks else "leaves"
        lines += [f"\n{what} over the fewest possible, by size of the job\n", columns(head, cells)]
    for one in found:
        for nodes, words in one.never:
            lines.append(f"{one.policy}: {nodes} nodes refused: {words}\n")
    return "".join(lines)


def _trace(
    trace: str | None, synthetic: str | None, count: int, load: float, place: Place, seed: int
) -> tuple[traces.TraceJob, ...]:
    if (trace is None) == (synthetic is None):
        raise InputError(Issue("simulate", "needs a trace or --synthetic, one of them", "simulate --synthetic kalos"))
    nodes = len(place.nodes)
    if synthetic is not None:
        gpus = 4 if "gb200" in place.instance_type else traces.GPUS_A_NODE
        mix = traces.Mix.published(synthetic, max(1, nodes // 4), gpus)
        return traces.synthetic(mix, count, nodes, load, seed)
    where = given_file.shown(trace or "")
    try:
        text = given_file.read(trace or "").decode("utf-8-sig")
    except UnicodeDecodeError:
        what = "is not text"
        raise InputError(Issue(where, what, "give JSON lines, or what sacct --parsable2 prints")) from None
    first = text.lstrip().partition("\n")[0]
    if "|" in first or '"jobs"' in text[:2000] or first.strip() == "{":
        return traces.from_sacct(text, where)
    return traces.load(text, where)


class _Progress:
    """A line every ten seconds for each policy."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}

    def __call__(self, policy: str, now: float, starts: int, jobs: int) -> None:
        moment = time.monotonic()
        if moment - self._last.setdefault(policy, moment) >= 10:
            self._last[policy] = moment
            say(f"{policy}: {starts} starts of {jobs} jobs, {outcome.span(now)} of the trace")
