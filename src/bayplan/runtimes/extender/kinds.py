"""Keeps what is known by kind of pod, and decides which kinds are worth learning.

Learning a kind means judging every node of the cluster. That pays if pods of the kind come again before a
node changes, and before the kind is evicted for others.
"""

from typing import TypeVar

from bayplan.runtimes.extender.known import Known, KnownHooks
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings

T = TypeVar("T")

_SEEN = 1024
# A kind takes some 230 bytes a node, and a few thousand bytes more.
_ROWS, _MOST = 250_000, 512
# How many pods of a kind must come before it is learned: at first, and at most, where learning did not pay.
_OFTEN, _VERY_OFTEN = 2, 64


class Kinds:
    """The most recently used kinds and what is known of them. Changed on the event loop only."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known | KnownHooks] = {}
        self._used: dict[bytes, int] = {}
        # How many pods of a kind were judged, and the UID of the last one: filter and prioritize count once.
        self._seen: dict[bytes, tuple[int, str]] = {}
        self._often = _OFTEN
        self._learning: set[bytes] = set()
        # Kinds of which nothing could be learned, with the era of the nodes at that time.
        self._hopeless: dict[bytes, object] = {}

    def look(self, kind: bytes, cluster: Snapshot, readings: Readings) -> Known | KnownHooks | None:
        """What is known of this kind, if it still holds; any thread may ask, and it does not count as use."""
        known = self._known.get(kind)
        return known if known is not None and known.holds(cluster, readings) else None

    def find(self, kind: bytes, cluster: Snapshot, readings: Readings) -> Known | KnownHooks | None:
        """What is known of this kind, if it still holds."""
        known = self.look(kind, cluster, readings)
        if known is None:
            return None
        # Moves the kind to the end: the least recently used one is evicted first.
        self._known[kind] = self._known.pop(kind)
        self._used[kind] += 1
        return known

    def wanted(self, kind: bytes, uid: str, cluster: Snapshot, readings: Readings) -> bool:
        """Count a pod of this kind that was judged; whether to learn the kind now (said once)."""
        if kind in self._learning or self._hopeless.get(kind) is cluster.era:
            return False
        if self.find(kind, cluster, readings) is not None:
            return False
        known = self._known.get(kind)
        paid = known is not None and self._used[kind] >= known.pays
        seen, last = self._seen.pop(kind, (0, ""))
        seen += uid != last
        _put(self._seen, kind, (seen, uid))
        # A kind that was in use until a node changed is learned again without counting.
        if seen < self._often and not paid:
            return False
        self._learning.add(kind)
        return True

    def learned(self, kind: bytes, known: Known | KnownHooks | None, cluster: Snapshot) -> None:
        """Use what was learned from now on; ``None`` if nothing could be learned with these nodes."""
        self._learning.discard(kind)
        if known is None:
            _put(self._hopeless, kind, cluster.era)
            return
        self._drop(kind)
        self._known[kind] = known
        self._used[kind] = 0
        self._seen.pop(kind, None)
        while len(self._known) > min(_MOST, 1 + _ROWS // (1 + known.count)):
            self._drop(next(iter(self._known)))

    def _drop(self, kind: bytes) -> None:
        """Forget a kind, if it is known; whether it paid says how soon others are learned."""
        known = self._known.pop(kind, None)
        if known is not None:
            paid = self._used.pop(kind) >= known.pays
            self._often = max(_OFTEN, self._often // 2) if paid else min(_VERY_OFTEN, 2 * self._often)

    def clear(self) -> None:
        """Forget everything."""
        self._known.clear()
        self._used.clear()

    def __len__(self) -> int:
        return len(self._known)


def _put(known: dict[bytes, T], kind: bytes, value: T) -> None:
    known[kind] = value
    if len(known) > _SEEN:
        del known[next(iter(known))]
