"""Whoever follows a large cluster: how soon it is ready, what it weighs, and what an event costs it."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Self

from bench.process import cpu_seconds, memory_mb
from tests.controlplane.processes import Child
from tests.controlplane.waiting import wait_until
from tests.e2e.extender import Extender

ROOT = Path(__file__).parents[1]
_READY_SECONDS, _CAUGHT_UP_SECONDS = 180.0, 120.0
# Looking costs whoever is looked at; the time of an event is of the processor, so being late costs nothing.
_LOOK_SECONDS = 0.25


class Follower(Protocol):
    """A program that knows the cluster, and runs inside its ``with`` block."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        ...

    @property
    def child(self) -> Child:
        """The process."""
        ...

    def counts(self) -> tuple[int, int]:
        """How many nodes and pods it knows."""
        ...

    def __enter__(self) -> Self:
        """Start it, and return when it is ready."""
        ...

    def __exit__(self, *_: object) -> None:
        """Stop it."""
        ...


class Bayplan:
    """``bayplan serve``, ready when its own port says so."""

    name = "Bayplan"

    def __init__(self, extender: Extender) -> None:
        self._extender = extender

    @property
    def child(self) -> Child:
        """The process."""
        return self._extender.child

    def counts(self) -> tuple[int, int]:
        """What its metrics say of its view."""
        nodes, pods = (self._extender.metric(f"bayplan_view_{kind}") for kind in ("nodes", "pods"))
        return int(nodes), int(pods)

    def __enter__(self) -> Self:
        self._extender.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._extender.__exit__(None, None, None)


class Naive:
    """`bench.state_naive`, ready when it has printed that it has everything."""

    name = "plain json"
    child: Child

    def __init__(self, server: str, ca: Path, *, folder: Path) -> None:
        self._argv = [sys.executable, "-m", "bench.state_naive", server, str(ca)]
        self._log = folder / "naive.log"

    def counts(self) -> tuple[int, int]:
        """What it has printed last."""
        said = self.child.log()
        nodes, pods = (re.findall(rf"{kind} (\d+)", said) for kind in ("nodes", "pods"))
        return int(nodes[-1]), int(pods[-1])

    def __enter__(self) -> Self:
        self._log.unlink(missing_ok=True)
        self.child = Child(self.name, self._argv, log=self._log, env={"PYTHONPATH": str(ROOT)})
        self.child.wait_until(lambda: "pods" in self.child.log(), _READY_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        self.child.stop()


@dataclass(frozen=True)
class Start:
    """One start: how long until it was ready, and its memory then."""

    seconds: float
    nodes: int
    pods: int
    resident_mb: float
    peak_mb: float


@contextmanager
def started(follower: Follower) -> Iterator[Start]:
    """Start it, and see what it is like when it is ready; it runs until the block ends."""
    began = time.monotonic()
    with follower:
        seconds = time.monotonic() - began
        nodes, pods = follower.counts()
        pid = follower.child.pid
        yield Start(seconds, nodes, pods, memory_mb(pid, "VmRSS"), memory_mb(pid, "VmHWM"))


def event_microseconds(follower: Follower, let_happen: Callable[[], None], *, events: int) -> float:
    """Processor time that it takes to read, decode and apply one of many events; the last one adds a pod."""
    _, pods = follower.counts()
    pid = follower.child.pid
    before = cpu_seconds(pid)
    let_happen()
    wait_until(
        lambda: follower.counts()[1] > pods,
        _CAUGHT_UP_SECONDS,
        what=f"{follower.name} has seen {events} events",
        poll_seconds=_LOOK_SECONDS,
    )
    return 1e6 * (cpu_seconds(pid) - before) / events
