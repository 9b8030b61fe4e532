"""Keys of the queue: any two can be compared, and what cannot be is refused before it is in a heap."""

import heapq
import itertools
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import bayplan
from bayplan.authoring.lift import BadResult
from bayplan.authoring.order_key import Key, order_key, priority_key
from bayplan.authoring.registry import Hook
from bayplan.testing import make_pod
from bayplan.testing.run import ready

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def key(said: Any) -> Key | None:
    @bayplan.order
    def order(pod: bayplan.Pod) -> Any:
        return said

    hook: Hook = ready(order, None)[0].of_kind("order")[0]
    return order_key(hook, {"pod": make_pod("p")})


@pytest.mark.parametrize(
    "rising",
    [
        pytest.param([float("-inf"), -1, False, Fraction(1, 2), 1, np.float64(1.5), 10**400], id="numbers"),
        pytest.param(["", "a", "b"], id="texts"),
        pytest.param([NOON, NOON + timedelta(seconds=1)], id="times"),
        pytest.param([timedelta(seconds=1), timedelta(minutes=1)], id="durations"),
        pytest.param([(1,), (1, "a"), (1, "b"), (2, "a")], id="tuples"),
        pytest.param([1, (1, 5), 2, "text", (("a", 1),), (("a", 2),)], id="numbers, texts, tuples mixed"),
        pytest.param([[1, 2], (1, 3)], id="a list is a tuple"),
    ],
)
def test_the_smaller_comes_first(rising: list[Any]) -> None:
    keys = [key(said) for said in rising]

    assert keys == sorted(keys)  # type: ignore[type-var]
    assert len(set(keys)) == len(keys)


def test_without_a_key_a_pod_counts_by_its_priority() -> None:
    assert key(None) is None
    assert priority_key(make_pod("p", priority=7)) == key(-7)
    low, high = make_pod("low", priority=1), make_pod("high", priority=9)
    assert priority_key(high) < key((-5, "between")) < priority_key(low)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("said", "wrong"),
    [
        pytest.param(float("nan"), "NaN", id="NaN"),
        pytest.param((1, float("nan")), "NaN", id="NaN within"),
        pytest.param(np.float32("nan"), "NaN", id="NaN of NumPy"),
        pytest.param(object(), "object", id="an object"),
        pytest.param({"a": 1}, "dict", id="a dict"),
        pytest.param((1, None), "NoneType", id="None within"),
        pytest.param(1j, "complex", id="a complex number"),
        pytest.param(Decimal(1), "Decimal", id="a decimal, which Python does not compare with a fraction"),
        pytest.param(datetime(2026, 1, 1), "datetime", id="a time without a zone"),
        pytest.param(tuple(range(33)), "more than 32 parts", id="too long"),
        pytest.param((((((1,),),),),), "4 deep", id="too deep"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_file_and_line(said: Any, wrong: str) -> None:
    with pytest.raises(BadResult, match=rf"test_order_key\.py:\d+ order: .*{wrong}.*want a number"):
        key(said)


class Hostile(int):
    """Compares as it likes."""

    def __lt__(self, other: object) -> bool:
        raise RuntimeError("not today")

    __gt__ = __lt__


def test_a_class_that_compares_as_it_likes_is_taken_as_the_number_that_it_is() -> None:
    assert key(Hostile(1)) < key(Hostile(2))  # type: ignore[operator]


PARTS = st.one_of(
    st.integers(), st.floats(allow_nan=False), st.text(max_size=3), st.booleans(), st.fractions()
)
SAID = st.recursive(PARTS, lambda inner: st.lists(inner, max_size=3).map(tuple), max_leaves=6)


@given(st.lists(SAID, max_size=12))
def test_whatever_hooks_say_the_heap_holds(said: list[Any]) -> None:
    heap: list[tuple[Key, int]] = []
    tickets = itertools.count()
    for each in said:
        try:
            found = key(each)
        except BadResult:
            continue
        assert found is not None
        heapq.heappush(heap, (found, next(tickets)))

    taken = [heapq.heappop(heap) for _ in range(len(heap))]
    assert taken == sorted(taken)
