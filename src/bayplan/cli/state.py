"""``bayplan state``: what a running server knows of the cluster, and whether it is true."""

import click

from bayplan.cli.options import output_option


@click.group(short_help="Check what a running server knows of the cluster.")
def command() -> None:
    """Look into a running server's view of the cluster."""


@command.command("verify", short_help="Compare the server's view with a fresh list.")
@click.option(
    "--server",
    default="http://127.0.0.1:8889",
    show_default=True,
    metavar="URL",
    help="The server's ops address; for `bayplan schedule` http://127.0.0.1:8891.",
)
@output_option
def verify(server: str, output: str) -> None:
    """Compare what a running server knows of nodes, pods and allocations with a fresh list.

    Exits 0 when they agree and no device is given away twice, else 1.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.render import show_verification
    from bayplan.runtimes.extender.ask import ask_verification

    with explained():
        found = ask_verification(server)
    show_verification(found, output=output)
    raise SystemExit(1 if found.drift or found.overcommitted else 0)
