"""One run of the cluster benchmark: pods wait, kube-scheduler starts, and places them all.

kube-scheduler writes an Event for each pod that it has bound, and etcd counts them cheaply. The time goes
from the first Event to the last, so all work for all pods is in it. Two looks in the middle of a run would
not do: hundreds of pods are under way at each of them, and their number alone makes a run fast or slow.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.busy import Busy
from bench.cluster_metrics import ALGORITHM_SECONDS, ATTEMPT_SECONDS, attempts, durations
from bench.cluster_variants import NONE, Asked, Variant, asked
from bench.cluster_world import World
from bench.process import cpu_seconds
from tests.controlplane.scheduler import Scheduler

# A run takes some seconds, and etcd a millisecond to count.
_COUNT_SECONDS = 0.05
_STANDSTILL_SECONDS = 60.0


@dataclass(frozen=True)
class Quantiles:
    """Milliseconds, from a histogram of kube-scheduler."""

    p50: float
    p99: float

    @classmethod
    def of(cls, page: str, name: str) -> Quantiles:
        """Of what was observed since kube-scheduler started."""
        seen = durations(page, name)
        return cls(*(1000 * seen.quantile(share) for share in (0.5, 0.99)))


@dataclass(frozen=True)
class Figures:
    """What was measured between the first Event and the last; the durations are of all pods."""

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
class Moment:
    """How many pods had an Event at some time, and the CPU that each program had used by then."""

    at: float
    events: int
    cpu_seconds: Mapping[str, float]
    busy: Busy
    """The whole machine from then on."""


def run(world: World, variant: Variant, *, number: int, nodes: int, pods: int, folder: Path) -> Run:
    """Let `variant` place all pods, and leave the cluster as it was."""
    folder.mkdir(parents=True)
    with world.waiting_pods(pods):
        collections = world.collections()
        with asked(variant, world.plane, folder=folder, nodes=world.file) as extender:
            extenders = [extender.entry] if extender else []
            with world.plane.scheduler(extenders=extenders) as scheduler:
                first = _moment(world, scheduler, extender, events=1)
                last = _moment(world, scheduler, extender, events=pods)
                others_cores = _others_cores(first, last)
                page = scheduler.metrics()
        problems = wrong_attempts(page) + missing_events(last.events, pods)
        problems += garbage_collected(world.collections() - collections)
        if variant.key != NONE:
            problems += wrong_places(world.places(), world.ssd)
    figures = between(first, last, page=page, others_cores=others_cores)
    if figures is None:
        problems.append("hardly a pod was placed between two looks: take more pods")
    return Run(variant.key, nodes, number, tuple(problems), figures)


def between(first: Moment, last: Moment, *, page: str, others_cores: float = 0.0) -> Figures | None:
    """The figures from one moment to the other; nothing where no pod was placed between them.

    `page` are kube-scheduler's metrics after both.
    """
    if first.events == last.events:
        return None
    used = {name: last.cpu_seconds[name] - before for name, before in first.cpu_seconds.items()}
    return Figures(
        pods=last.events - first.events,
        seconds=last.at - first.at,
        attempt=Quantiles.of(page, ATTEMPT_SECONDS),
        algorithm=Quantiles.of(page, ALGORITHM_SECONDS),
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


def missing_events(written: int, pods: int) -> list[str]:
    """Pods without an Event: they are not bound, or kube-scheduler gave their Event up."""
    return [] if written == pods else [f"{written:,} Events for {pods:,} pods"]


def garbage_collected(times: int) -> list[str]:
    """Collections of garbage by the API server: each is work that other runs did not have."""
    return [f"the API server collected garbage {times} times"] if times else []


def _moment(world: World, scheduler: Scheduler, extender: Asked | None, *, events: int) -> Moment:
    """When so many Events are written; or later, where no more of them come."""
    written, deadline = -1, 0.0
    while True:
        found = world.events()
        now = time.monotonic()
        if found > written:
            written, deadline = found, now + _STANDSTILL_SECONDS
        if found >= events or now > deadline:
            break
        world.plane.check()
        for child in world.plane.api.watched:
            child.check()
        if extender is not None:
            extender.child.check()
        time.sleep(_COUNT_SECONDS)
    used = {"scheduler": cpu_seconds(scheduler.pid), "served": world.served_seconds()}
    if extender is not None:
        used["extender"] = cpu_seconds(extender.child.pid)
    return Moment(now, found, used, Busy())


def _others_cores(first: Moment, last: Moment) -> float:
    """What programs used that have nothing to do with the run, from the first moment until now."""
    ours = sum(last.cpu_seconds.values()) - sum(first.cpu_seconds.values())
    return max(0.0, first.busy.by_others() - ours / max(last.at - first.at, 1e-9))
