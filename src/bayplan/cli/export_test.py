"""``bayplan export-test``: an incident that was recorded, as a test."""

from pathlib import Path
from typing import Any

import click

from bayplan.cli.options import policy_options, recording_argument


@click.command(short_help="Turn a recorded decision into a test.")
@recording_argument
@policy_options
@click.option(
    "--pod",
    required=True,
    metavar="NAMESPACE/NAME",
    help="The pod of the decision; its last `filter` counts.",
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("tests"),
    show_default=True,
    metavar="FOLDER",
    help="Folder for the test.",
)
def command(file: Path, policies: tuple[str, ...], pod: str, out: Path, **flags: Any) -> None:
    """Write a pytest case of what was decided about a pod, with the cluster it was decided in.

    The policies are those of --config or of the policy files given; else those that the recording was made
    with, if their files have not changed. The test loads them from there.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.recordings import show_exported
    from bayplan.config.flags import Flags, load_all
    from bayplan.recording.describe import describe, reload_described
    from bayplan.runtimes.extender.again import verbs_as_recorded
    from bayplan.runtimes.simulator.export import export_test, last_filter

    namespace, slash, name = pod.partition("/")
    with explained():
        case = last_filter(file, f"{namespace}/{name}" if slash else f"default/{namespace}")
        if policies or flags["config"]:
            given = Flags(**flags)
            loaded = load_all(policies, given)
            told = describe(policies, given, loaded)
        else:
            told = case.configuration
            loaded = reload_described(told)
        respondent = verbs_as_recorded(case.configuration, loaded.policies)
        found = export_test(case, loaded.policies, out, configuration=told, respondent=respondent)
    show_exported(found)
