"""The state benchmark sends what an API server sends, and compares what belongs together."""

import json
import os
from itertools import islice

import pytest

from bayplan.client.rest import NODES, PODS
from bayplan.client.watch import bookmark
from bench import state
from bench.process import cpu_seconds, memory_mb
from bench.state_cluster import changing_pods, end_of_list, event, home_of, node_bytes, pod_bytes
from bench.state_events import EventCosts, full_cache, measure
from bench.state_stand_in import chunks


def test_pods_are_read_as_those_of_an_api_server_are() -> None:
    first, second = (PODS.one.decode(pod_bytes(n, node=home_of(n, 5), version=n)) for n in (7, 508))

    homes = [NODES.one.decode(node_bytes(number)).name for number in (2, 3)]
    assert [first.node_name, second.node_name] == homes
    assert (first.uid, first.name) != (second.uid, second.name)
    assert (first.labels["app"], second.labels["app"]) == ("app-7", "app-8")
    assert first.labels["revision"] != second.labels["revision"]
    assert first.requests == {"cpu": 100, "memory": 64 << 20}


def test_a_pod_is_of_the_size_of_real_ones() -> None:
    assert 3_500 < len(pod_bytes(7, node=home_of(7, 5))) < 6_000
    assert b"@" not in pod_bytes(7, node=home_of(7, 5)).replace(b"@sha256", b"")


def test_a_list_ends_with_the_bookmark_that_says_so() -> None:
    line = json.loads(end_of_list("Pod"))

    said = PODS.event.decode(json.dumps(line))

    assert bookmark(said.object) == ("1", True)


def test_every_line_is_a_chunk() -> None:
    lines = [event("ADDED", b"{}") for _ in range(70)]

    sent = b"".join(chunks(lines))

    assert sent == (b"%x\r\n" % len(lines[0]) + lines[0] + b"\r\n") * 70


def test_events_change_pods_that_are_there() -> None:
    cache = full_cache(nodes=5, pods=40)

    costs = measure(cache, changing_pods(5, 40), 30)

    assert (cache.node_count, cache.pod_count) == (5, 40)
    assert min(costs.decode, costs.json, costs.apply, costs.with_snapshots) > 0


def test_every_event_is_a_change() -> None:
    cache = full_cache(nodes=5, pods=40)

    for line in islice(changing_pods(5, 40), 200):
        before, told = cache.snapshot(), PODS.one.decode(line)
        known = cache.pod(told.key)
        cache.put_pod(told)
        assert known is not None
        assert known.labels != told.labels
        assert cache.snapshot() is not before


def test_the_kernel_knows_this_process() -> None:
    assert 0 < memory_mb(os.getpid(), "VmRSS") <= memory_mb(os.getpid(), "VmHWM")
    assert cpu_seconds(os.getpid()) > 0


def part(pods: int, *, peak_mb: float = 400.0, apply: float = 20.0) -> state.Part:
    ours = [state.Seen(seconds, 300.0, peak_mb, 40.0, 310.0) for seconds in (2.0, 4.0, 3.0)]
    theirs = [state.Seen(seconds, 900.0, 1200.0, 60.0, 900.0) for seconds in (6.0, 6.0, 6.0)]
    event = EventCosts(10.0, 30.0, apply, 25.0, single_snapshot=1.5, collection_seconds=0.5)
    return state.Part(pods, {state.OURS: ours, state.PEER: theirs}, event)


def test_a_ratio_is_of_the_same_round() -> None:
    assert part(10).ratios(state.FIGURES["ready, s"]) == [3.0, 1.5, 2.0]


@pytest.mark.parametrize(
    ("made", "said"),
    [
        pytest.param(part(150_000, peak_mb=1100.0), "| **1,100.0** |", id="more memory than it may have"),
        pytest.param(part(150_000, apply=51.0), "| **51.0** |", id="an event that takes too long"),
    ],
)
def test_what_is_over_its_budget_is_bold(made: state.Part, said: str) -> None:
    assert said in state.tables([made])


def test_nothing_is_bold_within_the_budgets() -> None:
    assert "**" not in state.tables([part(50_000), part(150_000)])


def test_growth_is_told_between_the_smallest_and_the_largest() -> None:
    said = state.tables([part(50_000), part(150_000, apply=30.0)])

    growth = said.splitlines()[-1]
    assert growth.startswith("Bayplan with 3 times the pods: ready 1.00 times; memory when ready 1.00 times;")
    assert growth.endswith(" apply 1.50 times.")
    assert "<svg" in state.picture([part(50_000)])
