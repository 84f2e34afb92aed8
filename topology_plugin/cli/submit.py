"""`submit`: sbatch with a required or preferred level of the network."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from topology_plugin.cli.job_view import JobView
from topology_plugin.cli.main import Door
from topology_plugin.cli.talk import say
from topology_plugin.core.issues import InputError, Issue, PassError
from topology_plugin.core.live import Job
from topology_plugin.jobs import levels, submission
from topology_plugin.jobs.sbatch_line import SbatchLine
from topology_plugin.jobs.submission import Plan, Remark, Wish


@click.command(context_settings={"ignore_unknown_options": True})
@click.option("--required", metavar="LEVEL", help="One domain of this level, or the job waits.")
@click.option("--preferred", metavar="LEVEL", help="This level if it can be had soon, then wider; it never starves.")
@click.option(
    "--patience",
    "wait",
    type=click.IntRange(min=1),
    metavar="SECONDS",
    help="For --preferred: how long. Default: the cluster's max_switch_wait.",
)
@click.option("--again", metavar="JOB", help="Choose the domain of a required job anew, while it still waits.")
@click.option("--dry-run", is_flag=True, help="Only print what would be passed to sbatch.")
@click.option("--from", "given", metavar="FILE", help="A state.json to take positions from.")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="-- SBATCH ARGUMENTS…")
@click.pass_obj
def submit(
    door: Door, required: str | None, preferred: str | None, wait: int | None, again: str | None, dry_run: bool,
    given: str | None, arguments: tuple[str, ...],
) -> int:  # fmt: skip
    """sbatch with a level of the network. LEVEL: topology.k8s.aws/network-node-layer-1 … -4, or
    topology.k8s.aws/ultraserver-id; short: layer-1 …, leaf, ultraserver.

    \b
    Examples:
      hyperpod-topology submit --required leaf -- -p train -N8 train.sh
      hyperpod-topology submit --preferred layer-2 -- -p train -N16 train.sh
      hyperpod-topology submit --again 4711
    """
    view = JobView(door.wiring(), given)
    if required and preferred:
        raise InputError(Issue("submit", "--required and --preferred exclude each other", "choose one"))
    if again is not None:
        if preferred or arguments:
            raise InputError(Issue("submit --again", "takes a job and at most --required", "submit --again 4711"))
        return _again(view, again, required, dry_run)
    if not arguments:
        raise InputError(Issue("submit", "nothing to submit", "put sbatch's arguments after --"))
    script = _Script()
    plan, options = _plan(view, required, preferred, wait, arguments, script)
    line = plan.with_options(options)
    if dry_run:
        click.echo("sbatch " + shlex.join(line))
        return 0
    say("sbatch " + shlex.join(line))
    answer = view.wiring.slurm.run("sbatch", *line, timeout=24 * 3600, stdin=script.piped)
    if answer.code is None:
        raise PassError(answer.words)
    click.echo(answer.out, nl=False)
    click.echo(answer.error, nl=False, err=True)
    return answer.code


class _Script:
    """The script's text, for its directives; what came through a pipe goes on to sbatch."""

    piped: str | None = None

    def read(self, path: str) -> str:
        if path != "-":
            return Path(path).read_text()
        if sys.stdin is None or sys.stdin.isatty():
            return ""  # sbatch itself says that there is no script
        try:
            self.piped = sys.stdin.read()
        except UnicodeDecodeError:
            raise InputError(
                Issue("standard input", "the script is not UTF-8", "give it to sbatch as a file")
            ) from None
        return self.piped


def _plan(
    view: JobView,
    required: str | None,
    preferred: str | None,
    wait: int | None,
    arguments: Sequence[str],
    script: _Script,
) -> tuple[SbatchLine, list[str]]:
    """The user's line, and what goes into it."""
    line = SbatchLine.parse(arguments, script.read, view.wiring.places.environment)
    word = required or preferred
    if word is None:
        return line, []
    if "," in (line.partition or ""):
        raise InputError(Issue("sbatch -p", "several partitions have no common level", "name one"))
    if "clusters" in line.options:
        raise InputError(Issue("sbatch -M", "only the own cluster's network is known", "leave it out"))
    partition = view.chosen(line.partition)
    network, topology = view.network(partition), view.topology(partition)
    level = levels.parse(word, network, partition)
    size = line.nodes()
    if size is None:
        raise InputError(Issue("sbatch", "does not say how many nodes", "say it: -N 16"))
    wish = Wish(size[0], size[1], line.named, line.excluded, "segment" in line.options)
    if preferred:
        seconds = view.max_switch_wait if wait is None else wait
        made = submission.preferred(level, wish, network, topology, view.live, seconds, view.max_switch_wait)
    else:
        made = submission.required(level, wish, network, topology, view.live, partition)
        if made.domain is not None and "array" in line.options:
            say("all tasks of the array wait for one and the same domain; submit them one by one to spread them")
    for note in made.notes:
        say(note)
    options = list(made.options)
    if line.partition is None:
        options.insert(0, f"--partition={partition}")  # a job_submit plugin could send it to another network
    if made.domain is not None and "comment" not in line.options:
        options.append(f"--comment={Remark(level.name, wish.excluded)}")
    return line, options


def _again(view: JobView, label: str, required: str | None, dry_run: bool) -> int:
    row, comment = _waiting(view, label)
    remark = Remark.parse(comment)
    word = required or (remark.level if remark else None)
    if word is None:
        raise InputError(
            Issue(f"job {label}", "does not say which level it requires", f"submit --again {label} --required LEVEL")
        )
    partition = view.chosen(row.partition)
    network, topology = view.network(partition), view.topology(partition)
    level = levels.parse(word, network, partition)
    excluded = remark.excluded if remark else ()
    wish = Wish(max(1, row.nodes_wanted), max(1, row.nodes_wanted), row.required, excluded, row.segment > 0)
    plan = submission.required(level, wish, network, topology, view.live, partition)
    for note in plan.notes:
        say(note)
    if plan.domain is None:
        click.echo(f"job {label} needs no fixed domain; what it excludes stays")
        return 0
    if set(plan.excluded) == set(row.excluded):
        click.echo(f"job {label} stays in {levels.short(plan.domain)}: it still fits best")
        return 0
    return _exclude(view, label, plan, dry_run)


def _exclude(view: JobView, label: str, plan: Plan, dry_run: bool) -> int:
    listed = next((option.partition("=")[2] for option in plan.options), "")
    command = ["update", f"JobId={label}", f"ExcNodeList={listed}"]
    if dry_run:
        click.echo("scontrol " + shlex.join(command))
        return 0
    say("scontrol " + shlex.join(command))
    answer = view.wiring.slurm.run("scontrol", *command)
    if not answer.ok:
        raise PassError(f"job {label} keeps its domain: {answer.words}")
    click.echo(f"job {label} now waits for {levels.short(plan.domain or '')}")
    return 0


def _waiting(view: JobView, label: str) -> tuple[Job, str]:
    from topology_plugin.core.live import Live

    rows = view.wiring.slurm.jobs()
    if rows is None:
        raise PassError(f"job {label}: {view.silence}")
    for row, raw in ((Live.parse((), [raw]).jobs[0], raw) for raw in rows):
        if label in (row.label, str(row.id)):
            if not row.pending:
                raise InputError(Issue(f"job {label}", f"is {row.state}", "only a job that waits can choose again"))
            return row, str(raw.get("comment") or "")
    raise InputError(Issue(f"job {label}", "is not in squeue", "name a job that waits"))
