"""Calls hooks and converts their results: to one verdict, or one score per node, whatever form they have.

A hook that takes ``node`` is called for each node and returns plain values; a hook that takes ``nodes``
answers for the whole table. The engine sees no difference.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.gang import Gang
from bayplan.authoring.registry import Hook
from bayplan.authoring.verdict import PASS, Reason, Score, Verdict
from bayplan.kube.yaml import suggest
from bayplan.snapshot.row import Node
from bayplan.snapshot.table import NodeTable
from bayplan.snapshot.units import Allocation

_PLAIN = frozenset({float, int, bool, type(None)})
"""The types of a score of one node that NumPy converts as we would: ``None`` becomes NaN."""


class BadResult(ValueError):
    """A hook returned something that cannot be used."""


class UnknownNode(BadResult):
    """A hook named a node that is no candidate."""


def verdict(hook: Hook, available: dict[str, Any]) -> Verdict:
    """The verdict of a ``filter`` or ``prefer`` hook about the nodes in ``available``."""
    nodes: NodeTable = available["nodes"]
    if hook.spec.per_node:
        return _verdict_of_each(hook, _each(hook, nodes, available), nodes.name)
    return _verdict_of_table(hook, hook.call(available), nodes)


def scores(hook: Hook, available: dict[str, Any]) -> Score | None:
    """The result of a ``score`` hook: finite floats, NaN for no opinion; ``None`` for none on any node."""
    nodes: NodeTable = available["nodes"]
    if hook.spec.per_node:
        return Score(_numbers_of_each(hook, _each(hook, nodes, available), nodes))
    result = hook.call(available)
    if result is None or (isinstance(result, float) and np.isnan(result)):
        return None
    if isinstance(result, Score):
        return result.over(_numbers(hook, result.scores, nodes))
    return Score(_numbers(hook, _by_row(hook, result, nodes), nodes))


def protects(hook: Hook, available: dict[str, Any]) -> Reason | None:
    """Why a ``protect`` hook protects a victim; ``None`` if it does not."""
    result = hook.call(available)
    if result is None or isinstance(result, bool | np.bool_):
        return Reason(hook.name) if result else None
    if isinstance(result, str | Reason):
        return _reason(hook, result, "")
    raise BadResult(f"{hook.title}: returned {_name(result)}, want True, False or a reason")


def cost(hook: Hook, available: dict[str, Any]) -> tuple[float, ...] | Reason | None:
    """The result of a ``victims`` hook: the cost, why they must stay, or ``None`` for no opinion."""
    result = hook.call(available)
    if result is None or isinstance(result, bool | np.bool_ | str | Reason):
        return _reason(hook, result, "")
    numbers = result if isinstance(result, tuple | list) else (result,)
    plain = tuple(_plain(number) for number in numbers)
    if not plain or not np.isfinite(plain).all():
        raise BadResult(
            f"{hook.title}: returned {_name(result)}, want a finite number or a tuple of them,"
            " a text or a Reason to refuse, or None"
        )
    return plain


def _plain(number: Any) -> float:
    """The number as a float; NaN if it is no number or too large."""
    try:
        return float(number) if isinstance(number, Real) and not isinstance(number, bool) else np.nan
    except OverflowError:
        return np.nan


def allocation(hook: Hook, available: dict[str, Any]) -> Allocation | Reason | None:
    """The result of an ``allocate`` hook: the allocation, why there is none, or ``None`` without need."""
    result = hook.call(available)
    if result is None or isinstance(result, Allocation | Reason):
        return result
    if isinstance(result, str):
        return Reason(result)
    raise BadResult(f"{hook.title}: returned {_name(result)}, want an Allocation, a Reason or None")


def gang(hook: Hook, available: dict[str, Any]) -> Gang | None:
    """The result of a ``gang`` hook: the pod's gang, or ``None``."""
    result = hook.call(available)
    if result is None or isinstance(result, Gang):
        return result
    raise BadResult(f"{hook.title}: returned {_name(result)}, want a Gang or None")


def gate(hook: Hook, available: dict[str, Any]) -> Reason | None:
    """Why a ``gate`` hook keeps the pod out of the queue; ``None`` if it lets it in."""
    return _reason(hook, hook.call(available), "")


def _each(hook: Hook, nodes: NodeTable, available: dict[str, Any]) -> list[Any]:
    """What the hook returns for each node. The loop is C's: Python's own takes as long as a short hook."""
    results: list[Any] = []
    try:
        results.extend(map(hook.per_node(available), nodes))
    except Exception as error:
        error.add_note(f"on node {nodes.name(len(results))}")
        raise
    if len(results) < len(nodes):
        # To `map` it is the end of the nodes.
        raise BadResult(
            f"{hook.title}: raised StopIteration on node {nodes.name(len(results))};"
            " give next() a second argument, which it then returns at the end"
        )
    return results


def _verdict_of_each(hook: Hook, results: Iterable[Any], name: Callable[[int], str]) -> Verdict:
    """One verdict from a hook's results, node by node. Most results equal the one before, which is fast."""
    codes: list[int] = []
    numbers: dict[Reason, int] = {}
    last: Any = None
    code = PASS
    for result in results:
        if result is None or result is True:
            codes.append(PASS)
            continue
        # Texts that are formatted for each node are equal, but not the same object.
        if result is not last and not (type(result) is type(last) is str and result == last):
            reason = _reason(hook, result, name(len(codes)))
            code = PASS if reason is None else numbers.setdefault(reason, len(numbers) + 1)
            last = result
        codes.append(code)
    return Verdict.of(codes, numbers)


def _numbers_of_each(hook: Hook, results: list[Any], nodes: NodeTable) -> NDArray[np.float64]:
    if _PLAIN.issuperset(map(type, results)):
        try:
            values = np.array(results, dtype=np.float64)
        except OverflowError:
            pass
        else:
            if not np.isinf(values).any():
                return values
    # Slower, and it knows which node a result is about.
    each = (_number(hook, result, nodes.name(row)) for row, result in enumerate(results))
    return np.fromiter(each, dtype=np.float64, count=len(results))


def _reason(hook: Hook, result: Any, node: str) -> Reason | None:
    if result is None or result is True:
        return None
    if isinstance(result, Reason):
        return result
    if isinstance(result, str):
        return Reason(result) if result.strip() else Reason(hook.name)
    if result is False:
        return Reason(hook.name)
    if isinstance(result, np.bool_):
        return None if result else Reason(hook.name)
    at = f" for node {node}" if node else ""
    raise BadResult(
        f"{hook.title}: returned {_name(result)}{at}, want None or True to pass, a text or a Reason to refuse"
    )


def _verdict_of_table(hook: Hook, result: Any, nodes: NodeTable) -> Verdict:
    count = len(nodes)
    if result is None:
        return Verdict(np.zeros(count, dtype=np.int16), ())
    if isinstance(result, Verdict):
        codes = result.codes
        if codes.ndim == 0:
            codes = np.full(count, codes, dtype=np.int16)
        _check_shape(hook, codes, count)
        if not result.sound and ((codes < 0) | (codes > len(result.reasons))).any():
            raise BadResult(f"{hook.title}: the Verdict has a code without a reason; use Reason.where(...)")
        return Verdict(codes, result.reasons, result.values, places=result.places, sound=True)
    if isinstance(result, Mapping):
        _check_names(hook, result, nodes)
        return _verdict_of_each(hook, map(result.get, nodes.names), nodes.name)
    if isinstance(result, np.ndarray) and result.dtype == np.bool_:
        _check_shape(hook, result, count)
        return Verdict((~result).astype(np.int16), (Reason(hook.name),))
    try:
        reason = _reason(hook, result, "")
    except BadResult:
        raise BadResult(
            f"{hook.title}: returned {_name(result)}, want a Verdict (Reason.where(...)),"
            " a bool array (true passes), a dict of node name to reason, or None"
        ) from None
    same = np.full(count, reason is not None, dtype=np.int16)
    return Verdict(same, () if reason is None else (reason,))


def _by_row(hook: Hook, result: Any, nodes: NodeTable) -> Any:
    if isinstance(result, list | tuple):
        return [np.nan if value is None else value for value in result]
    if not isinstance(result, Mapping):
        return result
    _check_names(hook, result, nodes)
    return [np.nan if (v := result.get(n)) is None else v for n in nodes.names]


def _numbers(hook: Hook, given: Any, nodes: NodeTable) -> NDArray[np.float64]:
    try:
        values = np.asarray(given)
    except ValueError:
        raise BadResult(f"{hook.title}: scores are ragged, want one number a node") from None
    if values.dtype.kind not in "biuf":
        kind = "text" if values.dtype.kind in "US" else values.dtype
        raise BadResult(f"{hook.title}: scores are {kind}, want numbers")
    if values.ndim == 0:
        values = np.full(len(nodes), values)
    _check_shape(hook, values, len(nodes))
    whole = values.dtype.kind != "f"
    values = values.astype(np.float64)
    if not whole and np.isinf(values).any():
        row = int(np.flatnonzero(np.isinf(values))[0])
        raise BadResult(f"{hook.title}: score of node {nodes.names[row]} is infinite; use NaN for no opinion")
    return values


def _number(hook: Hook, result: Any, node: str) -> float:
    if result is None:
        return math.nan
    try:
        value = float(result)
    except (TypeError, ValueError, OverflowError):
        raise BadResult(f"{hook.title}: returned {_name(result)} for node {node}, want a number") from None
    if isinstance(result, str) or math.isinf(value):
        raise BadResult(f"{hook.title}: returned {_name(result)} for node {node}, want a finite number")
    return value


def _check_shape(hook: Hook, values: NDArray[Any], count: int) -> None:
    if values.shape != (count,):
        given = f"{len(values)} values" if values.ndim == 1 else f"an array of shape {values.shape}"
        raise BadResult(f"{hook.title}: returned {given} for {count} nodes")


def _check_names(hook: Hook, result: Mapping[Any, Any], nodes: NodeTable) -> None:
    unknown = result.keys() - set(nodes.names)
    if unknown:
        first = str(min(unknown, key=str))
        raise UnknownNode(
            f"{hook.title}: names node {first!r}, which was not asked about{suggest(first, nodes.names)}"
        )


def _name(result: Any) -> str:
    if isinstance(result, Node):
        return "a Node"
    text = repr(result)
    return f"{type(result).__name__} {text if len(text) <= 60 else text[:57] + '...'}"
