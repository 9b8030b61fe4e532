"""What the server really exposes, to hold rules and dashboards against."""

import re
from collections.abc import Iterator

from bayplan.ops.metrics import Metrics

NAME = re.compile(r"\b(?:bayplan|process)_\w+")
SELECTOR = re.compile(r"\b(bayplan_\w+)\{([^}]*)\}")
_SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count")}
# What Prometheus adds to every series.
TARGET_LABELS = {"job", "instance", "namespace"}


def samples() -> dict[str, set[str]]:
    """Names of the series, each with its labels."""
    found: dict[str, set[str]] = {}
    metrics = Metrics(version="0")
    own = {
        kind._name: set(kind._labelnames)
        for kind in (*vars(metrics).values(), *vars(metrics.shadow).values())
        if hasattr(kind, "_labelnames")
    }
    own["bayplan_info"] = {"version", "python"}
    for family in metrics.registry.collect():
        for suffix in _SUFFIXES.get(family.type, ("",)):
            extra = {"le"} if suffix == "_bucket" else set()
            found[family.name + suffix] = own.get(family.name, set()) | extra
    return found


def strangers(expression: str, *, but: set[str] = frozenset()) -> Iterator[str]:  # type: ignore[assignment]
    """Metrics and labels in an expression that the server does not have."""
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
