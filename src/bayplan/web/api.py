"""Decisions as JSON: the list of summaries, and one decision in full."""

from collections.abc import Sequence

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from bayplan.engine.entry import Entry, Voice
from bayplan.engine.why import stamp

_SPARE_LINES = 100


class Summary(Struct, frozen=True, rename="camel"):
    """A decision in a line."""

    decision: int
    at: str
    verb: str
    pod: str
    generation: int
    result: str
    offered: int
    passed: int
    reasons: dict[str, int]
    """How many nodes were refused for which reason."""
    policies: list[str]
    """Who refused them."""
    best: str
    """The best node, of scores; the node, of a bind and of an eviction."""
    seconds: float
    error: str
    observe: bool
    kept: int = 0
    """Of an answer that was cut down: how many nodes kube-scheduler was told."""
    others: tuple[str, ...] = ()
    """Of an eviction: who has to leave for the pod, or for whom it leaves."""


class VoiceDetail(Struct, frozen=True, rename="camel"):
    """What one hook said, a value a node."""

    policy: str
    hook: str
    kind: str
    milliseconds: float
    weight: float
    shadow: bool
    void: bool
    failure: str
    reasons: list[str]
    """The reason of each node that it refused; ``""`` where it did not."""
    details: list[str]
    """The detail of each node that it refused; of a score, the numbers behind the score of each node."""
    scores: list[float | None]
    """0 to 100 a node; null for no opinion."""
    raw: list[float | None]


class Detail(Struct, frozen=True, rename="camel"):
    """A decision in full."""

    summary: Summary
    uid: str
    labels: dict[str, str]
    requests: dict[str, int]
    priority: int
    nodes: list[str]
    refused_by: list[int]
    """For each node the number of the voice that refused it, or -1."""
    total: list[float | None]
    wire: list[int]
    voices: list[VoiceDetail]
    not_in_view: list[str]
    dropped: list[tuple[str, str, str]]


class Wanted(Struct, frozen=True, kw_only=True):
    """Which decisions are asked for; everything where nothing is said."""

    pod: str = ""
    namespace: str = ""
    policy: str = ""
    reason: str = ""
    result: str = ""
    verb: str = ""
    before: int = 0
    """Only decisions with a lower number than this; 0 for all."""
    limit: int = 100

    def matches(self, entry: Entry, line: Summary) -> bool:
        """Whether the entry is one of them."""
        return (
            self.pod in entry.pod.key
            and (not self.before or entry.number < self.before)
            and self.namespace in ("", entry.pod.namespace)
            and self.verb in ("", entry.verb)
            and self.result in ("", line.result)
            and (not self.policy or self.policy in line.policies)
            and (not self.reason or any(self.reason in reason for reason in line.reasons))
        )


class Lines:
    """The line of each entry, made once: people filter the same thousand again and again."""

    def __init__(self) -> None:
        self._known: dict[int, Summary] = {}

    def wanted(self, entries: Sequence[Entry], wanted: Wanted) -> list[Summary]:
        """The lines of those that are wanted, the newest first."""
        if len(self._known) > 2 * len(entries) + _SPARE_LINES:
            self._known = {e.number: self._known[e.number] for e in entries if e.number in self._known}
        found: list[Summary] = []
        for entry in entries:
            if len(found) >= wanted.limit:
                break
            line = self.of(entry)
            if wanted.matches(entry, line):
                found.append(line)
        return found

    def of(self, entry: Entry) -> Summary:
        """The line of an entry."""
        line = self._known.get(entry.number)
        if line is None:
            line = self._known[entry.number] = summary(entry)
        return line


def summary(entry: Entry) -> Summary:
    """A decision in a line."""
    reasons: dict[str, int] = {}
    policies: dict[str, None] = {}
    for voice, reason, places in entry.groups():
        reasons[reason.text] = reasons.get(reason.text, 0) + len(places)
        policies[voice.policy] = None
    if entry.not_in_view:
        reasons["not in view"] = len(entry.not_in_view)
    for _, policy, text in entry.dropped:
        reasons[text] = reasons.get(text, 0) + 1
        policies[policy] = None
    best = entry.node
    if entry.total is not None and entry.total.size:
        best = entry.names[int(entry.rows[int(entry.total.argmax())])]
    if entry.kept is not None:
        best = entry.kept_names(1)[0]
    return Summary(
        decision=entry.number,
        at=stamp(entry.at),
        verb=entry.verb,
        pod=entry.pod.key,
        generation=entry.generation,
        result=entry.result,
        offered=entry.offered,
        passed=entry.passed,
        reasons=reasons,
        policies=list(policies),
        best=best,
        seconds=entry.seconds,
        error=entry.error,
        observe=entry.observe,
        kept=0 if entry.kept is None else len(entry.kept),
        others=entry.others,
    )


def detail(entry: Entry, wire: list[int]) -> Detail:
    """A decision in full; ``wire`` are its scores as kube-scheduler was told them, if it was."""
    pod = entry.pod
    return Detail(
        summary=summary(entry),
        uid=pod.uid,
        labels=dict(pod.labels),
        requests=dict(pod.requests),
        priority=pod.priority,
        nodes=entry.nodes,
        refused_by=entry.refused_by.tolist(),
        total=_numbers(entry.total),
        wire=wire,
        voices=[_voice(voice, len(entry.rows)) for voice in entry.voices],
        not_in_view=list(entry.not_in_view),
        dropped=list(entry.dropped),
    )


def _voice(voice: Voice, count: int) -> VoiceDetail:
    reasons, details = [""] * count, [""] * count
    for row, reason, text in voice.refusals():
        reasons[row], details[row] = reason.text, text
    refuses = voice.rows is not None
    if voice.score_detail:
        details = [voice.behind(row) for row in range(count)]
    return VoiceDetail(
        policy=voice.policy,
        hook=voice.hook,
        kind=voice.kind,
        milliseconds=voice.seconds * 1000,
        weight=voice.weight,
        shadow=voice.shadow,
        void=voice.void,
        failure=voice.failure,
        reasons=reasons if refuses else [],
        details=details if refuses or voice.score_detail else [],
        scores=_numbers(voice.normalised),
        raw=_numbers(voice.raw),
    )


def _numbers(values: NDArray[np.float32] | None) -> list[float | None]:
    if values is None:
        return []
    numbers = values.astype(object)
    numbers[np.isnan(values)] = None
    found: list[float | None] = numbers.tolist()
    return found
