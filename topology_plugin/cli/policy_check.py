"""`advise --policy`: can this Slurm load our job_submit.lua, and which line turns it on."""

from __future__ import annotations

from pathlib import Path

import click

from topology_plugin.cli.endings import EXIT_FAILED
from topology_plugin.cli.job_view import JobView
from topology_plugin.cli.talk import say
from topology_plugin.core.issues import InputError, Issue
from topology_plugin.jobs import policy
from topology_plugin.jobs.policy_trial import trial


def check(view: JobView, directory: str | None) -> int:
    """Nothing is turned on: the line stays the operator's to add. Exit code 1 if this Slurm cannot load it."""
    text = _policy(view)
    found = trial(view.wiring.places.slurm_bin, text)
    if not found.loads:
        click.echo("This Slurm cannot use the policy plugin:")
        for words in found.words:
            click.echo(f"  {words}")
        click.echo(
            "job_submit/lua is a plugin of its own in many packages, and needs the Lua library it was built with."
        )
        return EXIT_FAILED
    click.echo("This Slurm loads the policy plugin (tried on a slurmctld of its own).")
    conf = view.wiring.places.slurm_conf
    if directory is not None:
        _write(Path(directory), text)
    else:
        click.echo(f"To write its files beside slurm.conf: hyperpod-topology advise --policy --write {conf.parent}")
    present = view.parameter("JobSubmitPlugins")
    plugins = [name for name in present.replace("(null)", "").split(",") if name]
    if "lua" in plugins:
        click.echo("slurm.conf has JobSubmitPlugins with lua already: the files are read at the next submission.")
    else:
        click.echo(f"The line to add to {conf}, then `scontrol reconfigure`:")
        click.echo(f"  JobSubmitPlugins={','.join([*plugins, 'lua'])}")
    return 0


def _policy(view: JobView) -> str:
    nodes = (view.wiring.slurm.nodes() if view.wiring.places.slurm_bin else None) or []
    facts = {}
    for name in view.partitions:
        topology = view.topology(name)
        if topology is not None:
            same = policy.uniform(nodes, view.network(name).nodes)
            facts[name] = policy.PartitionFacts(topology.name, topology.kind, same)
            if not same and topology.kind != "flat":
                say(f"nodes of {name} differ (or Slurm gives no answer): only its plainest jobs get defaults")
    return policy.policy(facts, view.parameter("EnforcePartLimits").upper() == "ALL", view.max_switch_wait)


def _write(directory: Path, text: str) -> None:
    """The script is ours to replace, a foreign one is not; a policy that is there is the operator's and stays."""
    script = directory / policy.SCRIPT
    try:
        if script.exists() and not policy.installed_policy(script.read_text(errors="replace")):
            raise InputError(Issue(str(script), "is not ours", "call its functions from your own, or move it away"))
        script.write_text(policy.script())
        kept = directory / policy.POLICY
        if kept.exists():
            click.echo(f"wrote {script}; {kept} stays as it is")
        else:
            kept.write_text(text)
            click.echo(f"wrote {script} and {kept}")
    except OSError as error:
        raise InputError(Issue(str(directory), f"cannot be written: {error.strerror or error}")) from None
