"""``bayplan serve``: answer kube-scheduler's questions with policies."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options import cluster_options, door_options, logging_options, policy_options

if TYPE_CHECKING:
    from bayplan.ops.logs import LogFormat

_EPILOG = """\b
kube-scheduler reaches it through its configuration:
  extenders:
  - urlPrefix: http://127.0.0.1:8888
    filterVerb: filter
    prioritizeVerb: prioritize
    preemptVerb: preempt      # without it, pods are evicted for nodes that we then refuse
    bindVerb: bind            # optional
    weight: 1
    nodeCacheCapable: true    # names only: needs --kubeconfig or --snapshot here

\b
Examples:
  bayplan serve policy.py                                 full nodes, no cluster needed
  bayplan serve policy.py --kubeconfig ~/.kube/config     names only
  bayplan serve --config bayplan.yaml --observe           change nothing, log what would be said
  bayplan serve --config live.yaml --shadow next.yaml     compare before it counts
"""


@click.command(epilog=_EPILOG, short_help="Answer kube-scheduler with policies.")
@policy_options
@click.option("--listen", metavar="HOST:PORT", help="Where kube-scheduler calls.  [127.0.0.1:8888]")
@door_options(ops_listen="127.0.0.1:8889")
@click.option("--path", metavar="PATH", help="What the verbs are under: the path of urlPrefix.  [/]")
@cluster_options
@click.option(
    "--observe", is_flag=True, default=None, help="Change nothing; record what would have been said."
)
@click.option(
    "--lease/--no-lease",
    default=None,
    help="Bind only while holding a Lease; not needed by a sidecar.  [where policies need it]",
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Serve HTTPS with this certificate."
)
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its private key.")
@click.option(
    "--tls-client-ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Let in only callers with a certificate of this CA.",
)
@logging_options
def command(policies: tuple[str, ...], log_level: str, log_format: "LogFormat", **flags: Any) -> None:
    """Serve policies to kube-scheduler as a scheduler extender.

    POLICY.py is a file with decorated functions; `bayplan init` writes a first one. Flags win over the
    configuration file.
    """
    from bayplan.cli.failing import explained
    from bayplan.config.flags import Flags
    from bayplan.ops.logs import set_up_logging
    from bayplan.runtimes.extender.run import serve_forever

    set_up_logging(level=log_level.upper(), format=log_format)
    with explained():
        serve_forever(policies, Flags(**flags))
