"""Load: what nodes really use, as a source measures it.

Filter   refuses nodes above a limit, until they are below another one; or those that nobody measured.
Score    headroom: 100 where nothing is used, 0 where all is; the weighted mean over the columns.
Reads    columns of sources, and what pods have requested since those were read.
"""

from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Pod, Reason, Source, Verdict, blocks

Floats = NDArray[np.float64]
Limit = Annotated[float, msgspec.Meta(ge=0)]

_NO_FRACTION = 10
"""A limit above this cannot be a fraction, so percent was meant; with a ``resource`` already above 1."""
_HEADROOM_UNKNOWN = {"pass": 100.0, "last": 0.0}
"""Of nodes without a value; the others have no opinion on them."""


class LoadColumn(Args):
    """One measured value."""

    source: Annotated[str, msgspec.Meta(min_length=1)]
    """The column: ``NAME`` of a source, or ``NAME.COLUMN`` where it has several."""
    resource: str | None = None
    """What is measured: ``cpu``, ``memory`` or any other resource; needed to count placed pods."""
    unit: Literal["fraction", "percent", "absolute"] = "fraction"
    """1 is all of it, 100 is all of it, or an amount: cores for ``cpu``, bytes for ``memory``."""
    refuse_above: Limit | None = None
    """Nodes above this are refused; in the source's own unit."""
    until: Limit | None = None
    """A node that was refused stays so until it is below this; ``refuseAbove`` where it is left out."""
    weight: Annotated[float, msgspec.Meta(ge=0, le=1_000_000)] = 1.0
    """How much its headroom counts beside that of others; 0 where only the limit counts."""
    count_placed: bool | None = None
    """Add what pods have requested since the reading, and what this one does; true with a ``resource``."""
    on_missing: Literal["pass", "fail", "neutral", "last"] = "neutral"
    """A node without a value is as good as an idle one, is refused, is neither, or comes last."""

    def __post_init__(self) -> None:
        if self.resource is not None:
            blocks.ResourceWeight(name=self.resource)
        elif self.unit == "absolute" or self.count_placed:
            raise ValueError(f"{self.source}: `resource` is missing: an amount needs to know of what")
        if self.until is not None and self.refuse_above is None:
            raise ValueError(f"{self.source}: `until` without `refuseAbove`")
        if (self.until or 0) > (self.refuse_above or 0):
            raise ValueError(f"{self.source}: `until` is higher than `refuseAbove`")
        self._check_unit()
        if self.refuse_above is None and not self.weight and self.on_missing != "fail":
            raise ValueError(f"{self.source}: says nothing; give `refuseAbove` or a `weight`")

    def _check_unit(self) -> None:
        """A limit in the wrong unit refuses nobody, or nearly all."""
        for key, limit in {"refuseAbove": self.refuse_above, "until": self.until}.items():
            # What is no resource, such as a load average by core, may well be above 1.
            if (
                limit is not None
                and self.unit == "fraction"
                and limit > (1 if self.resource else _NO_FRACTION)
            ):
                raise ValueError(
                    f"{self.source}: `{key}: {limit:g}` is more than all, since 1 is all of it;"
                    f" did you mean {limit / 100:g}, or `unit: percent`?"
                )
            if limit and self.unit == "percent" and limit < 1:
                raise ValueError(
                    f"{self.source}: `{key}: {limit:g}` is less than one percent;"
                    f" did you mean {100 * limit:g}, or `unit: fraction`?"
                )


class LoadArgs(Args):
    """Settings of `Load`."""

    columns: Annotated[tuple[LoadColumn, ...], msgspec.Meta(min_length=1)]
    """What is measured."""

    def __post_init__(self) -> None:
        names = [column.source for column in self.columns]
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"source {twice!r} is there twice")


@bayplan.policy
class Load:
    """Refuse nodes that are busy; prefer those with headroom."""

    def __init__(self, args: LoadArgs) -> None:
        self._columns = tuple(_Column.of(column) for column in args.columns)
        # Named here, so that the required sources are known when the policy is loaded.
        self._sources = tuple(column.source for column in self._columns)
        self._latches = tuple(column.latch for column in self._columns if column.latch is not None)
        self._weights = np.array([[column.weight] for column in args.columns])

    @bayplan.filter(reads="pods")
    def calm(self, pod: Pod, nodes: NodeTable) -> Verdict | None:
        """No value may be above its limit, nor come above it with this pod."""
        verdicts = [verdict for column in self._columns for verdict in column.verdicts(pod, nodes)]
        return reduce(or_, verdicts) if verdicts else None

    @bayplan.score(range=(0, 100), reads="pods")
    def headroom(self, pod: Pod, nodes: NodeTable) -> Floats:
        """What is not used, in percent."""
        free = np.array([column.headroom(pod, nodes) for column in self._columns])
        weights = np.where(np.isnan(free), 0.0, self._weights)
        total = weights.sum(axis=0)
        summed = (weights * np.nan_to_num(free)).sum(axis=0)
        mean: Floats = np.divide(summed, total, out=np.full(len(nodes), np.nan), where=total > 0)
        return mean


@dataclass(frozen=True)
class _Column:
    """A column with its limit and its reasons, ready to be read."""

    args: LoadColumn
    source: Source
    latch: Any
    above: Reason
    latched: Reason
    would_be: Reason
    unknown: Reason

    @classmethod
    def of(cls, args: LoadColumn) -> "_Column":
        source = Source(args.source)
        limit = args.refuse_above
        until = limit if args.until is None else args.until
        topics = frozenset({f"source:{source.source}"})
        over = f"above {limit:g}" if limit is not None else ""
        return cls(
            args,
            source,
            latch=None if limit is None or until is None else source.latched(above=limit, below=until),
            above=Reason(f"{args.source} is {over}", detail="{value:.4g}", helped_by=topics),
            latched=Reason(
                f"{args.source} was {over} and is not below {until or 0:g} yet",
                detail="{value:.4g}",
                helped_by=topics,
            ),
            would_be=Reason(
                f"{args.source} would be {over} with this pod",
                detail="{value:.4g}, and {added:.4g} more with this pod and those that just came",
                helped_by=topics | {"pods"},
            ),
            unknown=Reason(f"{args.source} is not known", helped_by=topics),
        )

    def verdicts(self, pod: Pod, nodes: NodeTable) -> list[Verdict]:
        """Why nodes are refused, the plainest reason first."""
        value: Floats = nodes[self.source]
        known = ~np.isnan(value)
        found = [self.unknown.where(~known)] if self.args.on_missing == "fail" else []
        limit = self.args.refuse_above
        if limit is not None:
            added = self._added(pod, nodes)
            found += [
                self.above.where(value > limit, value=value),
                # The latch does not count for a node without a current value.
                self.latched.where(known & nodes[self.latch], value=value),
                self.would_be.where(value + added > limit, value=value, added=added),
            ]
        return found

    def headroom(self, pod: Pod, nodes: NodeTable) -> Floats:
        """What is left once the pod is there, in percent of all; NaN for no opinion."""
        used = (nodes[self.source] + self._added(pod, nodes)) / self._whole(nodes)
        free: Floats = 100.0 * (1.0 - used).clip(0.0, 1.0)
        missing = _HEADROOM_UNKNOWN.get(self.args.on_missing)
        return free if missing is None else np.where(np.isnan(nodes[self.source]), missing, free)

    def _added(self, pod: Pod, nodes: NodeTable) -> Floats:
        """What pods requested since the reading, plus this pod, in the unit of the value."""
        resource = self.args.resource
        if resource is None or self.args.count_placed is False:
            return np.zeros(len(nodes))
        asked = 1 if resource == "pods" else pod.request(resource)
        # Nothing is subtracted for pods that are gone: they may have used less than they requested.
        came = nodes.growth(resource, since=self.source).clip(min=0) + float(asked)
        allocatable = nodes[f"{resource}.allocatable"].astype(np.float64)
        share: Floats = np.divide(came, allocatable, out=np.zeros(len(nodes)), where=allocatable > 0)
        return share * self._whole(nodes)

    def _whole(self, nodes: NodeTable) -> Floats:
        """What all of a node is in the source's unit; NaN where it has none."""
        if self.args.unit != "absolute":
            return np.full(len(nodes), 100.0 if self.args.unit == "percent" else 1.0)
        resource = self.args.resource
        allocatable = nodes[f"{resource}.allocatable"] / (1000.0 if resource == "cpu" else 1.0)
        return np.where(allocatable > 0, allocatable, np.nan)
