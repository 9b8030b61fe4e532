"""Options that several commands share."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)
_NO_RECORDING = {".py": "a policy", ".yaml": "a YAML file", ".yml": "a YAML file"}


class _Recording(click.Path):
    """A file that ``--record`` wrote. What is compared with it is easily given in its place."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        other = _NO_RECORDING.get(Path(value).suffix)
        if other:
            name = ctx.command_path if ctx else ""
            self.fail(
                f"{value} is {other}, not a recording: give the recording first, {name} RECORDING ...",
                param,
                ctx,
            )
        return super().convert(value, param, ctx)


recording_argument = click.argument(
    "file", metavar="RECORDING", type=_Recording(dir_okay=False, path_type=Path)
)
_POLICIES = click.argument("policies", metavar="POLICY.py...", nargs=-1)
config_option = click.option(
    "--config", "-c", type=_FILE, metavar="FILE", help="Configuration instead of policy files."
)
_CLUSTER = [
    click.option(
        "--kubeconfig",
        type=_FILE,
        metavar="FILE",
        help="Read nodes and pods from the cluster of this kubeconfig.",
    ),
    click.option("--context", metavar="NAME", help="Context in the kubeconfig."),
    click.option(
        "--in-cluster", is_flag=True, default=None, help="Read them from the cluster that Bayplan runs in."
    ),
    click.option(
        "--snapshot",
        type=_FILE,
        metavar="FILE",
        help="Read them from a file: kubectl get nodes,pods -A -o json > FILE",
    ),
]

_PAGE = click.option(
    "--page-listen", metavar="HOST:PORT", help="The web page with decisions, or `off`.  [127.0.0.1:8890]"
)
_FILES = [
    click.option(
        "--record",
        type=_FILE,
        metavar="FILE",
        help="Record every decision, for `bayplan replay`; FILE.gz is compressed.",
    ),
    click.option(
        "--shadow",
        type=_FILE,
        metavar="FILE",
        help="Run a candidate, FILE.yaml or FILE.py, beside the live policies, and count where it disagrees.",
    ),
    click.option(
        "--journal-file",
        type=_FILE,
        metavar="FILE",
        help="Write decisions to FILE, for `bayplan why --journal` after the server has ended.",
    ),
]

_LOGGING = [
    click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"]),
        default="info",
        show_default=True,
        help="How much to log.",
    ),
    click.option(
        "--log-format",
        type=click.Choice(["text", "json", "klog"]),
        default="text",
        show_default=True,
        help="text for people, json for one object a line, klog as kube-scheduler logs.",
    ),
]


def policy_options(function: F) -> F:
    """Policy files, or a configuration."""
    return _POLICIES(config_option(function))


def cluster_options(function: F) -> F:
    """Where nodes and pods come from."""
    return _with(_CLUSTER, function)


def live_cluster_options(function: F) -> F:
    """Which API server nodes and pods come from, where a file would not do."""
    return _with(_CLUSTER[:-1], function)


def door_options(*, ops_listen: str) -> Callable[[F], F]:
    """Where a server is looked at, and what it writes down beside its decisions."""
    ops = click.option("--ops-listen", metavar="HOST:PORT", help=f"Health and metrics.  [{ops_listen}]")
    return lambda function: _with([ops, _PAGE, *_FILES], function)


def logging_options(function: F) -> F:
    """How much is logged, and in which form."""
    return _with(_LOGGING, function)


def _with(options: Sequence[Callable[[F], F]], function: F) -> F:
    for option in reversed(options):
        function = option(function)
    return function


output_option = click.option(
    "--output",
    "-o",
    type=click.Choice(["table", "json"]),
    default="table",
    show_default=True,
    help="Form of the output.",
)
