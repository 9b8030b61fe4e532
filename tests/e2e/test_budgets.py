"""What an event of the watch and a question about pods may cost in a large cluster."""

from __future__ import annotations

import statistics
from collections.abc import Callable

import pytest

from bayplan.snapshot.columns import Label
from bayplan.snapshot.conditions import PodLabel
from bayplan.state.cache import Cache
from bench.state import EVENT_BUDGET_MICROSECONDS
from bench.state_cluster import changing_pods
from bench.state_events import EVENTS_A_SNAPSHOT, full_cache, measure, timed

# Not of the end-to-end tests by its means, but by its time: whoever runs unit tests does not wait for it.
pytestmark = [pytest.mark.e2e, pytest.mark.big, pytest.mark.timeout(600)]

NODES, PODS, EVENTS = 5_000, 150_000, 20_000
COUNT_BUDGET_MILLISECONDS = 10.0


@pytest.fixture(scope="module")
def cache() -> Cache:
    """A cluster of full size."""
    return full_cache(NODES, PODS)


def test_an_event_of_the_watch(cache: Cache) -> None:
    costs = measure(cache, changing_pods(NODES, PODS), EVENTS)

    print(
        f"\n{EVENTS} events of pods, {NODES} nodes and {PODS} pods: {costs.decode:.1f} µs each to decode,"
        f" {costs.apply:.1f} µs to apply, {costs.with_snapshots:.1f} µs with a snapshot every"
        f" {EVENTS_A_SNAPSHOT} events; one and a snapshot after it {costs.single_snapshot:.1f} µs;"
        f" a full garbage collection {costs.collection_seconds:.2f} s"
    )
    assert costs.apply < EVENT_BUDGET_MICROSECONDS


def test_a_question_about_pods(cache: Cache) -> None:
    nodes = cache.snapshot().nodes
    mine = PodLabel("app") == "app-7"
    asking: dict[str, Callable[[], object]] = {
        "count(where)": lambda: nodes.count(mine),
        "count(where, by=rack)": lambda: nodes.count(mine, by=Label("rack")),
    }
    for title, ask in asking.items():
        took = [1e3 * timed(ask)[1] for _ in range(101)]
        print(
            f"\nnodes.{title} over {PODS} pods: {statistics.median(took):.3f} ms, at most {max(took):.3f} ms"
        )
        assert statistics.median(took) < COUNT_BUDGET_MILLISECONDS
