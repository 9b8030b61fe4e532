"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_FILE = click.Path(dir_okay=False, path_type=Path)
_POLICIES = click.argument("policies", metavar="POLICY.py...", nargs=-1)
config_option = click.option(
    "--config", "-c", type=_FILE, metavar="FILE", help="Configuration instead of policy files."
)
_CLUSTER = [
    click.option("--kubeconfig", type=_FILE, metavar="FILE", help="Take nodes and pods from this cluster."),
    click.option("--context", metavar="NAME", help="Context in the kubeconfig."),
    click.option("--in-cluster", is_flag=True, default=None, help="Take them from the cluster we run in."),
    click.option(
        "--snapshot",
        type=_FILE,
        metavar="FILE",
        help="Take them from a file: kubectl get nodes,pods -A -o json > FILE",
    ),
]


def policy_options(function: F) -> F:
    """Policy files, or a configuration."""
    return _POLICIES(config_option(function))


def cluster_options(function: F) -> F:
    """Where nodes and pods come from."""
    for option in reversed(_CLUSTER):
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
