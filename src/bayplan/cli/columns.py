"""``bayplan columns``: what a policy can read of all nodes at once."""

from typing import Any

import click

from bayplan.cli.options import cluster_options, output_option, policy_options


@click.command(short_help="List the columns that a policy can read.")
@policy_options
@cluster_options
@output_option
def command(policies: tuple[str, ...], output: str, **flags: Any) -> None:
    """List every column of the node table: type, unit, range, meaning.

    With --snapshot or --kubeconfig the columns of that cluster, with the values found there; with
    policies also the labels and annotations that they name, and the nodes where those cannot be read.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.render import show_columns
    from bayplan.config.columns import describe_columns
    from bayplan.config.flags import Flags

    with explained():
        rows = describe_columns(policies, Flags(**flags))
    show_columns(rows, output=output)
