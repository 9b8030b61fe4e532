"""Replays a recording: asks every question again, and compares the answers byte for byte."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.recording.lines import Asked, Configuration
from bayplan.recording.redact import without_nodes
from bayplan.runtimes.simulator.cases import Case, Recording
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings

_SHOWN = 400


class _Committed(Protocol):
    @property
    def refusal(self) -> str: ...
    @property
    def annotations(self) -> Mapping[str, str]: ...


class Respondent(Protocol):
    """Answers requests as the server does."""

    def commit(
        self, pod: Pod, node: str, cluster: Snapshot, attempt: Attempt, *, readings: Readings
    ) -> _Committed:
        """The recheck before a bind."""
        ...


Respondents = Callable[[Configuration], Respondent]
"""Returns the respondent for a recorded configuration: with its own policies, or with others."""


@dataclass(frozen=True)
class Difference:
    """An answer that differs from the recorded one."""

    number: int
    verb: str
    pod: str
    at: str
    recorded: str
    replayed: str


@dataclass
class Replay:
    """The result of a replay."""

    equal: dict[str, int] = field(default_factory=dict)
    """Answers that are the same, byte for byte, by verb."""
    differences: list[Difference] = field(default_factory=list)
    unjudged: int = 0
    warnings: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many questions were asked again."""
        return sum(self.equal.values()) + len(self.differences)


def replay(path: Path, respondents: Respondents) -> Replay:
    """Ask every question of a recording again."""
    recording = Recording(path)
    found = Replay()
    known: dict[Configuration, Respondent] = {}
    for case in recording.cases():
        if case.configuration not in known:
            known[case.configuration] = respondents(case.configuration)
        difference = asked_again(known[case.configuration], case)
        if difference is None:
            found.equal[case.verb] = found.equal.get(case.verb, 0) + 1
        else:
            found.differences.append(difference)
    found.unjudged, found.warnings = recording.unjudged, recording.warnings
    return found


def asked_again(respondent: Respondent, case: Case) -> Difference | None:
    """How the answer differs from the recorded one; ``None`` if it does not."""
    said = case.said
    try:
        if isinstance(said, Asked):
            answer = answered(respondent, case)
            recorded, replayed = bytes(said.answer), answer
            same = answer == recorded
            if said.sha256:
                same = hashlib.sha256(answer).hexdigest() == said.sha256
                replayed = without_nodes(answer)[0]
            texts = recorded.decode(errors="replace"), replayed.decode(errors="replace")
        else:
            assert case.cluster is not None, "nothing is bound without a cluster"
            now = respondent.commit(said.pod, said.node, case.cluster, case.attempt(), readings=case.readings)
            then = (said.refusal, said.annotations)
            same = (now.refusal, dict(now.annotations)) == then
            texts = str(then), str((now.refusal, dict(now.annotations)))
    except Exception as error:
        same, texts = False, ("an answer", f"{type(error).__name__}: {error}")
    if same:
        return None
    return Difference(case.number, case.verb, case.pod, said.shown_at, *_apart(*texts))


def answered(respondent: Any, case: Case) -> bytes:
    """The answer's bytes."""
    work = getattr(respondent, case.verb)
    answer: bytes = work(case.body, case.cluster, case.attempt(), readings=case.readings).body
    return answer


def _apart(recorded: str, replayed: str) -> tuple[str, str]:
    """Both texts from shortly before their first difference, shortened to a readable length."""
    pairs = enumerate(zip(recorded, replayed, strict=False))
    start = next((place for place, (a, b) in pairs if a != b), min(len(recorded), len(replayed)))
    start = max(0, start - _SHOWN // 4)
    cut = "…" if start else ""
    return tuple(  # type: ignore[return-value]
        cut + text[start : start + _SHOWN] + ("…" if len(text) > start + _SHOWN else "")
        for text in (recorded, replayed)
    )
