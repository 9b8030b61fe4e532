"""The scores that kube-scheduler gives, out of its own log: it tells nobody else."""

from __future__ import annotations

import re
from pathlib import Path

FLAGS = ("--vmodule=schedule_one=10",)
"""Scores are told at level 10, at which everything else would fill a disk."""

_SCORED = re.compile(
    r'"Plugin scored node for pod" pod="(?P<pod>[^"]+)" plugin="(?P<plugin>[^"]+)" '
    r'node="(?P<node>[^"]+)" score=(?P<score>-?\d+)'
)

Scores = dict[str, dict[str, int]]
"""Points after weight, by plugin and node."""


class ScheduledScores:
    """Reads what was added to the log since the last time."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._offset = 0
        self._begun = b""
        self._found: dict[str, Scores] = {}

    def take(self, pod: str) -> Scores:
        """The scores of a pod that was placed; empty where there was nothing to choose from."""
        with self._log.open("rb") as file:
            file.seek(self._offset)
            added = file.read()
        self._offset += len(added)
        *lines, self._begun = (self._begun + added).split(b"\n")
        for line in lines:
            if found := _SCORED.search(line.decode(errors="replace")):
                scores = self._found.setdefault(found["pod"], {}).setdefault(found["plugin"], {})
                scores[found["node"]] = int(found["score"])
        scores_of_pod = self._found.pop(pod, {})
        self._found.clear()
        return scores_of_pod
