"""``bayplan replay``: ask again what was recorded, and compare the answers."""

from pathlib import Path
from typing import Any

import click

from bayplan.cli.options import output_option, policy_options, recording_argument


@click.command(short_help="Repeat recorded requests, and compare the answers.")
@recording_argument
@policy_options
@output_option
def command(file: Path, policies: tuple[str, ...], output: str, **flags: Any) -> None:
    """Ask every question of a recording again, and compare the answers byte for byte.

    RECORDING was written by `bayplan serve --record FILE`, or by `bayplan schedule`. The policies are those
    of --config or of the policy files given; else those that the recording was made with, if their files
    have not changed. Without --config the rest, such as --observe, is as it was recorded. What is stored in
    the recording is never run.

    Exits 0 when every answer is the same, else 1.
    """
    from bayplan.cli.failing import explained
    from bayplan.cli.recordings import show_replay
    from bayplan.config.flags import Flags, load_all
    from bayplan.recording.describe import reload_described, with_profiles
    from bayplan.recording.lines import Configuration
    from bayplan.runtimes.extender.again import verbs_as_recorded, verbs_of
    from bayplan.runtimes.scheduler.again import Again
    from bayplan.runtimes.simulator.replay import Respondent, replay

    def respondent(told: Configuration) -> Respondent:
        if given is None:
            loaded = reload_described(told)
            return Again(loaded) if told.profiles else verbs_as_recorded(told, loaded.policies)
        if told.profiles:
            return Again(with_profiles(given, told))
        # Policy files say nothing of how a server answers; a configuration does.
        return verbs_of(given) if flags["config"] else verbs_as_recorded(told, given.policies)

    with explained():
        given = load_all(policies, Flags(**flags)) if policies or flags["config"] else None
        found = replay(file, respondent)
    show_replay(found, output=output)
    raise SystemExit(1 if found.differences or not found.total else 0)
