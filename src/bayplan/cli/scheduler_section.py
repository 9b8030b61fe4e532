"""The ``scheduler`` section of a configuration, for commands that do not schedule: better here than there."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from bayplan.config.flags import Flags


def check_scheduler(files: Sequence[str], flags: "Flags", *, meant: bool = False) -> None:
    """`ConfigError` for what ``bayplan schedule`` would refuse; nothing where there is no such section.

    ``meant``: it is a scheduler that is to run, whether or not the configuration says anything of it.
    """
    from bayplan.authoring.editions import anew
    from bayplan.config.flags import load_all
    from bayplan.config.v1 import SchedulerSection
    from bayplan.runtimes.scheduler.options import check_section

    with anew():
        loaded = load_all(files, flags)
        if meant or loaded.config.scheduler != SchedulerSection():
            check_section(loaded)
