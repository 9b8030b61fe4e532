"""Kube-scheduler's page of metrics is read as Prometheus would read it."""

import math

import pytest

from bench.cluster_metrics import ATTEMPT_SECONDS, Histogram, attempts, durations

PAGE = f"""\
# HELP scheduler_schedule_attempts_total Number of attempts to schedule pods, by the result.
# TYPE scheduler_schedule_attempts_total counter
scheduler_schedule_attempts_total{{profile="default-scheduler",result="error"}} 0
scheduler_schedule_attempts_total{{profile="default-scheduler",result="scheduled"}} 1200
scheduler_schedule_attempts_total{{profile="other",result="scheduled"}} 3
scheduler_schedule_attempts_total_created{{profile="other",result="scheduled"}} 1.7e+09
{ATTEMPT_SECONDS}_bucket{{profile="default-scheduler",result="scheduled",le="0.001"}} 0
{ATTEMPT_SECONDS}_bucket{{profile="default-scheduler",result="scheduled",le="0.002"}} 50
{ATTEMPT_SECONDS}_bucket{{profile="default-scheduler",result="scheduled",le="+Inf"}} 60
{ATTEMPT_SECONDS}_bucket{{profile="default-scheduler",result="unschedulable",le="0.001"}} 7
{ATTEMPT_SECONDS}_bucket{{profile="other",result="scheduled",le="0.001"}} 1
{ATTEMPT_SECONDS}_bucket{{profile="other",result="scheduled",le="0.002"}} 1
{ATTEMPT_SECONDS}_bucket{{profile="other",result="scheduled",le="+Inf"}} 1
{ATTEMPT_SECONDS}_sum{{profile="default-scheduler",result="scheduled"}} 0.1
"""

INFINITE = math.inf


def histogram(*buckets: tuple[float, float]) -> Histogram:
    return Histogram(buckets)


def test_attempts_are_counted_by_result_over_all_profiles() -> None:
    assert attempts(PAGE) == {"error": 0, "scheduled": 1203}


def test_a_page_without_attempts_counts_none() -> None:
    assert attempts("# nothing yet\n") == {}


def test_only_pods_that_were_scheduled_are_in_the_durations() -> None:
    assert durations(PAGE, ATTEMPT_SECONDS).buckets == ((0.001, 1), (0.002, 51), (INFINITE, 61))


def test_a_histogram_that_is_not_there_is_an_error_with_its_name() -> None:
    with pytest.raises(ValueError, match="shows no scheduler_nothing"):
        durations(PAGE, "scheduler_nothing")


@pytest.mark.parametrize(
    ("share", "seconds"),
    [
        pytest.param(0.25, 0.005, id="halfway into the first bucket, which begins at 0"),
        pytest.param(0.5, 0.01, id="the end of the first bucket"),
        pytest.param(0.75, 0.03, id="halfway into the third, the second being empty"),
        pytest.param(1.0, 0.04, id="all of them"),
    ],
)
def test_a_quantile_is_interpolated_inside_its_bucket(share: float, seconds: float) -> None:
    found = histogram((0.01, 50), (0.02, 50), (0.04, 100), (INFINITE, 100))

    assert found.quantile(share) == pytest.approx(seconds)


def test_beyond_the_last_bound_a_quantile_is_that_bound() -> None:
    assert histogram((0.01, 1), (0.02, 2), (INFINITE, 100)).quantile(0.99) == 0.02


def test_nothing_observed_has_no_quantile() -> None:
    with pytest.raises(ValueError, match="nothing was observed"):
        histogram((0.01, 0), (INFINITE, 0)).quantile(0.5)


@pytest.mark.parametrize(
    "buckets",
    [
        pytest.param((), id="no buckets"),
        pytest.param(((0.01, 1.0),), id="no last bucket for infinity"),
        pytest.param(((0.02, 1.0), (0.01, 1.0), (INFINITE, 1.0)), id="bounds that fall"),
    ],
)
def test_what_is_no_histogram_is_refused(buckets: tuple[tuple[float, float], ...]) -> None:
    with pytest.raises(ValueError, match="buckets must rise"):
        Histogram(buckets)
