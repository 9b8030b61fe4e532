"""Scores on the wire are whole numbers from 0 to 10, in the order that they had inside."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.wire import codec, v1
from bayplan.wire.scale import MAX_EXTENDER_PRIORITY, to_wire

INSIDE = st.floats(0, 100)
FINITE = st.floats(allow_nan=False, allow_infinity=False)


@pytest.mark.parametrize(
    ("inside", "outside"),
    [
        pytest.param(0.0, 0, id="the worst"),
        pytest.param(100.0, 10, id="the best"),
        pytest.param(50.0, 5, id="the middle"),
        pytest.param(4.9, 0, id="just below half a step"),
        pytest.param(5.0, 1, id="half a step goes up"),
        pytest.param(94.9, 9, id="almost the best"),
        pytest.param(100.00000000000001, 10, id="a rounding error above the top"),
        pytest.param(-0.0000001, 0, id="a rounding error below zero"),
    ],
)
def test_one_score(inside: float, outside: int) -> None:
    assert to_wire([inside]) == [outside]


@settings(deadline=None)
@given(st.lists(FINITE | INSIDE))
def test_every_score_is_a_whole_number_in_range(scores: list[float]) -> None:
    written = to_wire(scores)

    assert len(written) == len(scores)
    assert all(type(score) is int and 0 <= score <= MAX_EXTENDER_PRIORITY for score in written)


@settings(deadline=None)
@given(st.lists(INSIDE, min_size=2))
def test_a_better_node_never_gets_less(scores: list[float]) -> None:
    ordered = to_wire(sorted(scores))

    assert ordered == sorted(ordered)


@settings(deadline=None)
@given(st.lists(INSIDE, min_size=1))
def test_no_float_reaches_the_bytes(scores: list[float]) -> None:
    hosts = [v1.HostPriority(f"node-{row}", score) for row, score in enumerate(to_wire(scores))]

    assert re.fullmatch(rb'\[(\{"Host":"node-\d+","Score":\d{1,2}\},?)+\]', codec.encode(hosts))
