"""``bayplan``: the list of commands, and how errors reach the terminal."""

import errno
import importlib
import io
import os
import sys
from pathlib import Path
from typing import Any

import click

from bayplan import __version__
from bayplan.cli.ending import end_soon

_COMMANDS = (
    "demo",
    "init",
    "check",
    "doctor",
    "render",
    "certs",
    "serve",
    "schedule",
    "why",
    "columns",
    "state",
    "replay",
    "compare",
    "export-test",
)
# `render.py` draws tables for every command.
_FILES = {"render": "manifests", "export-test": "export_test"}
_EPILOG = """\b
Start here:
  bayplan demo                        see Bayplan work, no cluster needed
  bayplan init my-policy              write a first policy, its test, its configuration
  bayplan check --config FILE         find mistakes before kube-scheduler does
  bayplan doctor scheduler.yaml       find mistakes in kube-scheduler's configuration
  bayplan serve policy.py --kubeconfig ~/.kube/config
  bayplan render sidecar policy.py    print all manifests for a cluster, as YAML
  bayplan schedule policy.py --kubeconfig ~/.kube/config
  bayplan why pod/NAME                explain why a pod is on its node, or is Pending
"""


class _Commands(click.Group):
    """Loads a command's file when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = importlib.import_module(
            f"bayplan.cli.{_FILES.get(cmd_name, cmd_name)}"
        ).command
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        from bayplan.cli.suggestion import COMMANDS_MEANT, nearest

        if args and args[0] not in _COMMANDS and not args[0].startswith("-"):
            ctx.fail(f"no command {args[0]!r}{nearest(args[0], _COMMANDS, COMMANDS_MEANT)}")
        return super().resolve_command(ctx, args)


@click.group(cls=_Commands, epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="bayplan")
def commands() -> None:
    """Kubernetes scheduling policy, in Python.

    Write a policy in ten lines, serve it to kube-scheduler as an extender or run a scheduler of your own,
    and read why each node was refused.
    """


def main() -> None:
    """Run a command: exit 0 for yes, 1 for no, 2 for misuse."""
    # In a locale such as C there is no arrow and no dash: better a question mark than no answer at all.
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
    # kubectl runs a program called kubectl-bayplan for `kubectl bayplan`.
    plugin = Path(sys.argv[0]).stem == "kubectl-bayplan"
    try:
        commands(prog_name="kubectl bayplan" if plugin else "bayplan")
    except SystemExit as ended:
        end_soon(ended.code if isinstance(ended.code, int) else int(ended.code is not None))
        raise
    except OSError as error:
        if error.errno != errno.ENOSPC or error.filename is not None:
            raise
        what = "a file" if _takes_output() else "the output"
        # What is left in the buffer goes nowhere: else Python would complain of it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        click.echo(f"Error: {what} cannot be written: {error.strerror}", err=True)
        sys.exit(1)


def _takes_output() -> bool:
    """Whether there is room where we print to: an error of a write does not say which file it was."""
    try:
        sys.stdout.flush()
        # What did not go through is not always kept to be tried again.
        os.write(sys.stdout.fileno(), b"\n")
    except OSError:
        return False
    return True
