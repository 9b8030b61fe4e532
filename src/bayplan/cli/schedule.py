"""``bayplan schedule``: a second scheduler, for the pods that ask for it."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from bayplan.cli.options import door_options, live_cluster_options, logging_options, policy_options

if TYPE_CHECKING:
    from bayplan.ops.logs import LogFormat

_EPILOG = """\b
A pod asks for it by name:
  spec:
    schedulerName: bayplan-scheduler

\b
Examples:
  bayplan schedule --kubeconfig ~/.kube/config              kube-scheduler's default profile alone
  bayplan schedule policy.py --kubeconfig ~/.kube/config    and a policy of yours
  bayplan schedule --config bayplan.yaml --in-cluster
  bayplan schedule policy.py --kubeconfig ~/.kube/config --scheduler-name custom-scheduler
"""


class _Rate(click.FloatRange):
    """A number above 0. ``nan`` is not below it either, and would pass."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number: float = super().convert(value, param, ctx)
        if math.isnan(number):
            self.fail(f"{value!r} is not a number above 0.", param, ctx)
        return number


@click.command(epilog=_EPILOG, short_help="Run a second scheduler.")
@policy_options
@live_cluster_options
@click.option(
    "--scheduler-name",
    multiple=True,
    metavar="NAME",
    help="Place the pods with this schedulerName; repeatable.  [bayplan-scheduler]",
)
@click.option(
    "--profile",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Use the profile of this KubeSchedulerConfiguration.  [kube-scheduler's default]",
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Schedule only while holding a Lease, so that several instances can run.  [on]",
)
@click.option(
    "--qps",
    type=_Rate(min=0, min_open=True),
    help="Requests a second to the API server, without binds.  [50]",
)
@click.option("--burst", type=click.IntRange(min=1), help="Requests at once before --qps applies.  [100]")
@door_options(ops_listen="127.0.0.1:8891")
@logging_options
def command(policies: tuple[str, ...], log_level: str, log_format: "LogFormat", **flags: Any) -> None:
    """Place pods by kube-scheduler's own rules and yours, beside your kube-scheduler.

    POLICY.py is a file with decorated functions, as for `bayplan serve`; it is optional. Flags win over the
    configuration file.
    """
    from bayplan.cli.failing import explained
    from bayplan.config.flags import Flags
    from bayplan.ops.logs import set_up_logging
    from bayplan.runtimes.scheduler.run import schedule_forever

    set_up_logging(level=log_level.upper(), format=log_format)
    with explained():
        schedule_forever(policies, Flags(**flags))
