"""``bayplan check``: find mistakes before kube-scheduler does."""

from typing import Any

import click

from bayplan.cli.options import cluster_options, output_option, policy_options


@click.command(short_help="Find mistakes before kube-scheduler does.")
@policy_options
@cluster_options
@click.option(
    "--pod",
    "manifests",
    multiple=True,
    metavar="FILE",
    help="Also call hooks for the pod of this manifest; repeatable.",
)
@output_option
def command(policies: tuple[str, ...], manifests: tuple[str, ...], output: str, **flags: Any) -> None:
    """Validate policies and configuration, and dry-run every hook.

    It runs hooks on 0, 1 and 3 made-up nodes and, with --snapshot or --kubeconfig, on the nodes of that
    cluster; for a plain pod, for the pods given with --pod, and for one pod of each kind in the cluster.
    It also reads the certificates that the configuration names.

    Exits 0 when all is well and 1 when something is wrong, for use in CI and pre-commit.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.render import show_check
    from bayplan.cli.scheduler_section import check_scheduler
    from bayplan.config.flags import Flags
    from bayplan.runtimes.extender.check import check
    from bayplan.runtimes.simulator.manifest import read_pod

    with explained():
        pods = [read_pod(manifest) for manifest in manifests]
        report = check(policies, Flags(**flags), pods=pods)
        check_scheduler(policies, Flags(**flags))
    show_check(report, output=output)
    raise SystemExit(1 if report.problems else 0)
