"""``bayplan doctor``: find the traps in a kube-scheduler's configuration, or in a cluster."""

from pathlib import Path
from typing import Any

import click

from bayplan.cli.options import live_cluster_options, output_option

_FILE = click.Path(dir_okay=False, path_type=Path)
_EPILOG = """\b
Examples:
  bayplan doctor scheduler.yaml                        a KubeSchedulerConfiguration
  bayplan doctor policy.json --fix > scheduler.yaml    an old Policy, converted
  bayplan doctor scheduler.yaml --config bayplan.yaml  and whether the two fit
  bayplan doctor scheduler.yaml deploy/*.yaml          and who schedules the extender
  bayplan doctor --live --kubeconfig ~/.kube/config    a cluster: rights, pods, clock, certificates

\b
Exits 0 without errors, 1 with them (with --strict also for warnings), 2 where nothing could be examined.
"""


class _Unreadable(click.ClickException):
    """Nothing was examined: that is misuse, and not a finding."""

    exit_code = 2


@click.command(epilog=_EPILOG, short_help="Find mistakes in kube-scheduler's configuration.")
@click.argument("files", metavar="[FILE]...", nargs=-1, type=_FILE)
@click.option("--config", "-c", type=_FILE, metavar="FILE", help="Bayplan's configuration, to compare with.")
@click.option(
    "--kubernetes-version",
    metavar="VERSION",
    help="Which kube-scheduler reads the file.  [of the cluster, of its image in FILE, or 1.36]",
)
@click.option("--live", is_flag=True, help="Also examine a cluster.")
@live_cluster_options
@click.option("--strict", is_flag=True, help="Exit with 1 also for warnings.")
@click.option("--fix", is_flag=True, help="Print FILE corrected; changes and open points go to stderr.")
@output_option
def command(*, strict: bool, fix: bool, output: str, **options: Any) -> None:
    """Find the traps in a KubeSchedulerConfiguration, an old Policy, manifests, or a live cluster.

    FILE is what kube-scheduler's --config names, a Policy with predicates and priorities, a ConfigMap with
    either, manifests of pods and what makes pods, or - for standard input. Every finding says why it bites,
    in which versions, and what to do.
    """
    from bayplan.cli.doctor_render import show_fixed, show_report
    from bayplan.doctor.files import UnreadableError
    from bayplan.doctor.run import Request, correct, diagnose

    request = Request(**_checked(options, fix=fix, output=output))
    try:
        if fix:
            fixed, report = correct(request)
            show_fixed(fixed, report)
        else:
            report = diagnose(request)
            show_report(report, output=output)
    except UnreadableError as error:
        raise _Unreadable(str(error)) from error
    raise SystemExit(report.exit_code(strict=strict))


def _checked(options: dict[str, Any], *, fix: bool, output: str) -> dict[str, Any]:
    """Options that would have no effect are a misunderstanding."""
    if not options["live"]:
        for name in ("kubeconfig", "context", "in_cluster"):
            if options[name]:
                raise click.UsageError(f"--{name.replace('_', '-')} goes with --live")
        if not options["files"] and options["config"] is None:
            raise click.UsageError("name a file, such as scheduler.yaml, or look at a cluster with --live")
    if fix and options["live"]:
        raise click.UsageError("--fix prints a corrected file; a live cluster is nobody's to print")
    if fix and output == "json":
        raise click.UsageError("--fix prints the corrected file itself; leave -o json out, or --fix")
    return {**options, "in_cluster": bool(options["in_cluster"])}
