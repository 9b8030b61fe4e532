"""The fits of the scale benchmark find what was put in, and what is worse than linear is said aloud."""

import random
from collections.abc import Callable
from pathlib import Path

import pytest

from bayplan.engine.standing import may_stand
from bayplan.testing.policies import load_policies
from bench import scale
from bench.scale_fit import Growth, Rounds, grow, power, straight_line
from bench.scale_servers import policy_files

SIZES = (100, 1_000, 5_000, 10_000, 20_000, 50_000)


def noisy(cost: Callable[[int], float], *, noise: float = 0.03, rounds: int = 12) -> Rounds:
    dice = random.Random(5)
    return {size: [cost(size) * dice.gauss(1, noise) for _ in range(rounds)] for size in SIZES}


def test_a_straight_line_is_found_again() -> None:
    constant, each = straight_line(SIZES, [0.7 + 0.0011 * size for size in SIZES])

    assert constant == pytest.approx(0.7)
    assert each == pytest.approx(0.0011)


def test_small_sizes_count_as_much_as_large_ones() -> None:
    # One of 5 % at the largest size is far more milliseconds than everything at the smallest.
    costs = [0.7 + 0.001 * size for size in SIZES[:-1]] + [1.05 * (0.7 + 0.001 * SIZES[-1])]

    constant, _ = straight_line(SIZES, costs)

    assert constant == pytest.approx(0.7, rel=0.06)


@pytest.mark.parametrize(
    ("cost", "expected"),
    [
        pytest.param(lambda size: 3.0 + 0.002 * size, 1.0, id="a straight line on a large constant"),
        pytest.param(lambda size: 3.0 + 1e-6 * (size - 100) ** 2, 2.0, id="a square on a large constant"),
        pytest.param(lambda size: 1.0 + 0.1 * (size - 100) ** 0.5, 0.5, id="a root"),
    ],
)
def test_the_power_is_that_of_what_comes_on_top(cost: Callable[[int], float], expected: float) -> None:
    assert power(SIZES, [cost(size) for size in SIZES], upper=5_000) == pytest.approx(expected)


def test_what_does_not_grow_has_no_power() -> None:
    assert power(SIZES, [4.0] * len(SIZES), upper=5_000) is None


@pytest.mark.parametrize(
    ("cost", "verdict"),
    [
        pytest.param(lambda size: 1 + 0.001 * size, "linear or better", id="linear"),
        pytest.param(lambda size: 1 + 0.01 * size**0.7, "linear or better", id="less than linear"),
        pytest.param(lambda size: 1 + 1e-4 * size**1.4, "WORSE THAN LINEAR", id="worse than linear"),
        pytest.param(
            lambda _: 5.0, "cannot be told: too little growth beside the noise", id="the same at every size"
        ),
    ],
)
def test_rounds_that_vary_lead_to_the_right_verdict(cost: Callable[[int], float], verdict: str) -> None:
    assert grow(noisy(cost), upper=5_000).verdict == verdict


def test_what_may_be_worse_and_may_be_not_is_to_be_measured_again() -> None:
    found = Growth(1.0, 0.001, power=1.15, low=1.05, high=1.25)

    assert found.verdict == "perhaps worse than linear: measure again"


def test_a_table_says_aloud_what_is_worse() -> None:
    axis = scale.axes(SIZES, (1, 2))[0]
    series = []
    for verb, cost in (
        ("filter", lambda size: 1 + 0.001 * size),
        ("prioritize", lambda size: 1 + 1e-7 * size**2),
    ):
        rounds = {size: list(found) for size, found in noisy(cost).items()}
        series.append(scale.Series("nodes", verb, rounds, grow(rounds, upper=axis.upper)))

    said = scale.tables(axis, series)

    linear, worse = said.splitlines()[-2:]
    assert linear.startswith("| filter ")
    assert linear.endswith(" | linear or better |")
    assert worse.startswith("| prioritize ")
    assert worse.endswith(" | **WORSE THAN LINEAR** |")
    assert "<svg" in scale.picture(series)


def test_small_servers_are_asked_about_more_pods() -> None:
    assert [scale.pods_a_round(nodes) for nodes in (100, 5_000, 50_000)] == [20, 4, 2]


def test_as_many_policies_as_asked_for(tmp_path: Path) -> None:
    files = policy_files(tmp_path, 20, asked=True)

    assert len(set(files)) == 20
    assert len({file.read_text() for file in files}) == 20


@pytest.mark.parametrize("count", [1, 2])
def test_policies_that_are_to_be_called_have_no_stored_results(tmp_path: Path, count: int) -> None:
    called, stored = (policy_files(tmp_path, count, asked=asked) for asked in (True, False))

    assert not may_stand(load_policies([str(file) for file in called]))
    assert may_stand(load_policies([str(stored[0])]))


@pytest.mark.parametrize(
    ("each_ms", "said"),
    [
        pytest.param(0.00125, "1.25 µs for each node", id="little"),
        pytest.param(1.2504, "1,250 µs for each node", id="much"),
    ],
)
def test_the_cost_of_one_more_is_readable(each_ms: float, said: str) -> None:
    axis = scale.axes(SIZES, (1, 2))[0]
    rounds = {size: [1.0, 1.0] for size in SIZES}
    growth = Growth(1.0, each_ms, power=1.0, low=0.9, high=1.05)

    assert said in scale.tables(axis, [scale.Series("nodes", verb, rounds, growth) for verb in scale.VERBS])
