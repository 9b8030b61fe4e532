"""One run of the cluster benchmark: pods wait, kube-scheduler starts, and places them all.

What is measured lies between two looks at kube-scheduler's own metrics: the first that finds pods bound, and
the last that finds some still waiting. Both the time and the count of a look are exact, so neither the start
of the scheduler nor the pause between two looks is part of the figures.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.busy import Busy
from bench.cluster_metrics import ALGORITHM_SECONDS, ATTEMPT_SECONDS, attempts, durations
from bench.cluster_variants import NONE, Asked, Variant, asked
from bench.cluster_world import World
from bench.process import cpu_seconds
from tests.controlplane.scheduler import Scheduler
from tests.controlplane.waiting import Timeout

_LIMIT_SECONDS = 600.0
# Each look costs kube-scheduler some 10 ms: its page has 270 KB.
_LOOK_SECONDS = 0.5


@dataclass(frozen=True)
class Quantiles:
    """Milliseconds, from a histogram of kube-scheduler."""

    p50: float
    p99: float

    @classmethod
    def between(cls, before: str, after: str, *, name: str) -> Quantiles:
        """Of what was observed between two looks."""
        seen = durations(after, name) - durations(before, name)
        return cls(*(1000 * seen.quantile(share) for share in (0.5, 0.99)))


@dataclass(frozen=True)
class Figures:
    """What was measured between the two looks."""

    pods: int
    seconds: float
    attempt: Quantiles
    """From the pod's turn to its bind."""
    algorithm: Quantiles
    """From the pod's turn to the choice of a node."""
    extender_cpu_seconds: float | None
    scheduler_cpu_seconds: float
    served_cpu_seconds: float
    """Of the API server and etcd."""
    others_cores: float
    """What programs that have nothing to do with it kept busy meanwhile."""

    @property
    def rate(self) -> float:
        """Pods a second."""
        return self.pods / self.seconds


@dataclass(frozen=True)
class Run:
    """One variant in one round."""

    variant: str
    nodes: int
    round: int
    problems: tuple[str, ...]
    """Why it does not count."""
    figures: Figures | None
    """Nothing where there was nothing to measure."""

    @property
    def rate(self) -> float | None:
        """Pods a second, where it counts."""
        return self.figures.rate if self.figures is not None and not self.problems else None


@dataclass(frozen=True)
class Look:
    """A page of metrics, when it was made, and the CPU that each had used by then."""

    at: float
    page: str
    cpu_seconds: Mapping[str, float]
    busy: Busy
    """The whole machine from then on."""

    @property
    def bound(self) -> int:
        """How many pods were."""
        return attempts(self.page).get("scheduled", 0)


def run(world: World, variant: Variant, *, number: int, nodes: int, pods: int, folder: Path) -> Run:
    """Let `variant` place all pods, and leave the cluster as it was."""
    folder.mkdir(parents=True)
    with world.waiting_pods(pods):
        with asked(variant, world.plane, folder=folder, nodes=world.file) as extender:
            extenders = [extender.entry] if extender else []
            with world.plane.scheduler(extenders=extenders) as scheduler:
                looks = list(_looks(world, scheduler, extender, pods=pods))
                others_cores = _others_cores(looks)
        problems = wrong_attempts(looks[-1].page)
        if variant.key != NONE:
            problems += wrong_places(world.places(), world.ssd)
    figures = between(looks[:-1], others_cores=others_cores)
    if figures is None:
        problems.append("hardly a pod was bound between two looks: take more pods")
    return Run(variant.key, nodes, number, tuple(problems), figures)


def between(looks: Sequence[Look], *, others_cores: float = 0.0) -> Figures | None:
    """The figures between the first and the last look; nothing where no pod was bound between them."""
    if not looks or looks[0].bound == looks[-1].bound:
        return None
    first, last = looks[0], looks[-1]
    used = {name: last.cpu_seconds[name] - before for name, before in first.cpu_seconds.items()}
    return Figures(
        pods=last.bound - first.bound,
        seconds=last.at - first.at,
        attempt=Quantiles.between(first.page, last.page, name=ATTEMPT_SECONDS),
        algorithm=Quantiles.between(first.page, last.page, name=ALGORITHM_SECONDS),
        extender_cpu_seconds=used.get("extender"),
        scheduler_cpu_seconds=used["scheduler"],
        served_cpu_seconds=used["served"],
        others_cores=others_cores,
    )


def wrong_attempts(page: str) -> list[str]:
    """Attempts that ended in no bind: each is work that others did not have."""
    return [
        f"{count:,} attempts with the result {result}"
        for result, count in attempts(page).items()
        if result != "scheduled" and count
    ]


def wrong_places(places: Iterable[str | None], allowed: Collection[str]) -> list[str]:
    """Whether the extender was heeded: who asks nobody is fast."""
    elsewhere = sum(place not in allowed for place in places)
    return [f"{elsewhere:,} pods not on a node that the filter lets pass"] if elsewhere else []


def _looks(world: World, scheduler: Scheduler, extender: Asked | None, *, pods: int) -> Iterator[Look]:
    """One after the other, from the first that finds pods bound to the one that finds them all bound."""
    deadline = time.monotonic() + _LIMIT_SECONDS
    while time.monotonic() < deadline:
        world.plane.check()
        for child in world.plane.api.watched:
            child.check()
        used = {"scheduler": cpu_seconds(scheduler.pid), "served": world.served_seconds()}
        if extender is not None:
            extender.child.check()
            used["extender"] = cpu_seconds(extender.child.pid)
        asked_at, page = time.monotonic(), scheduler.metrics()
        look = Look((asked_at + time.monotonic()) / 2, page, used, Busy())
        if look.bound:
            yield look
        if look.bound >= pods:
            return
        time.sleep(_LOOK_SECONDS)
    raise Timeout(f"{pods:,} pods are bound: not within {_LIMIT_SECONDS:g} s\n{scheduler.child.log_tail()}")


def _others_cores(looks: Sequence[Look]) -> float:
    """What programs used that have nothing to do with the run, from the first look until now."""
    first, last = looks[0], looks[-1]
    ours = sum(last.cpu_seconds.values()) - sum(first.cpu_seconds.values())
    return max(0.0, first.busy.by_others() - ours / max(last.at - first.at, 1e-9))
