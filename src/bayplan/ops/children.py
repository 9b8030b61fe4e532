"""Caches the children of a metric by labels: prometheus_client looks them up under a lock each time."""

from typing import Generic, Protocol, TypeVar

M_co = TypeVar("M_co", covariant=True)


class _Labelled(Protocol[M_co]):
    def labels(self, *labels: str) -> M_co: ...


class Children(Generic[M_co]):
    """The children of one metric whose labels are never removed."""

    def __init__(self, metric: _Labelled[M_co]) -> None:
        self._metric = metric
        self._known: dict[tuple[str, ...], M_co] = {}

    def __call__(self, *labels: str) -> M_co:
        """The child for these labels."""
        known = self._known.get(labels)
        if known is None:
            known = self._known[labels] = self._metric.labels(*labels)
        return known
