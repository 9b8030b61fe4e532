"""Which kinds of pods something is known about, and which are worth finding out about.

To learn about a kind takes a look at every node of the cluster. That pays where pods like it come again, and
before it had to make room for others.
"""

from typing import TypeVar

from bayplan.runtimes.extender.known import Known
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import Readings

T = TypeVar("T")

_SEEN = 1024
# A kind takes some 230 bytes a node, and a few thousand whatever the nodes.
_ROWS, _MOST = 250_000, 512
# What was learned has paid when it was used so often.
_PAYS = 8
# How often a kind has to come before it is worth it: the first, and where much was learned in vain.
_OFTEN, _VERY_OFTEN = 2, 64


class Kinds:
    """The kinds that were asked about last. It belongs to the event loop."""

    def __init__(self) -> None:
        self._known: dict[bytes, Known] = {}
        self._used: dict[bytes, int] = {}
        # How many pods of a kind had to be judged, and the last of them: it is asked about twice.
        self._seen: dict[bytes, tuple[int, str]] = {}
        self._often = _OFTEN
        self._learning: set[bytes] = set()
        # Kinds of which nothing could be learned, with the nodes that were there.
        self._hopeless: dict[bytes, object] = {}

    def find(self, kind: bytes, cluster: Snapshot, readings: Readings) -> Known | None:
        """What is known about it, if that still holds."""
        known = self._known.get(kind)
        if known is None or not known.holds(cluster, readings):
            return None
        # The last one that was used is the last to go.
        self._known[kind] = self._known.pop(kind)
        self._used[kind] += 1
        return known

    def wanted(self, kind: bytes, uid: str, cluster: Snapshot, readings: Readings) -> bool:
        """Whether it is time to learn about it, now that this pod of it had to be judged; it is so once."""
        known = self._known.get(kind)
        if kind in self._learning or self._hopeless.get(kind) is cluster.era:
            return False
        if known is not None and known.holds(cluster, readings):
            return False
        seen, last = self._seen.pop(kind, (0, ""))
        seen += uid != last
        _put(self._seen, kind, (seen, uid))
        # One that was of use, and is not since a node has changed, is learned at once.
        if seen < self._often and (known is None or self._used[kind] < _OFTEN):
            return False
        self._learning.add(kind)
        return True

    def learned(self, kind: bytes, known: Known | None, cluster: Snapshot) -> None:
        """Use it from now on; ``None`` where nothing could be learned of these nodes."""
        self._learning.discard(kind)
        if known is None:
            _put(self._hopeless, kind, cluster.era)
            return
        self._known.pop(kind, None)
        self._known[kind] = known
        self._used[kind] = 0
        self._seen.pop(kind, None)
        while len(self._known) > min(_MOST, 1 + _ROWS // (1 + len(known.verdicts))):
            oldest = next(iter(self._known))
            del self._known[oldest]
            paid = self._used.pop(oldest) >= _PAYS
            self._often = max(_OFTEN, self._often // 2) if paid else min(_VERY_OFTEN, 2 * self._often)

    def clear(self) -> None:
        """Know nothing any more."""
        self._known.clear()
        self._used.clear()

    def __len__(self) -> int:
        return len(self._known)


def _put(known: dict[bytes, T], kind: bytes, value: T) -> None:
    known[kind] = value
    if len(known) > _SEEN:
        del known[next(iter(known))]
