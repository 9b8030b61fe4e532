"""One run: rounds of cases through both judges; what does not agree is asked again, shrunk and told."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from bayplan.authoring.registry import Policy
from bayplan.config.profile import Profile
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from tests.controlplane.plane import ControlPlane
from tests.parity.answer import FAILED, GATED, PLACED, Answer, differences, told_reasons
from tests.parity.features import FEATURES, features_of
from tests.parity.generator import CASES_IN_A_ROUND, cases_of, make_round
from tests.parity.judges import KubeScheduler, bayplan_answer, kube_scheduler
from tests.parity.shrink import shrink
from tests.parity.stage import Stage
from tests.parity.world import Case, Json, Round, World

TRIES = 3
LAG_SECONDS = 2.0
"""kube-scheduler's view of the cluster lags: only what differs so often, and for so long, counts."""

PATIENCE_SECONDS = 15.0
"""How long kube-scheduler may take until it says what a test expects of it, and how long it may go on
writing on a claim of which it knows an older version."""
_STALE = "the object has been modified"

TOO_MANY = 20
"""Disagreements after which a run ends: something is broken, and shrinking each takes half a minute."""
ENOUGH = 10
"""Cases in which a policy is seen to be needed; after so many it is not tried without it any more."""


@dataclass(frozen=True)
class Disagreement:
    """A case about which the two sides differ, as small as it could be made."""

    seed: int
    case: Case
    kube: Answer
    ours: Answer
    differences: tuple[str, ...]

    def told(self) -> str:
        """Both sides and the case, for people."""
        parts = [
            f"# seed {self.seed}, case {self.case.number}",
            *(f"# {line}" for line in self.differences),
            _commented("kube-scheduler", self.kube),
            _commented("Bayplan", self.ours),
            yaml.safe_dump_all([*self.case.world.objects, self.case.pod], sort_keys=False),
        ]
        return "\n".join(parts)


@dataclass
class Report:
    """What a run has found so far."""

    seed: int
    cases: int = 0
    repeats: int = 0
    """Cases that agreed only when they were asked again."""
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    compared_scores: Counter[str] = field(default_factory=Counter)
    """Cases in which each plugin's scores were compared."""
    features: Counter[str] = field(default_factory=Counter)
    noticed: Counter[str] = field(default_factory=Counter)
    """Cases that would not have agreed without each policy, up to `ENOUGH`: the run can see it."""
    reasons: Counter[str] = field(default_factory=Counter)
    """Cases in which kube-scheduler gave each reason."""
    disagreements: list[Disagreement] = field(default_factory=list)

    def figure(self) -> str:
        """The one line that counts."""
        return (
            f"{self.cases} cases, {len(self.disagreements)} disagreements, seed {self.seed}"
            f" ({self.repeats} asked again, {self.seconds:.0f} s,"
            f" {self.cases / max(self.seconds, 1e-9):.1f} cases a second)"
        )

    def table(self) -> str:
        """How many cases had each feature."""
        width = max(map(len, FEATURES))
        lines = [f"{name:<{width}}  {self.features[name]:>6}" for name in FEATURES]
        counted = {
            "outcomes": self.outcomes,
            "reasons": self.reasons,
            "scores compared": self.compared_scores,
            f"cases that would differ without it (counted up to {ENOUGH})": self.noticed,
        }
        for title, counter in counted.items():
            lines += ["", title, *(f"{count:>6}  {name}" for name, count in counter.most_common())]
        return "\n".join(lines)


class Run:
    """Both judges at work on the cases of one seed."""

    def __init__(self, stage: Stage, kube: KubeScheduler, policies: Sequence[Policy], *, seed: int) -> None:
        self._stage = stage
        self._kube = kube
        self._policies = policies
        self._names = 0
        self._gated: Json | None = None
        self.report = Report(seed)

    def cases(
        self,
        count: int,
        tell: Callable[[Disagreement], None],
        progress: Callable[[Report], None] = lambda _: None,
    ) -> Report:
        """Try so many cases; `tell` is called with each that does not agree, `progress` after each round."""
        begun = time.monotonic()
        number = 0
        while self.report.cases < count:
            left = min(CASES_IN_A_ROUND, count - self.report.cases)
            for disagreement in self._round(make_round(self.report.seed, number, left)):
                self.report.disagreements.append(disagreement)
                tell(disagreement)
                self.report.seconds = time.monotonic() - begun
                if len(self.report.disagreements) == TOO_MANY:
                    return self.report
            number += 1
            self.report.seconds = time.monotonic() - begun
            progress(self.report)
        return self.report

    def _round(self, cases: Round) -> Iterator[Disagreement]:
        self._put(cases.world)
        for case, step in zip(cases_of(cases), cases.steps, strict=True):
            if step.first is not None:
                self._stage.add(step.first)
            kube, ours, found = self._judge(case.pod)
            self._count(case, kube)
            if found:
                yield self._smallest(case, kube, ours)
                self._put(case.world)

    def _put(self, world: World) -> None:
        self._still_gated()
        self._stage.put(world)

    def judge(self, world: World, pod: Json) -> tuple[Answer, Answer, list[str]]:
        """What both say about one pod in a cluster of its own, and where they differ."""
        self._put(world)
        return self._judge(pod)

    def kube_says(self, world: World, pod: Json, outcome: str, message: str = "") -> tuple[Answer, Answer]:
        """What both say once kube-scheduler says this, with such a message; what they said last if never."""
        self._put(world)
        until = time.monotonic() + PATIENCE_SECONDS
        while True:
            kube, ours = self._ask(pod)
            if (kube.outcome == outcome and message in kube.message) or time.monotonic() >= until:
                return kube, ours

    def _judge(self, pod: Json) -> tuple[Answer, Answer, list[str]]:
        """Ask both, again where they differ; that a claim was to be read again first is no answer."""
        tries, asked = TRIES, 0
        begun = time.monotonic()
        while True:
            kube, ours = self._ask(pod)
            asked += 1
            found = differences(kube, ours)
            passed = time.monotonic() - begun
            if kube.outcome != FAILED or _STALE not in kube.message or passed >= PATIENCE_SECONDS:
                tries -= 1
            if not found:
                self.report.repeats += asked > 1
            if not found or (tries <= 0 and passed >= LAG_SECONDS):
                return kube, ours, found

    def _ask(self, pod: Json) -> tuple[Answer, Answer]:
        self._names += 1
        metadata = {**pod["metadata"], "name": f"{pod['metadata']['name']}-{self._names}"}
        fresh = {**pod, "metadata": metadata}
        cluster = self._stage.snapshot()
        created = self._stage.create(fresh)
        kube = self._kube.answer(created.key)
        ours = bayplan_answer(self._policies, created, cluster)
        if not differences(kube, ours):
            self.report.noticed.update(self._needed(kube, ours, created, cluster))
        self._still_gated()
        if kube.outcome == GATED:
            # That nothing happens is seen only when something else has happened after it.
            self._gated = fresh
        else:
            self._stage.delete(fresh)
        if kube.outcome in (PLACED, FAILED):
            # One that failed may have written on some claims before.
            self._stage.restore_volumes(fresh)
        return kube, ours

    def _needed(self, kube: Answer, ours: Answer, pod: Pod, cluster: Snapshot) -> Iterator[str]:
        """The policies without which the two sides would differ."""
        for left_out in self._policies:
            if left_out.name not in ours.spoke or self.report.noticed[left_out.name] >= ENOUGH:
                continue
            others = [policy for policy in self._policies if policy is not left_out]
            if differences(kube, bayplan_answer(others, pod, cluster)):
                yield left_out.name

    def _still_gated(self) -> None:
        if self._gated is not None:
            assert not self._stage.node_of(self._gated), "kube-scheduler has placed a gated pod"
            self._stage.delete(self._gated)
            self._gated = None

    def _count(self, case: Case, kube: Answer) -> None:
        self.report.cases += 1
        self.report.outcomes[kube.outcome] += 1
        self.report.compared_scores.update(kube.scores.keys())
        self.report.features.update(features_of(case))
        self.report.reasons.update(told_reasons(kube.message))

    def _smallest(self, case: Case, kube: Answer, ours: Answer) -> Disagreement:
        last = [(kube, ours)]
        about = _about(differences(kube, ours))

        def differs(world: World, pod: Json) -> bool:
            kube, ours, left = self.judge(world, pod)
            if same := _about(left) == about:
                last[0] = kube, ours
            return same

        world, pod = shrink(case.world, case.pod, differs)
        kube, ours = last[0]
        small = Case(case.number, world, pod)
        return Disagreement(self.report.seed, small, kube, ours, tuple(differences(kube, ours)))


@contextmanager
def both(
    plane: ControlPlane, *, seed: int, profile: Json | None = None, policies: Sequence[Policy] = ()
) -> Iterator[Run]:
    """A run, ready to begin, on an empty control plane; another profile comes with its policies."""
    with kube_scheduler(plane, profile) as kube, Stage(plane) as stage:
        yield Run(stage, kube, policies or Profile.default().policies, seed=seed)


def write_down(folder: Path, disagreement: Disagreement) -> Path:
    """Keep a disagreement in a file of its own."""
    path = folder / f"seed-{disagreement.seed}-case-{disagreement.case.number}.yaml"
    path.write_text(disagreement.told())
    return path


def _about(found: Sequence[str]) -> str:
    """What the first difference is about: a smaller case that differs in something else is another case."""
    return found[0].partition(":")[0].partition(" for ")[0] if found else ""


def _commented(who: str, answer: Answer) -> str:
    return "\n".join(f"# {line}" for line in (f"{who} says:", *answer.told().splitlines()))
