"""Metrics that policies define themselves; each edition has its own registry, which goes with it.

``Counter("licences", "...")`` in a policy registers in the global registry of `prometheus_client`.
There a second load would collide with the first one's counter, and a refused load would leave
its own behind. So what a policy registers there is put into a registry of its edition instead.
"""

import logging
import sys
from collections.abc import Iterable
from weakref import WeakKeyDictionary

from prometheus_client import (
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    REGISTRY,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from bayplan.authoring.editions import Edition, edition_of
from bayplan.ops.logs import Sparingly

log = logging.getLogger(__name__)

_warnings = Sparingly()
_registries: WeakKeyDictionary[Edition, CollectorRegistry] = WeakKeyDictionary()
# Bayplan exports its own process metrics, without those of the garbage collector.
_EVERYBODYS = {
    family.name
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR)
    for family in collector.collect()
}
_register_for_everybody = REGISTRY.register


class Families(list[Metric]):
    """Metrics that are collected already."""

    def collect(self) -> Iterable[Metric]:
        """The metrics."""
        return self


def render_own(edition: Edition, taken: Iterable[str]) -> bytes:
    """What the policies of an edition measure, and libraries of theirs, without the names that are taken."""
    known = _EVERYBODYS | set(taken)
    found = Families()
    for registry in (_registries.get(edition), REGISTRY):
        if registry is None:
            continue
        try:
            for family in registry.collect():
                if family.name not in known:
                    known.add(family.name)
                    found.append(family)
        except Exception as error:
            _warnings.warn(log, "own metrics", f"metrics of policies cannot be read: {error!r}")
    try:
        return generate_latest(found)
    except Exception as error:
        _warnings.warn(log, "own metrics", f"metrics of policies cannot be written: {error!r}")
        return b""


def _register(collector: Collector) -> None:
    edition = _maker()
    if edition is None:
        _register_for_everybody(collector)
    else:
        _registries.setdefault(edition, CollectorRegistry(auto_describe=True)).register(collector)


def _maker() -> Edition | None:
    """The edition whose code is making the metric; ``None`` for a library's own, which is imported once."""
    frame = sys._getframe(2)
    while frame is not None:
        edition = edition_of(frame.f_globals.get("__name__", ""))
        if edition is not None or frame.f_code.co_name == "<module>":
            return edition
        frame = frame.f_back  # type: ignore[assignment]
    return None


REGISTRY.register = _register  # type: ignore[method-assign]
