"""Scores of many policies become one number a node, in an order that nobody disturbs."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.engine.combine import NEUTRAL, combine, normalise

NAN = math.nan
FINITE = st.floats(allow_nan=False, allow_infinity=False)
SCORES = st.lists(FINITE | st.just(NAN), max_size=8).map(lambda values: np.array(values, dtype=np.float64))


@pytest.mark.parametrize(
    ("scores", "expected"),
    [
        pytest.param([1, 2, 3], [0, 50, 100], id="the lowest is 0 and the highest 100"),
        pytest.param([-5, 5], [0, 100], id="numbers below zero"),
        pytest.param([7, 7, 7], [50, 50, 50], id="equal scores are neutral"),
        pytest.param([7], [50], id="one node alone is neutral"),
        pytest.param([1, NAN, 3], [0, NAN, 100], id="no opinion stays none"),
        pytest.param([7, NAN], [50, NAN], id="one opinion alone is neutral"),
        pytest.param([NAN, NAN], [NAN, NAN], id="nobody has an opinion"),
        pytest.param([], [], id="no nodes"),
        pytest.param([-1.7e308, 0, 1.7e308], [0, 50, 100], id="a distance larger than any float"),
        pytest.param([0, 5e-324], [0, 100], id="the smallest distance there is"),
    ],
)
def test_scores_are_stretched(scores: list[float], expected: list[float]) -> None:
    np.testing.assert_allclose(normalise(np.array(scores, dtype=float)), expected)


def test_low_is_best_where_it_is_said() -> None:
    assert normalise(np.array([1.0, 2.0, 3.0, NAN]), best="low").tolist()[:3] == [100.0, 50.0, 0.0]


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        pytest.param(0.0, 0, id="the lower end"),
        pytest.param(0.25, 50, id="the middle"),
        pytest.param(0.5, 100, id="the upper end"),
        pytest.param(-1, 0, id="below is clipped"),
        pytest.param(9, 100, id="above is clipped"),
        pytest.param(-1.7e308, 0, id="far below is clipped"),
        pytest.param(1.7e308, 100, id="far above is clipped"),
        pytest.param(NAN, NAN, id="no opinion stays none"),
    ],
)
def test_a_declared_range_is_absolute(score: float, expected: float) -> None:
    scores = np.array([score, NAN, 0.1])

    np.testing.assert_allclose(normalise(scores, range=(0, 0.5))[0], expected)
    np.testing.assert_allclose(normalise(scores, range=(0, 0.5), best="low")[0], 100 - expected)


def test_a_declared_range_keeps_small_differences_small() -> None:
    assert normalise(np.array([50.0, 51.0]), range=(0, 100)).tolist() == [50.0, 51.0]


def test_the_widest_range_there_is_can_be_declared() -> None:
    scores = normalise(np.array([-1.7e308, 0.0, 1.7e308]), range=(-1.7e308, 1.7e308))

    np.testing.assert_allclose(scores, [0, 50, 100])


@settings(deadline=None, max_examples=300)
@given(SCORES)
def test_the_order_is_kept(scores: np.ndarray[tuple[int], np.dtype[np.float64]]) -> None:
    before = scores.copy()

    scaled = normalise(scores)

    np.testing.assert_array_equal(scores, before)
    assert (np.isnan(scaled) == np.isnan(scores)).all()
    there = ~np.isnan(scores)
    order = np.argsort(scores[there], kind="stable")
    assert (np.diff(scaled[there][order]) >= 0).all()
    assert ((scaled[there] >= 0) & (scaled[there] <= 100)).all()
    if np.unique(scores[there]).size > 1:
        assert (scaled[there].min(), scaled[there].max()) == (0, 100)


@settings(deadline=None, max_examples=200)
@given(SCORES, st.tuples(FINITE, FINITE).filter(lambda ends: ends[0] < ends[1]))
def test_the_order_is_kept_in_a_declared_range_and_turned_round_for_low(
    scores: np.ndarray[tuple[int], np.dtype[np.float64]], ends: tuple[float, float]
) -> None:
    there = ~np.isnan(scores)
    order = np.argsort(scores[there], kind="stable")

    high = normalise(scores, range=ends)[there][order]
    low = normalise(scores, range=ends, best="low")[there][order]

    assert (np.diff(high) >= 0).all()
    assert (np.diff(low) <= 0).all()
    assert ((high >= 0) & (high <= 100) & (low >= 0) & (low <= 100)).all()


@pytest.mark.parametrize(
    ("scores", "weights", "expected"),
    [
        pytest.param([[0, 100]], [1], [0, 100], id="one policy alone"),
        pytest.param([[0, 100], [100, 0]], [1, 1], [50, 50], id="two that disagree"),
        pytest.param([[0, 100], [100, 0]], [3, 1], [25, 75], id="the heavier one counts more"),
        pytest.param([[0, NAN], [100, 40]], [1, 1], [50, 40], id="no opinion leaves it to the other"),
        pytest.param([[NAN, 10], [NAN, 20]], [1, 1], [NEUTRAL, 15], id="nobody's node is neutral"),
        pytest.param([], [], [NEUTRAL, NEUTRAL], id="no policies"),
        pytest.param([[0, 100], [100, 100]], [1e300, 1e300], [50, 100], id="huge weights"),
        pytest.param([[0, 100], [100, 100]], [1e308, 1e308], [50, 100], id="weights whose sum is no float"),
        pytest.param(
            [[0, 100], [100, 100]], [5e-324, 5e-324], [50, 100], id="the smallest weights there are"
        ),
    ],
)
def test_combine(scores: list[list[float]], weights: list[float], expected: list[float]) -> None:
    columns = [np.array(values, dtype=float) for values in scores]

    np.testing.assert_allclose(combine(columns, weights, 2), expected)
