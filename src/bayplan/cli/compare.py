"""``bayplan compare``: what another configuration would have done with what was recorded."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from bayplan.cli.options import output_option, recording_argument

if TYPE_CHECKING:
    from bayplan.authoring.registry import Policy
    from bayplan.kube.pod import Pod

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command(short_help="Show what another configuration would have done.")
@recording_argument
@click.argument("more", nargs=-1, metavar="")
@click.option(
    "--config",
    "-c",
    "configs",
    type=_FILE,
    multiple=True,
    metavar="FILE",
    help="FILE.yaml or FILE.py. Given twice: compare the two. Given once: compare it with the recorded"
    " configuration, if its files have not changed.",
)
@click.option("--price-label", metavar="LABEL", default="", help="Node label with the price of the node.")
@click.option("--html", type=_FILE, metavar="FILE", help="Also write a report with plots.")
@output_option
def command(
    file: Path,
    configs: tuple[Path, ...],
    more: tuple[str, ...],
    *,
    price_label: str,
    html: Path | None,
    output: str,
) -> None:
    """Judge the pods of a recording with two configurations, and show the differences.

    A file with policies, FILE.py, counts as a configuration with those policies.

    The output shows which pods would be refused or be on another node (the best node that passes), what the
    nodes cost, how the pods are spread, and how full their nodes are. Each pod is judged in the cluster as it
    was recorded.
    """
    # Imported for what it does: metrics that policies register are kept apart, load by load.
    import bayplan.ops.own  # noqa: F401
    from bayplan.authoring.editions import anew
    from bayplan.cli.failing import explained
    from bayplan.cli.recordings import show_comparison
    from bayplan.config.flags import Flags, Loaded, load_all
    from bayplan.recording.describe import reload_described, with_profiles
    from bayplan.recording.lines import Configuration
    from bayplan.runtimes.scheduler.again import Again
    from bayplan.runtimes.simulator.cases import Recording
    from bayplan.runtimes.simulator.compare import compare
    from bayplan.runtimes.simulator.judge import Side
    from bayplan.runtimes.simulator.report import write_report

    _check_together(file, configs, more, html)

    def side_of(loaded: Loaded) -> Side:
        known: dict[Configuration, Again] = {}

        def policies_for(told: Configuration, pod: "Pod") -> Sequence["Policy"]:
            if not told.profiles:
                return loaded.policies
            if told not in known:
                known[told] = Again(with_profiles(loaded, told))
            return known[told].policies_for(pod)

        return policies_for

    with explained():
        sides = []
        if len(configs) == 1:
            told = Recording(file).configurations()[-1]
            sides.append(("as recorded", side_of(reload_described(told))))
        for config in configs:
            policy = config.suffix == ".py"
            files, flags = ([str(config)], Flags()) if policy else ([], Flags(config=config))
            # Files of one name beside two configurations are two files.
            with anew():
                sides.append((str(config), side_of(load_all(files, flags))))
        (first, one), (second, other) = sides
        found = compare(file, one, other, names=(first, second), price_label=price_label)
        if html is not None:
            write_report(found, html, recording=file.name)
    show_comparison(found, output=output)


def _check_together(file: Path, configs: Sequence[Path], more: Sequence[str], html: Path | None) -> None:
    if more or not configs:
        named = more[0] if more else "FILE.yaml, or FILE.py"
        raise click.UsageError(f"say what to compare with: --config {named}")
    if len(configs) > 2:
        raise click.UsageError("give --config twice at most: the two configurations to compare")
    if html is not None and html.resolve() in {path.resolve() for path in (file, *configs)}:
        raise click.UsageError(f"--html {html} is one of the files that are compared: name another one")
