"""A cluster as manifests, and a pod that is to be placed in it: all that a case is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

Json = dict[str, Any]

HOLD = "parity.example/hold"
"""A finalizer: whatever carries it is deleted as soon as it was made, and stays, terminating."""

NEVER = "never-preempts"
"""The priority class of nearly all pods: eviction is another test's business."""
RUNTIME = "with-overhead"
"""A runtime class whose pods need something for themselves."""


@dataclass(frozen=True)
class World:
    """Objects of a cluster, each with its kind. Pods among them are placed: they name their node."""

    objects: tuple[Json, ...] = ()

    def of_kind(self, *kinds: str) -> Iterator[Json]:
        """The objects of some kinds."""
        return (one for one in self.objects if one["kind"] in kinds)

    @property
    def nodes(self) -> list[Json]:
        """The nodes."""
        return list(self.of_kind("Node"))

    @property
    def pods(self) -> list[Json]:
        """The placed pods."""
        return list(self.of_kind("Pod"))

    def plus(self, *more: Json) -> World:
        """The same with more objects."""
        return replace(self, objects=(*self.objects, *more))

    def minus(self, gone: Iterable[Json]) -> World:
        """The same without some objects; without a node, its pods go too."""
        away = list(gone)
        nodes = {one["metadata"]["name"] for one in away if one["kind"] == "Node"}
        kept = (
            one
            for one in self.objects
            if one not in away and not (one["kind"] == "Pod" and one["spec"]["nodeName"] in nodes)
        )
        return replace(self, objects=tuple(kept))


@dataclass(frozen=True)
class Case:
    """One pod in one cluster."""

    number: int
    world: World
    pod: Json


@dataclass(frozen=True)
class Round:
    """A cluster, and pods that are tried in it one after another; some stay, on a node of their own."""

    number: int
    world: World
    steps: tuple[Step, ...] = field(default=())


@dataclass(frozen=True)
class Step:
    """A pod to be tried, and a pod that is placed before, if any."""

    pod: Json
    first: Json | None = None


def meta(one: Json) -> tuple[str, str]:
    """Namespace and name."""
    return one["metadata"].get("namespace", ""), one["metadata"]["name"]
