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
    preemptVerb: preempt      # without it, pods are evicted for nodes that Bayplan then refuses
    bindVerb: bind            # optional
    weight: 1
    nodeCacheCapable: true    # node names only: Bayplan needs --kubeconfig or --snapshot

\b
Examples:
  bayplan serve policy.py                                 kube-scheduler sends full nodes; no cluster needed
  bayplan serve policy.py --kubeconfig ~/.kube/config     kube-scheduler sends node names
  bayplan serve --config bayplan.yaml --observe           change nothing, log what Bayplan would answer
  bayplan serve --config live.yaml --shadow next.yaml     compare a new configuration with the live one
"""


@click.command(epilog=_EPILOG, short_help="Answer kube-scheduler with policies.")
@policy_options
@click.option("--listen", metavar="HOST:PORT", help="Where kube-scheduler calls.  [127.0.0.1:8888]")
@door_options(ops_listen="127.0.0.1:8889")
@click.option("--path", metavar="PATH", help="Path before the verbs: the path of urlPrefix.  [/]")
@cluster_options
@click.option(
    "--observe",
    is_flag=True,
    default=None,
    help="Change nothing; log and count what Bayplan would have answered.",
)
@click.option(
    "--lease/--no-lease",
    default=None,
    help="Bind only while holding a Lease; a sidecar does not need it.  [if policies need it]",
)
@click.option(
    "--tls-cert", type=click.Path(path_type=Path), metavar="FILE", help="Serve HTTPS with this certificate."
)
@click.option("--tls-key", type=click.Path(path_type=Path), metavar="FILE", help="Its private key.")
@click.option(
    "--tls-client-ca",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Accept only callers with a certificate of this CA.",
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
