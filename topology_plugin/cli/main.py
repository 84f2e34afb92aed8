"""The command line: one command a module, loaded only when it is called."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from topology_plugin import __version__
from topology_plugin.cli.endings import EXIT_INTERRUPTED, EXIT_USAGE, exit_code
from topology_plugin.cli.hook import ROOT
from topology_plugin.core.settings import NAMES

if TYPE_CHECKING:
    from topology_plugin.app.wiring import Wiring

FLAGS = "topology_plugin.flags"

# name → (module, attribute, one line for --help without importing the module)
COMMANDS: dict[str, tuple[str, str, str]] = {
    "register": (
        "register",
        "register",
        "Register this node: say what it is and where it lies (the provisioning hook).",
    ),
    "merge": ("merge", "merge", "One pass on the controller: everything known into one configuration in force."),
    "watch": ("watch", "watch", "Passes for ever, settled (the controller's service)."),
    "guard": ("guard", "guard", "Make what is on disk startable, or leave it alone (before slurmctld starts)."),
    "show": ("show", "show", "Show the topology."),
    "diff": ("diff", "diff", "What a pass would change, in words."),
    "explain": ("explain", "explain", "Why a node, a partition or a job is as it is."),
    "doctor": ("doctor", "doctor", "Check everything this rests on; say what is wrong and what to do."),
    "history": ("generations", "history", "The generations that were put in force."),
    "rollback": ("generations", "rollback", "Put an earlier generation in force and hold."),
    "hold": ("generations", "hold", "Passes only add joiners as unplaced until `resume`."),
    "resume": ("generations", "resume", "End a hold or a stand-back; the next pass acts again."),
    "prune": ("prune", "prune", "Remove records of instances that are gone."),
    "placement": ("placement", "placement", "Where jobs lie and how near their nodes are."),
    "advise": ("advise", "advise", "What to ask Slurm for, and what it costs."),
    "submit": ("submit", "submit", "sbatch with a required or preferred topology level."),
    "ranks": ("ranks", "ranks", "A hostfile with near nodes next to each other."),
    "simulate": ("simulate", "simulate", "Play a job trace on a slurmctld of its own under several policies."),
    "demo": ("demo", "demo", "A whole simulated cluster in a temporary directory."),
    "uninstall": ("uninstall", "uninstall", "Take our words and files out of Slurm's configuration."),
}


class LazyGroup(click.Group):
    """Imports a command's module only when the command runs: `register` must start fast at boot."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        if name not in COMMANDS:
            return None
        module, attribute, _ = COMMANDS[name]
        command: click.Command = getattr(importlib.import_module(f"topology_plugin.cli.{module}"), attribute)
        own = {flag for parameter in command.params for flag in parameter.opts}
        command.params.extend(p for p in _shared_options() if own.isdisjoint(p.opts))
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, _, line) in COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            import difflib

            near = difflib.get_close_matches(args[0], COMMANDS, 1) if args else []
            raise click.UsageError(error.message + (f" Did you mean {near[0]}?" if near else ""), ctx) from None


def _remember(ctx: click.Context, parameter: click.Parameter, value: Any) -> None:
    if value is None or value == () or value is False:
        return
    flags: dict[str, Any] = ctx.find_root().meta.setdefault(FLAGS, {})
    if parameter.name != "set":
        # The variable is seen twice, for the group and for its command: it never replaces a flag before the command.
        from_variable = ctx.get_parameter_source(str(parameter.name)) is click.core.ParameterSource.ENVIRONMENT
        if not (from_variable and parameter.name in flags):
            flags[str(parameter.name)] = value
        return
    for pair in value:
        name, separator, text = pair.partition("=")
        if not separator:
            raise click.BadParameter(f"{pair!r} is not NAME=VALUE", ctx, parameter)
        flags[name.strip()] = text


def _shared_options() -> list[click.Parameter]:
    """Options that stand before or after the command's name; every setting is one."""

    def option(*names: str, **more: Any) -> click.Option:
        return click.Option(names, expose_value=False, callback=_remember, **more)

    shown = {
        "registry": ("DIR", "The directory of records and generations on the shared filesystem."),
        "slurm_conf": ("FILE", "slurm.conf, if not SLURM_CONF or /opt/slurm/etc/slurm.conf."),
        "slurm_bin": ("DIR", "Where Slurm's commands are, if not on PATH or in /opt/slurm/bin."),
    }
    settings = [
        option(
            "--" + name.replace("_", "-"),
            metavar=shown.get(name, ("VALUE", ""))[0],
            help=shown.get(name, ("", None))[1],
            hidden=name not in shown,
        )
        for name in NAMES
    ]
    return [
        option(
            "--root",
            metavar="DIR",
            envvar=ROOT,
            help="Stands for / : prefixes every absolute path except one given by flag or variable.",
        ),
        option("--set", metavar="NAME=VALUE", multiple=True, help="A setting (also: --<setting> VALUE)."),
        *settings,
        option("-v", "--verbose", count=True, default=None, help="Say more: reasons, every step, all notes."),
    ]


class Door:
    """What every command gets: flags and how much to say; settings and adapters come on demand."""

    def __init__(self, ctx: click.Context) -> None:
        self._ctx = ctx.find_root()

    @property
    def flags(self) -> dict[str, Any]:
        return dict(self._ctx.meta.get(FLAGS, {}))

    @property
    def root(self) -> str | None:
        return self.flags.get("root")

    @property
    def verbose(self) -> int:
        return int(self.flags.get("verbose") or 0)

    def wiring(self) -> Wiring:
        """The real adapters for these flags."""
        from topology_plugin.app.wiring import Wiring

        settings = {name: value for name, value in self.flags.items() if name not in ("root", "verbose")}
        wiring = Wiring.of(self.root, settings, os.environ)
        if wiring.settings.metrics_file is None:
            return wiring
        from topology_plugin.cli.metrics_file import writing_metrics

        return writing_metrics(wiring)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="hyperpod-topology")
@click.pass_context
def cli(ctx: click.Context, /) -> None:
    """The right network topology per Slurm partition on SageMaker HyperPod.

    \b
    On every node, at boot:   hyperpod-topology register
    On the controller:        hyperpod-topology merge --dry-run
                              hyperpod-topology merge
    Anywhere:                 hyperpod-topology show
                              hyperpod-topology explain NODE

    Exit codes: 0 done or nothing to do; 1 failed, the former state is kept; 2 usage or unusable input;
    3 changes pending (merge --dry-run, diff); 4 doctor found something wrong.
    """
    ctx.obj = Door(ctx)


cli.params[:0] = _shared_options()


def main(arguments: Sequence[str] | None = None) -> None:
    """Run and exit with the documented codes."""
    sys.exit(exit_code(lambda: _run(arguments)))


def _run(arguments: Sequence[str] | None) -> object:
    try:
        return cli.main(args=arguments, prog_name="hyperpod-topology", standalone_mode=False)
    except click.exceptions.Abort:
        return EXIT_INTERRUPTED
    except click.ClickException as error:
        error.show()
        return EXIT_USAGE
