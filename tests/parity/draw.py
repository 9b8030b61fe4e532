"""Small choices that every part of the generator makes: labels, selectors, amounts; all out of one seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

T = TypeVar("T")
Json = dict[str, Any]

ZONE, REGION, HOST = "topology.kubernetes.io/zone", "topology.kubernetes.io/region", "kubernetes.io/hostname"
ZONES = ("land-north1-a", "land-north1-b", "land-north1-c")
"""Named as Google Cloud does: kube-scheduler reads the region of a built-in disk out of the zone."""
NAMESPACES = ("default", "team-a", "team-b")
APPS = ("web", "db", "cache")
TIERS = ("front", "back")
GPU, HUGE = "example.com/gpu", "hugepages-2Mi"


class Draw(random.Random):
    """A seeded source of choices."""

    def chance(self, percent: float) -> bool:
        """True so many times in a hundred."""
        return self.random() * 100 < percent

    def some(self, values: Sequence[T], at_most: int | None = None) -> list[T]:
        """A few different ones, at least one."""
        return self.sample(values, self.randint(1, min(len(values), at_most or len(values))))

    def pod_labels(self) -> dict[str, str]:
        """Labels of a pod, out of few, so that selectors meet them."""
        labels = {"app": self.choice(APPS)}
        if self.chance(50):
            labels["tier"] = self.choice(TIERS)
        if self.chance(30):
            labels["pod-template-hash"] = self.choice(("1a", "2b"))
        return {} if self.chance(5) else labels

    def selector(self) -> Json | None:
        """A label selector over pods: sometimes an empty one, sometimes none at all."""
        kind = self.random()
        if kind < 0.05:
            return None
        if kind < 0.12:
            return {}
        if kind < 0.6:
            return {"matchLabels": {"app": self.choice(APPS)}}
        return {"matchExpressions": [self.expression() for _ in range(self.randint(1, 2))]}

    def expression(self) -> Json:
        """One expression of a label selector over pods."""
        key, values = self.choice((("app", APPS), ("tier", TIERS)))
        operator = self.choice(("In", "NotIn", "Exists", "DoesNotExist"))
        if operator in ("In", "NotIn"):
            return {"key": key, "operator": operator, "values": self.some(values, 2)}
        return {"key": key, "operator": operator}

    def topology(self) -> str:
        """A label of nodes that says where they are."""
        return self.choice((ZONE, ZONE, HOST, HOST, REGION, "rack"))

    def cpu(self) -> str:
        """An amount of CPU, in one of the ways to write it."""
        return self.choice(("0", "1m", "0.1", "100m", "250m", "0.5", "1", "1.5", "2", "1500m", "1e0", "4"))

    def memory(self) -> str:
        """An amount of memory, in one of the ways to write it."""
        return self.choice(
            (
                "0",
                "1",
                "1e3",
                "1500m",
                "64Mi",
                "129M",
                "128974848",
                "256Mi",
                "0.5Gi",
                "1G",
                "1Gi",
                "1500000k",
                "2Gi",
            )
        )
