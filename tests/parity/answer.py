"""What each side says about one pod, and where the two differ."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

PLACED, UNSCHEDULABLE, GATED, FAILED = "placed", "unschedulable", "gated", "failed"


@dataclass(frozen=True)
class Answer:
    """One side's judgement of a pod."""

    outcome: str
    feasible: frozenset[str] = frozenset()
    best: frozenset[str] = frozenset()
    """Bayplan: every node with the highest score. kube-scheduler: the one it took."""
    message: str = ""
    scores: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Points after weight, by plugin and node; a plugin that gave everybody 0 may be missing."""
    spoke: frozenset[str] = frozenset()
    """Bayplan: policies that refused a node or gave points."""

    def told(self) -> str:
        """For people."""
        lines = [f"{self.outcome}: {self.message}" if self.message else self.outcome]
        lines.append(f"feasible: {', '.join(sorted(self.feasible)) or 'none'}")
        lines.append(f"best: {', '.join(sorted(self.best)) or 'none'}")
        for plugin in sorted(self.scores):
            points = ", ".join(f"{node} {score}" for node, score in sorted(self.scores[plugin].items()))
            lines.append(f"{plugin}: {points}")
        return "\n".join(lines)


def reasons(message: str) -> str:
    """The part of a FailedScheduling message that is about the nodes, without what is said of eviction."""
    for end in (" no new claims to deallocate", " preemption:"):
        message = message.partition(end)[0]
    # A PostFilter plugin that misses what its PreFilter keeps, because another refused the pod before it.
    return f"{found}." if (found := message.removesuffix(". not found")) != message else message


def told_reasons(message: str) -> list[str]:
    """The reasons in such a message, without numbers and without names."""
    _, _, listed = message.partition(": ")
    return [re.sub(r'^\d+ |"[^"]*"|\{.*\}', "", one) for one in listed.rstrip(".").split(", ") if one]


def differences(kube: Answer, ours: Answer) -> list[str]:
    """What the two do not agree about, a line each; empty where they agree."""
    found = []
    if kube.outcome != ours.outcome:
        found.append(f"outcome: kube-scheduler {kube.outcome}, Bayplan {ours.outcome}")
    if kube.feasible != ours.feasible:
        only_kube, only_ours = sorted(kube.feasible - ours.feasible), sorted(ours.feasible - kube.feasible)
        found.append(f"feasible: only for kube-scheduler {only_kube}, only for Bayplan {only_ours}")
    if kube.outcome != GATED and kube.message != ours.message:
        found.append(f"message: kube-scheduler {kube.message!r}, Bayplan {ours.message!r}")
    if not found:
        found += _scores(kube, ours)
    if not found and not kube.best <= ours.best:
        found.append(f"best: kube-scheduler took {sorted(kube.best)}, Bayplan's best are {sorted(ours.best)}")
    return found


def _scores(kube: Answer, ours: Answer) -> list[str]:
    found = []
    for plugin in sorted({*kube.scores, *ours.scores}):
        theirs, mine = kube.scores.get(plugin, {}), ours.scores.get(plugin, {})
        found += [
            f"score of {plugin} for {node}: kube-scheduler {theirs.get(node, 0)}, Bayplan {mine.get(node, 0)}"
            for node in sorted(kube.feasible)
            if theirs.get(node, 0) != mine.get(node, 0)
        ]
    return found
