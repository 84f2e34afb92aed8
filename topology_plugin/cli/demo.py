"""`demo`: a whole simulated cluster in a temporary directory."""

from __future__ import annotations

import secrets
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from topology_plugin.cli.interruption import cleaned_up
from topology_plugin.cli.main import Door
from topology_plugin.cli.terminal import put

if TYPE_CHECKING:
    from topology_plugin.app.demo import Demo, JobStory, Step
    from topology_plugin.jobs.placement import Placed


@click.command()
@click.option("--nodes", type=click.IntRange(8, 4096), default=64, show_default=True, help="How many p5 nodes.")
@click.option("--keep", is_flag=True, help="Keep the directory (slurmctld is stopped all the same).")
@click.pass_obj
def demo(door: Door, nodes: int, keep: bool) -> int:
    """A simulated cluster's life on a real slurmctld: boot, growth, loss, replacement, a late label, jobs.

    \b
    Before each step HyperPod's agent is played: it rewrites slurm.conf and loses our words, which each pass puts back.
    p5 nodes in leaves of 8, two p6e-gb200 UltraServers, CPU nodes, a login node and the controller, each with a root
    directory of its own; every node registers through the real hook as a process. Slurm comes from --slurm-bin or PATH;
    without one nothing is applied, and the demo says so. Nothing outside the directory is touched. Ctrl-C and SIGTERM
    end it and clean up.

    \b
    Examples:
      hyperpod-topology demo
      hyperpod-topology demo --nodes 256 --slurm-bin /opt/slurm/bin
      hyperpod-topology demo --keep         leaves files to look at
    """
    from topology_plugin.app.demo import Demo

    slurm_bin = door.wiring().places.slurm_bin
    directory = Path(tempfile.gettempdir()) / f"hyperpod-topology-demo-{secrets.token_hex(4)}"
    stage = Demo(directory, slurm_bin, nodes, _progress)

    def clean() -> None:
        stage.close()
        if keep:
            click.echo(f"\nkept: {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)

    begin = time.monotonic()
    with cleaned_up(clean):
        directory.mkdir(mode=0o700)
        click.echo(f"{len(stage.cluster.machines)} machines below {directory}")
        if slurm_bin is None:
            click.echo("No Slurm is on PATH (or given by --slurm-bin): configurations are written, NOTHING IS APPLIED.")
        for step in stage.steps():
            _tell(step)
        _show(stage)
        stories = list(stage.jobs())
        if stories:
            _tell_jobs(stories)
        else:
            click.echo("\nNo jobs were run: there is no Slurm here.")
    applied = "on a real slurmctld" if slurm_bin else "without Slurm: nothing was applied"
    click.echo(f"\n{time.monotonic() - begin:.0f} s, {applied}.")
    return 0


def _progress(done: int, total: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == total else ""
        click.echo(f"\r  {done} of {total} nodes registered", nl=False, err=True)
        click.echo(end, nl=False, err=True)


def _title(words: str) -> None:
    from topology_plugin.views.text import line

    put([line(), line((words, "title"))])


def _tell(step: Step) -> None:
    from topology_plugin.views.words import brief

    _title(step.title)
    click.echo(f"  {step.sentence}")
    if step.registered:
        hooks = "1 hook" if step.registered == 1 else f"{step.registered} hooks"
        click.echo(f"  {hooks}, each a process of its own, in {step.hooks_seconds:.1f} s")
    state = step.outcome.state
    result = state.last.result
    done = f"generation {state.generation}" if result == "applied" else result
    click.echo(f"  pass: {done} in {step.pass_seconds:.1f} s, {step.lines} lines of topology.yaml changed")
    for change in brief(step.outcome.diff):
        click.echo(f"    {change}")


def _show(stage: Demo) -> None:
    from topology_plugin.cli.reading import look
    from topology_plugin.views.scene import arrange
    from topology_plugin.views.text import tree

    _title("What is in force now (hyperpod-topology show)")
    seen, live = look(stage.wiring())
    put(tree(arrange(seen.state, live)))


def _tell_jobs(stories: list[JobStory]) -> None:
    _title("The same jobs, each in the idle cluster")
    rows = [("job", "with topology", "flat"), *((s.title, _placed(s.ours), _placed(s.flat)) for s in stories)]
    first, second = (max(len(row[column]) for row in rows) for column in (0, 1))
    for job, ours, flat in rows:
        click.echo(f"  {job:{first}}  {ours:{second}}  {flat}")


def _placed(placed: Placed | None) -> str:
    if placed is None:
        return "got no nodes"
    if not placed.spread.pairs or placed.spread.unplaced == placed.size:
        return f"{placed.size} nodes, no network data"
    units = (placed.blocks, "UltraServer", "UltraServers") if placed.least_blocks else (placed.leaves, "leaf", "leaves")
    count, one, many = units
    return f"{count} {one if count == 1 else many}, {placed.spread.mean_hops:.1f} hops on average"
