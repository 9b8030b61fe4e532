"""What a policy returns: a verdict with a reason for each refused node, or a score for each node."""

import re
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from string import Formatter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from bayplan.authoring.raised import encodable, printable, safe_text
from bayplan.kube.kinds import OBJECT_KINDS
from bayplan.kube.written import UNITS, written
from bayplan.kube.yaml import suggest
from bayplan.snapshot.table import NodeTable

# kube-scheduler joins all reasons into one event and cuts it at 1,024 characters.
REASON_LENGTH = 200
DETAIL_LENGTH = 2000
PASS = 0
_NEWS = frozenset({"nodes", "pods", "pod", "placed", "time", "*", *OBJECT_KINDS})
_SOURCE = "source:"


@dataclass(frozen=True)
class Reason:
    """Why a node is refused.

    ::

        FULL = Reason("too little CPU", detail="{free:cpu} free", preemptible=True)

        @bayplan.filter
        def fits(pod, nodes):
            free = nodes["cpu.free"]
            return FULL.where(free < pod.cpu_milli, free=free)

    ``text`` is constant: kube-scheduler counts equal texts ("3 too little CPU"), and it is a metric
    label. Numbers go into ``detail``, a format string that `where` fills in; ``bayplan why`` shows it.
    """

    text: str
    detail: str = field(default="", kw_only=True)
    preemptible: bool = field(default=False, kw_only=True)
    """Whether removing pods from the node could help."""
    helped_by: Set[str] = field(default=frozenset(), kw_only=True)
    """What could change the verdict: ``pods``, ``nodes``, ``time``, ``source:NAME``, or a kind of object."""
    also: tuple[str, ...] = field(default=(), kw_only=True)
    """Further texts that are counted for the same node: too little CPU, and too little memory."""
    of_pod: bool = field(default=False, kw_only=True)
    """Whether the reason is about the pod, not the node: the event then shows it once, without a count."""
    advice: str = field(default="", kw_only=True)
    """What to do about it, for ``bayplan why`` and the page; by default derived from ``helped_by``."""

    def __post_init__(self) -> None:
        text = " ".join(encodable(self.text).split())
        if not text:
            raise ValueError("a Reason needs a text: it is what people read in the pod's event")
        if len(text) > REASON_LENGTH:
            text = text[: REASON_LENGTH - 1] + "…"
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "detail", encodable(self.detail))
        object.__setattr__(self, "advice", encodable(self.advice))
        helped_by = frozenset({self.helped_by} if isinstance(self.helped_by, str) else self.helped_by)
        for topic in helped_by - _NEWS:
            if not topic.startswith(_SOURCE):
                hint = suggest(topic, {*_NEWS, f"{_SOURCE}NAME"})
                raise ValueError(f"helped_by: nothing is called {topic!r}{hint}")
        object.__setattr__(self, "helped_by", helped_by)
        object.__setattr__(self, "also", tuple(self.also))

    @cached_property
    def _filled_in(self) -> frozenset[str]:
        """The names in ``detail`` that need values; empty if it is no format string."""
        try:
            names = [name for _, name, _, _ in Formatter().parse(self.detail) if name]
        except ValueError:
            return frozenset()
        return frozenset(re.split(r"[.\[]", name, maxsplit=1)[0] for name in names)

    def where(self, mask: ArrayLike, **values: Any) -> "Verdict":
        """Refuse the nodes where ``mask`` is true; ``values`` fill in ``detail``, node by node."""
        refused = np.asarray(mask)
        if refused.dtype != np.bool_:
            raise TypeError(
                f"where() wants true or false a node, not {refused.dtype}; compare it, as in column == 1"
            )
        if missing := self._filled_in.difference(values):
            name = min(missing)
            raise TypeError(f"where() has no value for {{{name}}} of the detail{suggest(name, values)}")
        codes = refused.astype(np.int16)
        codes.flags.writeable = False
        return Verdict(codes, (self,), (values,), sound=True)


# Codes are int16.
_MOST_REASONS = 32_767
_ONE_OF_MANY = Reason("refused for one of very many reasons; a text should be the same for many nodes")


class Verdict:
    """Which nodes are refused, and why: the result of `Reason.where`.

    ``a | b`` refuses the nodes that either refuses; for a node that both refuse, the reason of ``a`` is
    shown.
    """

    __slots__ = ("codes", "places", "reasons", "sound", "values")

    def __init__(
        self,
        codes: NDArray[np.int16],
        reasons: tuple[Reason, ...],
        values: tuple[Mapping[str, Any], ...] | None = None,
        *,
        places: NDArray[np.intp] | None = None,
        sound: bool = False,
    ) -> None:
        self.codes = codes
        """One number per node: 0 passes, ``k`` is refused for ``reasons[k - 1]``."""
        self.reasons = reasons
        self.values = values or ({},) * len(reasons)
        self.places = places
        """The index of each row in ``values``, for a verdict made of a part of the rows; else ``None``."""
        self.sound = sound
        """Whether each code is known to have a reason, so that it need not be checked."""

    @classmethod
    def of(cls, codes: Iterable[int], reasons: Iterable[Reason]) -> "Verdict":
        """A verdict from one code per node: 0 passes, ``k`` is refused for the ``k``-th reason."""
        numbers, every = list(codes), tuple(reasons)
        if len(every) > _MOST_REASONS:
            # Texts that contain the node's name, for very many nodes: the nodes stay refused, with another
            # text.
            every = (*every[: _MOST_REASONS - 1], _ONE_OF_MANY)
            numbers = [min(number, _MOST_REASONS) for number in numbers]
        return cls(np.array(numbers, dtype=np.int16), every, sound=True)

    @property
    def refused(self) -> NDArray[np.bool_]:
        """One bool per node: true if it is refused."""
        return np.not_equal(self.codes, PASS)

    def __or__(self, other: "Verdict") -> "Verdict":
        codes = self.codes
        # Usually the other verdict refuses nothing.
        if other.codes.any() or other.codes.shape != codes.shape:
            # If both refuse, the reason of the first is shown.
            shifted = np.where(other.codes != PASS, other.codes + len(self.reasons), PASS)
            codes = np.where(codes != PASS, codes, shifted).astype(np.int16)
        places = None
        if self.places is not None or other.places is not None:
            # A row's values are those of the verdict that refused it.
            places = np.where(self.codes != PASS, self._places(), other._places())
        return Verdict(codes, self.reasons + other.reasons, self.values + other.values, places=places)

    def _places(self) -> NDArray[np.intp]:
        return np.arange(self.codes.size) if self.places is None else self.places

    def spread(self, rows: NDArray[np.intp], count: int) -> "Verdict":
        """This verdict about some ``rows`` as a verdict about all ``count`` rows; the others pass."""
        codes = np.zeros(count, dtype=np.int16)
        codes[rows] = self.codes
        places = np.zeros(count, dtype=np.intp)
        places[rows] = np.arange(len(rows)) if self.places is None else self.places
        return Verdict(codes, self.reasons, self.values, places=places)

    def reason(self, row: int) -> Reason | None:
        """Why the node of that row is refused; ``None`` if it passes."""
        code = int(self.codes[row])
        return None if code == PASS else self.reasons[code - 1]

    def detail(self, row: int) -> str:
        """The reason's detail with the numbers of that node."""
        code = int(self.codes[row])
        if code == PASS or not self.reasons[code - 1].detail:
            return ""
        place = row if self.places is None else int(self.places[row])
        return fill(self.reasons[code - 1].detail, self.values[code - 1], place)

    def fault_of_detail(self, row: int) -> str:
        """Why the detail of that node's reason cannot be filled in; ``""`` if it can."""
        code = int(self.codes[row])
        if code == PASS or not self.reasons[code - 1].detail:
            return ""
        place = row if self.places is None else int(self.places[row])
        try:
            _filled(self.reasons[code - 1].detail, self.values[code - 1], place)
        except Exception as error:
            return safe_text(error)
        return ""

    def rejected_names(self, nodes: NodeTable) -> list[str]:
        """The names of the refused nodes, in row order."""
        codes = np.broadcast_to(self.codes, (len(nodes),))
        return [nodes.names[row] for row in np.flatnonzero(codes).tolist()]

    def __repr__(self) -> str:
        return f"Verdict({int(self.refused.sum())} of {self.codes.size} refused)"


class Score:
    """Scores with an explanation for people: ``Score(-p95, detail="p95 {p95:.3f} s", p95=p95)``."""

    __slots__ = ("detail", "scores", "values")

    def __init__(self, scores: ArrayLike, *, detail: str = "", **values: Any) -> None:
        self.scores = np.asarray(scores)
        self.detail = encodable(detail)
        self.values: Mapping[str, Any] = values
        """What fills in ``detail``, node by node."""

    def over(self, scores: NDArray[np.float64]) -> "Score":
        """A copy with other scores and the same detail: a hook may return the same Score again and again."""
        return Score(scores, detail=self.detail, **self.values)

    def explain(self, row: int) -> str:
        """The detail with the numbers of that node."""
        return fill(self.detail, self.values, row) if self.detail else ""


def fill(detail: str, values: Mapping[str, Any], row: int) -> str:
    """The format string ``detail`` with the values of one row; unchanged if it cannot be filled in.

    An explanation must never break a decision. Numbers may have a unit: ``{free:cpu}`` for milli-CPU,
    ``{free:bytes}`` for bytes.
    """
    try:
        return printable(_filled(detail, values, row), limit=DETAIL_LENGTH)
    except BaseException:
        # Not every library raises an Exception, and threads that write down decisions must survive.
        return detail


def _filled(detail: str, values: Mapping[str, Any], row: int) -> str:
    found = {name: _of_row(value, row) for name, value in values.items()}
    # str.format is several times as fast, and a page may show thousands.
    with_units = _WITH_UNIT.search(detail)
    return _FORMATTER.vformat(detail, (), found) if with_units else detail.format(**found)


def _of_row(value: Any, row: int) -> Any:
    column = hasattr(value, "__getitem__") and not isinstance(value, str | Mapping)
    found = value[row] if column and np.ndim(getattr(value, "codes", value)) else value
    # A missing label reads as NaN, which people should not see.
    return _UNKNOWN if isinstance(found, float | np.floating) and np.isnan(found) else found


class _Unknown:
    """Prints as ``?``, whatever the format."""

    def __format__(self, spec: str) -> str:
        return "?"

    def __repr__(self) -> str:
        return "?"


_UNKNOWN = _Unknown()


class _WithUnits(Formatter):
    def format_field(self, value: Any, format_spec: str) -> str:
        if format_spec in UNITS and not isinstance(value, _Unknown):
            return written(value, format_spec)
        found: str = super().format_field(value, format_spec)
        return found


_FORMATTER = _WithUnits()
_WITH_UNIT = re.compile(f":({'|'.join(UNITS)})}}")
