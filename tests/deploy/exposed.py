"""What server and scheduler really expose, to hold rules and dashboards against."""

import re
from collections.abc import Iterator

from prometheus_client import CollectorRegistry

from bayplan.ops.metrics import Metrics
from bayplan.ops.schedule_metrics import ScheduleMetrics

NAME = re.compile(r"\b(?:bayplan|process)_\w+")
SELECTOR = re.compile(r"\b(bayplan_\w+)\{([^}]*)\}")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
# What Prometheus adds to every series.
TARGET_LABELS = {"job", "instance", "namespace"}


def samples() -> dict[str, set[str]]:
    """Names of the series, each with its labels."""
    metrics = Metrics(version="0")
    return {
        **_series(metrics.registry, metrics, metrics.shadow, metrics.sources),
        "bayplan_info": {"version", "python"},
        **scheduler_samples(),
    }


def scheduler_samples() -> dict[str, set[str]]:
    """Those that ``bayplan schedule`` has and ``bayplan serve`` has not."""
    registry = CollectorRegistry()
    return _series(registry, ScheduleMetrics(registry))


def _series(registry: CollectorRegistry, *owners: object) -> dict[str, set[str]]:
    kinds = [kind for owner in owners for kind in vars(owner).values() if hasattr(kind, "_labelnames")]
    own = {kind._name: set(kind._labelnames) for kind in kinds}
    found: dict[str, set[str]] = {}
    for family in registry.collect():
        for suffix in _SUFFIXES.get(family.type, ("",)):
            extra = {"le"} if suffix == "_bucket" else set()
            found[family.name + suffix] = own.get(family.name, set()) | extra
    return found


def strangers(expression: str, *, but: set[str] = frozenset()) -> Iterator[str]:  # type: ignore[assignment]
    """Metrics and labels in an expression that neither of them has."""
    known = samples()
    for recorded in but:
        expression = expression.replace(recorded, "")
    for name in NAME.findall(expression):
        if name not in known:
            yield name
    for name, selector in SELECTOR.findall(expression):
        for label in re.findall(r"(\w+)\s*(?:=|!=|=~|!~)\s*\"", selector):
            if label not in known.get(name, set()) | TARGET_LABELS:
                yield f"{name}{{{label}}}"
