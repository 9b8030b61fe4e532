"""What an event of the watch and a question about pods may cost in a large cluster."""

from __future__ import annotations

import gc
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

import pytest

from bayplan.client.rest import NODES as NODE_OBJECTS
from bayplan.client.rest import PODS as POD_OBJECTS
from bayplan.kube.pod import Pod
from bayplan.snapshot.columns import Label
from bayplan.snapshot.conditions import PodLabel
from bayplan.state.cache import Cache
from tests.controlplane.manifests import node_manifest, pod_manifest

T = TypeVar("T")

# Not of the end-to-end tests by its means, but by its time: whoever runs unit tests does not wait for it.
pytestmark = [pytest.mark.e2e, pytest.mark.big, pytest.mark.timeout(600)]

NODES, PODS, EVENTS = 5_000, 150_000, 20_000
EVENT_BUDGET_MICROSECONDS = 50.0
COUNT_BUDGET_MILLISECONDS = 10.0
EVENTS_A_SNAPSHOT = 100
APPS, RACKS = 500, 50


def pod_bytes(number: int, node: int, version: int) -> bytes:
    """A pod as the API server sends it."""
    labels = {"app": f"app-{number % APPS}", "rev": str(version % 2)}
    manifest = pod_manifest(f"p{number}", cpu="100m", memory="64Mi", labels=labels, node_name=f"n{node}")
    manifest["metadata"] |= {"uid": f"uid-{number}", "resourceVersion": str(version)}
    manifest["status"] = {"phase": "Running"}
    return json.dumps(manifest).encode()


@pytest.fixture(scope="module")
def cache() -> Cache:
    """A cluster of full size."""
    made = Cache()
    made.replace_nodes(
        NODE_OBJECTS.one.decode(json.dumps(node_manifest(f"n{n}", labels={"rack": f"r{n % RACKS}"})))
        for n in range(NODES)
    )
    made.replace_pods(POD_OBJECTS.one.decode(pod_bytes(number, number % NODES, 1)) for number in range(PODS))
    made.snapshot()
    return made


def events() -> Iterator[bytes]:
    """Pods that change where they are, in no order."""
    dice = random.Random(7)
    for version in range(2, EVENTS + 2):
        number = dice.randrange(PODS)
        yield pod_bytes(number, number % NODES, version)


def test_an_event_of_the_watch(cache: Cache) -> None:
    lines = list(events())
    decoded, decoding = timed(lambda: [POD_OBJECTS.one.decode(line) for line in lines])
    _, applying = timed(lambda: apply(cache, decoded, snapshots=False))
    cache.snapshot()
    _, asked = timed(lambda: apply(cache, decoded, snapshots=True))
    cache.snapshot()
    cache.put_pod(decoded[0])
    _, single = timed(cache.snapshot)
    _, collecting = timed(gc.collect)

    decode, apply_only, amortised = (1e6 * seconds / EVENTS for seconds in (decoding, applying, asked))
    print(
        f"\n{EVENTS} events of pods, {NODES} nodes and {PODS} pods: {decode:.1f} µs each to decode,"
        f" {apply_only:.1f} µs to apply, {amortised:.1f} µs with a snapshot every {EVENTS_A_SNAPSHOT} events;"
        f" a snapshot after one event {1e3 * single:.1f} ms; a full garbage collection {collecting:.2f} s"
    )
    assert apply_only < EVENT_BUDGET_MICROSECONDS


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


def apply(cache: Cache, pods: list[Pod], *, snapshots: bool) -> None:
    """Tell the cache; with `snapshots` somebody asks for one now and then."""
    for number, pod in enumerate(pods):
        cache.put_pod(pod)
        if snapshots and number % EVENTS_A_SNAPSHOT == 0:
            cache.snapshot()


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and how many seconds it took.

    The garbage collector comes when it likes, and then looks at the whole cluster: it is timed alone.
    """
    gc.disable()
    try:
        start = time.perf_counter()
        return work(), time.perf_counter() - start
    finally:
        gc.enable()
