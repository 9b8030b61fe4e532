"""What an event of the watch is made of: decoding it, applying it, and the snapshot that somebody asks for.

    python -m bench.state_events NODES PODS EVENTS

In one process, without HTTP. The garbage collector comes when it likes, and then looks at whatever is not
frozen: here it is off, and timed alone. What it costs a server is in the events that `bench.state` sends.
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import TypeVar

from bayplan.client.rest import NODES, PODS
from bayplan.kube.pod import Pod
from bayplan.state.cache import Cache
from bench.state_cluster import changing_pods, home_of, node_bytes, pod_bytes

T = TypeVar("T")

EVENTS_A_SNAPSHOT = 100
_SINGLE = 200


@dataclass(frozen=True)
class EventCosts:
    """Microseconds for one event of a pod, and what comes with them now and then."""

    decode: float
    json: float
    """`json.loads` of the same bytes."""
    apply: float
    with_snapshots: float
    """Applied, with a snapshot every so many events."""
    single_snapshot: float
    """After one event, which is part of it."""
    collection_seconds: float
    """One that looks at everything."""


def full_cache(nodes: int, pods: int) -> Cache:
    """A cluster of full size."""
    made = Cache()
    made.replace_nodes(NODES.one.decode(node_bytes(number)) for number in range(nodes))
    made.replace_pods(
        PODS.one.decode(pod_bytes(number, node=home_of(number, nodes))) for number in range(pods)
    )
    made.snapshot()
    return made


def measure(cache: Cache, changes: Iterator[bytes], events: int) -> EventCosts:
    """All of it, for so many events at a time: what is told twice is no change, and costs less."""
    lines = list(islice(changes, events))
    decoded, decoding = timed(lambda: [PODS.one.decode(line) for line in lines])
    # One after the other, none kept: as dicts they would take gigabytes.
    _, plain = timed(lambda: [None for line in lines if json.loads(line) is None])
    _, applying = timed(lambda: _apply(cache, decoded))
    cache.snapshot()
    more = [PODS.one.decode(line) for line in islice(changes, events)]
    _, asked = timed(lambda: _apply(cache, more, each_snapshot=EVENTS_A_SNAPSHOT))
    cache.snapshot()
    few = [PODS.one.decode(line) for line in islice(changes, _SINGLE)]
    _, single = timed(lambda: _apply(cache, few, each_snapshot=1))
    _, collecting = timed(gc.collect)
    decode, plain_json, apply, with_snapshots = (
        1e6 * seconds / len(lines) for seconds in (decoding, plain, applying, asked)
    )
    return EventCosts(
        decode,
        plain_json,
        apply,
        with_snapshots,
        single_snapshot=1e6 * single / len(few),
        collection_seconds=collecting,
    )


def timed(work: Callable[[], T]) -> tuple[T, float]:
    """What it gives, and how many seconds of the processor it took: others on the machine do not count."""
    gc.disable()
    try:
        start = time.process_time()
        return work(), time.process_time() - start
    finally:
        gc.enable()


def _apply(cache: Cache, pods: Sequence[Pod], *, each_snapshot: int = 0) -> None:
    """Tell the cache; somebody asks for a snapshot after so many events, or never."""
    for number, pod in enumerate(pods):
        cache.put_pod(pod)
        if each_snapshot and number % each_snapshot == 0:
            cache.snapshot()


if __name__ == "__main__":
    node_count, pod_count, event_count = map(int, sys.argv[1:])
    found = measure(full_cache(node_count, pod_count), changing_pods(node_count, pod_count), event_count)
    print(json.dumps(asdict(found)))
