"""``bayplan demo``: see it work, no cluster needed."""

import click


@click.command(short_help="See Bayplan work, no cluster needed.")
@click.option("--once", is_flag=True, help="End after the pods are placed instead of serving on.")
@click.option(
    "--pods", type=click.IntRange(1, 10_000), default=120, show_default=True, help="How many pods to place."
)
@click.option("--listen", metavar="HOST:PORT", help="Where to serve.  [127.0.0.1:8888, if free]")
@click.option("--ops-listen", metavar="HOST:PORT", help="Health and metrics.  [127.0.0.1:8889, if free]")
@click.option(
    "--page-listen", metavar="HOST:PORT", help="The page with decisions.  [127.0.0.1:8890, if free]"
)
def command(
    pods: int, listen: str | None, ops_listen: str | None, page_listen: str | None, *, once: bool
) -> None:
    """Place a stream of pods on a made-up cluster, through the real HTTP verbs.

    An embedded cluster of 40 mixed nodes, five rules, and a caller that asks filter,
    prioritize and bind the way kube-scheduler does. Afterwards it keeps serving, so that you can try
    a request of your own.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.showroom import show_demo
    from bayplan.ops.logs import set_up_logging

    set_up_logging(level="WARNING")
    with explained():
        show_demo(pods=pods, listen=listen, ops_listen=ops_listen, page_listen=page_listen, once=once)
