"""Whom kube-scheduler evicts for a pod: the pods themselves tell, and its log what they do not."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.parity.judges import GATES
from tests.parity.outcomes import Outcome, Outcomes

Json = dict[str, Any]
Listed = Callable[[], dict[str, Json]]

_STARTED = re.compile(r'"Start the preemption asynchronously" preemptor="(?P<pod>[^"]+)"')
_FINISHED = re.compile(r'"Async Preemption finished completely" preemptor="(?P<pod>[^"]+)"')
_EVICTED = re.compile(
    r'"Preemptor Pod preempted victim Pod" preemptor="(?P<pod>[^"]+)" victim="(?P<victim>[^"]+)"'
)
_LEAVING = re.compile(
    r'"Victim Pod is already being deleted, skipping the API call for it" preemptor="(?P<pod>[^"]+)" '
    r'node="[^"]+" victim="(?P<victim>[^"]+)"'
)
_OF_CLAIMS = "no new claims to deallocate, "
"""What another plugin says about every pod before preemption has its say."""


@dataclass(frozen=True)
class Made:
    """What was done about one pod, on one side."""

    node: str = ""
    """Where it is to go; ``""`` where nowhere."""
    victims: frozenset[str] = frozenset()
    message: str = ""
    """Of the condition; ``""`` where the pod was placed at once."""

    def told(self) -> str:
        """For people."""
        if not self.node:
            return self.message
        return f"{self.node}, evicting {', '.join(sorted(self.victims)) or 'nobody'}; {self.message}"


class FirstOutcomes(Outcomes):
    """Keeps the outcome of the first attempt: of a pod that was nominated, the node with the reason."""

    def _take(self, event: Json) -> None:
        pod = event["object"]
        outcome = _first(pod) if event["type"] in ("ADDED", "MODIFIED") else None
        if outcome is not None:
            with self._changed:
                self._known.setdefault(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}", outcome)
                self._changed.notify_all()


def _first(pod: Json) -> Outcome | None:
    for condition in pod["status"].get("conditions", ()):
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            nominated = pod["status"].get("nominatedNodeName", "")
            message = condition.get("message", "").replace(_OF_CLAIMS, "")
            return Outcome(nominated, condition["reason"], message)
    return Outcome(pod["spec"]["nodeName"]) if pod["spec"].get("nodeName") else None


class Evictor:
    """A real kube-scheduler, asked by creating a pod."""

    def __init__(self, outcomes: FirstOutcomes, log: Path) -> None:
        self._outcomes = outcomes
        self._log = log
        self._offset = 0

    def made(self, pod: str, before: set[str], listed: Listed, nudge: Callable[[], str]) -> Made:
        """What became of a pod that was created.

        ``before`` are the pods that were there, ``listed`` gives those that are there now; ``nudge``
        creates a pod that nobody evicts for: when it was judged, what went before has begun.
        """
        outcome = self._outcomes.wait(pod)
        if not outcome.reason or not outcome.node:
            return Made(outcome.node, message=outcome.message)
        leaving = self._victims(_LEAVING, pod)
        if leaving and not self._seen(_STARTED, pod):
            self._outcomes.wait(nudge())
        if not leaving or self._seen(_STARTED, pod):
            wait_until(lambda: self._seen(_FINISHED, pod), 30.0, what=f"the evictions for {pod}")
        now = listed()
        gone = {key for key in before if key not in now or _is_target(now[key])}
        # The pod may have been tried again meanwhile, and more may be gone.
        evicted = self._victims(_EVICTED, pod)
        assert evicted <= gone, f"the log tells of evictions that did not happen: {evicted - gone}"
        return Made(outcome.node, frozenset(evicted | leaving), outcome.message)

    def done(self) -> None:
        """Forget the log so far."""
        self._offset = self._log.stat().st_size

    def _lines(self) -> str:
        with self._log.open("rb") as file:
            file.seek(self._offset)
            return file.read().decode(errors="replace")

    def _seen(self, what: re.Pattern[str], pod: str) -> bool:
        return any(found["pod"] == pod for found in what.finditer(self._lines()))

    def _victims(self, what: re.Pattern[str], pod: str) -> set[str]:
        """Those of the first attempt."""
        lines = self._lines()
        end = next((found.end() for found in _FINISHED.finditer(lines) if found["pod"] == pod), len(lines))
        return {found["victim"] for found in what.finditer(lines[:end]) if found["pod"] == pod}


@contextmanager
def evictor(plane: ControlPlane) -> Iterator[Evictor]:
    """The scheduler, running inside the block, with its default profile."""
    with plane.scheduler(flags=GATES) as scheduler, FirstOutcomes(plane) as outcomes:
        yield Evictor(outcomes, scheduler.child.log_file)


def _is_target(pod: Json) -> bool:
    return "deletionTimestamp" in pod["metadata"] and any(
        condition["type"] == "DisruptionTarget" and condition["reason"] == "PreemptionByScheduler"
        for condition in pod["status"].get("conditions", ())
    )
