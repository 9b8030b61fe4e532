"""What happened over time: counted in steps, bounded, drawn as plots."""

from collections.abc import Callable

import numpy as np
import pytest

from bayplan.engine.entry import Entry, PodRef
from bayplan.engine.journal import Journal
from bayplan.testing import make_pod
from bayplan.web import plots as plots_module
from bayplan.web.plots import plots
from bayplan.web.series import STEP_SECONDS, STEPS, Moment, Series
from tests.web.decided import cluster_of, filtered

CLUSTER = cluster_of(12)


def noted(at: float, *, verb: str = "bind", seconds: float = 0.0, error: str = "") -> Entry:
    journal = Journal(clock=lambda: at)
    return journal.note(verb, PodRef.of(make_pod()), generation=1, error=error, seconds=seconds)


def test_decisions_are_counted_by_result_and_refusals_by_policy() -> None:
    series = Series()
    series.add(Journal(clock=lambda: 1002.0).write("filter", filtered(CLUSTER), generation=1))
    series.add(noted(1004.9, error="gone"))
    series.add(noted(1005.0))

    moments = {moment.at: moment for moment in series.moments(1005)}

    assert moments[1000].results == {"ok": 1, "error": 1}
    assert moments[1000].refused == {"capacity": 3, "placement": 3}
    assert moments[1005].results == {"ok": 1}
    assert moments[995].results == {}


def test_whoever_decides_does_not_count() -> None:
    done: list[Callable[[], None]] = []
    series = Series(later=done.append)

    for _ in range(512):
        series.add(noted(1000.0))

    assert [moment.results for moment in series._moments] == []
    assert len(done) == 2
    done[0]()
    assert [moment.results for moment in series._moments] == [{"ok": 512}]
    done[1]()
    series.add(noted(1000.0))
    assert series.moments(1000)[-1].results == {"ok": 513}


def test_entries_do_not_pile_up_where_nobody_has_time_to_count() -> None:
    series = Series(later=lambda _: None)

    for _ in range(1500):
        series.add(noted(1000.0))

    assert len(series._waiting) == 1000
    assert series.moments(1000)[-1].results == {"ok": 1500}


@pytest.mark.parametrize("seconds", [0.00002, 0.0014, 0.3, 4.5])
def test_percentiles_are_right_to_a_tenth(seconds: float) -> None:
    series = Series()
    for part in np.linspace(0.5, 1.0, 200).tolist():
        series.add(noted(1000.0, verb="filter", seconds=seconds * part))

    moment = series.moments(1000)[-1]

    assert moment.percentile("filter", 0.5) == pytest.approx(0.75 * seconds, rel=0.1)
    assert moment.percentile("filter", 0.99) == pytest.approx(seconds, rel=0.1)
    assert moment.percentile("prioritize", 0.5) is None


def test_it_keeps_a_quarter_of_an_hour_however_long_it_runs() -> None:
    series = Series()
    for step in range(1000):
        series.add(noted(step * STEP_SECONDS, seconds=0.001))

    moments = series.moments(999 * STEP_SECONDS)

    assert len(moments) == STEPS == len(series._moments)
    assert all(moment.results["ok"] == 1 for moment in moments)


def test_a_step_has_room_for_a_bounded_number_of_policies() -> None:
    series = Series()
    moment = Moment(1000)
    moment.refused.update({f"policy-{number}": 1 for number in range(20)})
    series._moments.append(moment)

    series.add(Journal(clock=lambda: 1000.0).write("filter", filtered(CLUSTER), generation=1))
    series.count()

    assert moment.refused["other policies"] == 6
    assert len(moment.refused) == 21


def test_a_clock_that_goes_back_loses_nothing() -> None:
    series = Series()
    series.add(noted(1000.0))
    series.add(noted(900.0))

    assert series.moments(1000)[-1].results == {"ok": 2}


def test_plots_of_nothing_are_drawn_too() -> None:
    drawn = "".join(plots(Series().moments(1000)))

    assert drawn.count("<svg") == 3
    assert "nothing yet" in drawn
    assert "NaN" not in drawn
    assert "nan" not in drawn


def test_a_million_fits_beside_the_plot() -> None:
    assert [plots_module._count(value) for value in (0.5, 50_000, 100_000, 500_000, 2_500_000)] == [
        "0.5", "50,000", "100k", "500k", "2.5M",
    ]  # fmt: skip


def test_the_legend_of_lines_shows_which_is_dashed() -> None:
    series = Series()
    series.add(noted(1000.0, verb="filter", seconds=0.002))

    drawn = "".join(plots(series.moments(1000)))

    assert '<i class="stroke colour-0"></i>filter p99' in drawn
    assert '<i class="stroke colour-0 half"></i>filter p50' in drawn


def test_a_plot_says_what_it_shows_to_those_who_do_not_see_it() -> None:
    series = Series()
    series.add(Journal(clock=lambda: 1000.0).write("filter", filtered(CLUSTER), generation=1))
    series.add(noted(1000.0, verb="filter", seconds=0.002))

    drawn = "".join(plots(series.moments(1000)))

    assert 'aria-label="Decisions: 2 in 3 minutes"' in drawn
    assert 'aria-label="Nodes refused, by policy: 6 in 3 minutes"' in drawn
    assert "filter p99" in drawn
