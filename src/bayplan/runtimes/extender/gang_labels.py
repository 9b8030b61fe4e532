"""Warns about pods with gang labels: an extender judges pods one by one, and cannot place gangs."""

import logging

from bayplan.authoring.gang import GANG
from bayplan.engine.entry import Entry
from bayplan.ops.logs import Sparingly

log = logging.getLogger(__name__)


class GangLabels:
    """Logs that gang labels have no effect, at most once an hour for each gang."""

    def __init__(self) -> None:
        self._warnings = Sparingly(every_seconds=3600.0)

    def look(self, entry: Entry) -> None:
        """Look at the pod of a journal entry."""
        gang = entry.pod.labels.get(GANG)
        if gang is None:
            return
        text = (
            f"pod {entry.pod.key} has the label {GANG}, and is judged alone: an extender is asked about one"
            " pod after another; gangs are placed by `bayplan schedule`, with its name as schedulerName"
        )
        self._warnings.warn(log, f"gang {entry.pod.namespace}/{gang}", text, pod=entry.pod.key)
