"""``bayplan replay``: ask again what was recorded, and compare the answers."""

from pathlib import Path
from typing import Any

import click

from bayplan.cli.options import output_option, policy_options


@click.command(short_help="Ask again what was recorded, and compare.")
@click.argument("file", type=click.Path(dir_okay=False, path_type=Path))
@policy_options
@output_option
def command(file: Path, policies: tuple[str, ...], output: str, **flags: Any) -> None:
    """Ask every question of a recording again, and compare the answers byte for byte.

    FILE was written by `bayplan serve --record FILE`. The policies are those of --config or of the policy
    files given; else those that the recording was made with, if their files have not changed. What is
    stored in the recording is never run.

    Exits 0 when every answer is the same, else 1.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.recordings import show_replay
    from bayplan.config.flags import Flags, load_all
    from bayplan.recording.describe import reload_described
    from bayplan.recording.lines import Configuration
    from bayplan.runtimes.extender.again import verbs_as_recorded, verbs_of
    from bayplan.runtimes.extender.verbs import Verbs
    from bayplan.runtimes.simulator.replay import replay

    def as_recorded(told: Configuration) -> Verbs:
        return verbs_as_recorded(told, reload_described(told).policies)

    with explained():
        given = verbs_of(load_all(policies, Flags(**flags))) if policies or flags["config"] else None
        found = replay(file, (lambda _: given) if given else as_recorded)
    show_replay(found, output=output)
    raise SystemExit(1 if found.differences or not found.total else 0)
