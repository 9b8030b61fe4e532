"""``python -m tests.parity.preemption``: whom kube-scheduler evicts, and whom Bayplan would.

A case is a full cluster and a pod that fits only when somebody leaves. kube-scheduler gets it for real; what
it does must be one of the answers that Bayplan holds for best, its message Bayplan's word for word.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial

import yaml

from bayplan.authoring.registry import Policy
from bayplan.config.profile import Profile
from tests.controlplane.binaries import find_or_build, say_on_stderr
from tests.controlplane.plane import ControlPlane
from tests.controlplane.waiting import wait_until
from tests.parity.crowded import NAMESPACES, crowded_case, rank_classes
from tests.parity.evictions import Evictor, Made, evictor
from tests.parity.expected import Expected, expected
from tests.parity.shrink import shrink
from tests.parity.stage import Stage
from tests.parity.world import NEVER, Case, Json, World

TRIES = 2
"""kube-scheduler's view of nodes and budgets lags by milliseconds: only what differs twice counts."""


@dataclass(frozen=True)
class Disagreement:
    """A case about which the two sides differ, as small as it could be made."""

    case: Case
    kube: Made
    ours: Expected

    def told(self) -> str:
        """Both sides and the case, for people."""
        return "\n".join(
            (
                f"# case {self.case.number}",
                *(f"# kube-scheduler: {line}" for line in self.kube.told().splitlines()),
                *(f"# Bayplan: {line}" for line in self.ours.told().splitlines()),
                yaml.safe_dump_all([*self.case.world.objects, self.case.pod], sort_keys=False),
            )
        )


@dataclass
class Report:
    """What a run has found so far."""

    seed: int
    cases: int = 0
    repeats: int = 0
    seconds: float = 0.0
    seen: Counter[str] = field(default_factory=Counter)
    """Cases of each sort."""
    disagreements: list[Disagreement] = field(default_factory=list)

    def figure(self) -> str:
        """The one line that counts."""
        return (
            f"preemption: {self.cases} cases, {len(self.disagreements)} disagreements, seed {self.seed}"
            f" ({self.repeats} asked again, {self.seconds:.0f} s)"
        )

    def table(self) -> str:
        """How many cases were of each sort."""
        return "\n".join(f"{count:>6}  {name}" for name, count in self.seen.most_common())


class Run:
    """Both sides at work on the cases of one seed."""

    def __init__(
        self, plane: ControlPlane, stage: Stage, kube: Evictor, policies: Sequence[Policy], *, seed: int
    ) -> None:
        self._plane = plane
        self._stage = stage
        self._kube = kube
        self._policies = policies
        self._names = 0
        self.report = Report(seed)

    def cases(self, count: int, tell: Callable[[Disagreement], None]) -> Report:
        """Try so many cases; `tell` is called with each that does not agree."""
        begun = time.monotonic()
        for number in range(count):
            case = crowded_case(self.report.seed, number)
            kube, ours = self.judge(case.world, case.pod)
            self.report.cases += 1
            self.report.seen.update(_sorts(kube, ours))
            if kube not in ours.answers:
                found = self._smallest(case, kube, ours)
                self.report.disagreements.append(found)
                tell(found)
            self.report.seconds = time.monotonic() - begun
        return self.report

    def judge(self, world: World, pod: Json) -> tuple[Made, Expected]:
        """What both do about one pod, asked again where they differ."""
        for attempt in range(TRIES):
            self._stage.put(world)
            kube, ours = self._ask(pod)
            if kube in ours.answers:
                self.report.repeats += attempt > 0
                break
        return kube, ours

    def _ask(self, pod: Json) -> tuple[Made, Expected]:
        fresh = self._named(pod)
        nudge = self._named(_NUDGE)
        cluster = self._stage.snapshot()
        self._kube.done()
        created = self._stage.create(fresh)
        before = {one.key for one in cluster.pods}
        kube = self._kube.made(created.key, before, self._listed, lambda: self._stage.create(nudge).key)
        for one in (fresh, nudge):
            self._stage.delete(one)
        return kube, expected(self._policies, created, cluster)

    def _listed(self) -> dict[str, Json]:
        return {
            f"{one['metadata']['namespace']}/{one['metadata']['name']}": one
            for one in self._plane.api.items("pods", None)
        }

    def _named(self, pod: Json) -> Json:
        self._names += 1
        return {**pod, "metadata": {**pod["metadata"], "name": f"{pod['metadata']['name']}-{self._names}"}}

    def _smallest(self, case: Case, kube: Made, ours: Expected) -> Disagreement:
        last = [(kube, ours)]
        about = bool(kube.node), bool(ours.evictions)

        def differs(world: World, pod: Json) -> bool:
            kube, ours = self.judge(world, pod)
            # One that differs in something else is another case.
            bad = kube not in ours.answers and about == (bool(kube.node), bool(ours.evictions))
            if bad:
                last[0] = kube, ours
            return bad

        world, pod = shrink(case.world, case.pod, differs)
        return Disagreement(Case(case.number, world, pod), *last[0])


_NUDGE: Json = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "nudge", "namespace": "default"},
    "spec": {
        "priorityClassName": NEVER,
        "nodeSelector": {"nowhere": "yes"},
        "containers": [{"name": "main", "image": "registry.example/none"}],
    },
}


_TOLD = {
    "not eligible": "told: it may not evict",
    "No preemption victims": "told: nobody of lower priority",
    "is not helpful": "told: refused for what no eviction changes",
    "Insufficient": "told: too little even once all have left",
    "node(s)": "told: a rule still refuses once all have left",
}
_SHOWN: dict[str, Callable[[Made, Expected], object]] = {
    "one evicted": lambda kube, _: len(kube.victims) == 1,
    "two evicted": lambda kube, _: len(kube.victims) == 2,
    "more evicted": lambda kube, _: len(kube.victims) > 2,
    "several nodes to choose from": lambda _, ours: len(ours.evictions) > 1,
    "several answers are best": lambda _, ours: len(ours.answers) > 1,
    "pods of equal importance": lambda _, ours: ours.orders > 1,
    "a budget is broken": lambda kube, ours: any(one.violations for one in ours.on(kube.node)),
    "a budget is kept": lambda kube, ours: (
        any(one.violations for one in ours.evictions)
        and not any(one.violations for one in ours.on(kube.node))
    ),
    "a victim was terminating before": lambda kube, ours: any(
        pod.terminating for one in ours.on(kube.node) for pod in one.victims
    ),
}
SORTS = frozenset({"placed at once", "nobody evicted", *_TOLD.values(), *_SHOWN})
"""What a case can show."""


def _sorts(kube: Made, ours: Expected) -> Iterator[str]:
    """What the case has shown."""
    if not kube.message:
        yield "placed at once"
    elif not kube.node:
        yield "nobody evicted"
        why = kube.message.partition("preemption:")[2]
        yield from (name for text, name in _TOLD.items() if text in why)
    else:
        yield from (name for name, holds in _SHOWN.items() if holds(kube, ours))


@contextmanager
def both(plane: ControlPlane, *, seed: int) -> Iterator[Run]:
    """A run, ready to begin, on an empty control plane."""
    classes = rank_classes()
    with Stage(plane) as stage, evictor(plane) as kube:
        for one in classes:
            plane.api.create("priorityclasses", one)
        for namespace in NAMESPACES[1:]:
            plane.api.create_namespace(namespace)
        for one in classes:
            known = partial(plane.api.admits, one["metadata"]["name"], one["value"])
            wait_until(known, 30.0, what="the priority class is known")
        yield Run(plane, stage, kube, Profile.default().policies, seed=seed)
        for one in classes:
            plane.api.delete("priorityclasses", one["metadata"]["name"])


def main() -> int:
    """Run, tell, and say how it went."""
    parser = argparse.ArgumentParser(prog="parity.preemption", description=__doc__)
    parser.add_argument("--cases", type=int, default=500)
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with (
        ControlPlane(find_or_build(say=say_on_stderr)) as plane,
        both(plane, seed=asked.seed) as run,
    ):
        report = run.cases(asked.cases, lambda found: print(found.told(), flush=True))
    print(report.table())
    print(report.figure())
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
