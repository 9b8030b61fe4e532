"""What Bayplan would do about a pod that nobody takes: every answer that is as good as any other."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from bayplan.authoring.registry import Policy
from bayplan.engine.choose import choose
from bayplan.engine.make_room import Eviction, Room, make_room
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from tests.parity.evictions import Made

MOST_ORDERS = 720


@dataclass(frozen=True)
class Expected:
    """The answers that Bayplan could give."""

    answers: frozenset[Made]
    evictions: tuple[Eviction, ...] = ()
    """All that were found, on all nodes, for the first order of equals."""
    orders: int = 1
    """In how many orders pods of equal importance were looked at."""

    def on(self, node: str) -> list[Eviction]:
        """Those of one node."""
        return [eviction for eviction in self.evictions if eviction.node == node]

    def told(self) -> str:
        """For people."""
        return "\nor ".join(sorted(answer.told() for answer in self.answers))


def expected(policies: Sequence[Policy], pod: Pod, cluster: Snapshot) -> Expected:
    """What may happen to a pod that comes into this cluster."""
    now = datetime.now(UTC)
    choice = choose(policies, pod, cluster, now=now)
    if choice.feasible:
        return Expected(frozenset(Made(node) for node in choice.best))
    rooms = [make_room(policies, one, choice.filtered, now=now) for one in _orders(cluster, pod.priority)]
    if not rooms[0].evictions:
        return Expected(
            frozenset(Made(message=f"{choice.message} {room.message}".rstrip()) for room in rooms)
        )
    answers = frozenset(
        Made(best.node, _keys(best.victims), choice.message) for best in _possibly_best(rooms, now)
    )
    return Expected(answers, rooms[0].evictions, len(rooms))


def _possibly_best(rooms: Sequence[Room], now: datetime) -> Iterator[Eviction]:
    """Evictions that some order of equals on each node makes the best."""
    by_node: dict[str, list[Eviction]] = defaultdict(list)
    for eviction in (eviction for room in rooms for eviction in room.evictions):
        by_node[eviction.node].append(eviction)
    for node, here in by_node.items():
        for eviction in here:
            if all(
                any(eviction in Room((eviction, other), "", now).best for other in there)
                for elsewhere, there in by_node.items()
                if elsewhere != node
            ):
                yield eviction


def _orders(cluster: Snapshot, priority: int) -> list[Snapshot]:
    """The cluster with the pods that matter equally in every order.

    Which of them kube-scheduler lets back first depends on when it heard of them, and on more.
    """
    each = [_orders_on(cluster.pods_on(node), priority) for node in cluster.nodes.names]
    elsewhere = [pod for pod in cluster.pods if pod.node_name not in cluster.rows]
    count = max(map(len, each), default=1)
    return [
        Snapshot.build(
            cluster.nodes.objects,
            [*elsewhere, *(pod for orders in each for pod in orders[min(number, len(orders) - 1)])],
            cluster.objects,
        )
        for number in range(count)
    ]


def _orders_on(pods: Sequence[Pod], priority: int) -> list[tuple[Pod, ...]]:
    equals: dict[tuple[int, str], list[Pod]] = defaultdict(list)
    for pod in pods:
        equals[pod.priority, pod.start_time].append(pod)
    ways = [
        list(itertools.permutations(group)) if rank < priority else [tuple(group)]
        for (rank, _), group in equals.items()
    ]
    found = [tuple(itertools.chain(*way)) for way in itertools.product(*ways)]
    assert len(found) <= MOST_ORDERS, "too many pods of equal importance on one node"
    return found


def _keys(pods: Sequence[Pod]) -> frozenset[str]:
    return frozenset(pod.key for pod in pods)
