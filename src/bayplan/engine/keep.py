"""Shortens a filter's answer to the best of the nodes that passed (``extender.answer.keep``).

kube-scheduler runs every Score plugin on each node that passes; listing only the best nodes saves that. A pod
that comes again got a node that failed later, and kube-scheduler does not remember which. So each further
answer lists the next nodes in order, and no node is tried for ever.
"""

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Literal
from zlib import crc32

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.registry import Policy
from bayplan.engine.cycle import Question, filter_and_score, filter_nodes, interested
from bayplan.engine.decision import Decision, Rows
from bayplan.engine.guard import Attempt
from bayplan.kube.node import NodeObject
from bayplan.snapshot.table import NodeTable

# At 300 pods a second that is almost a minute of pods; kube-scheduler's longest backoff is ten seconds.
_REMEMBERED = 16_384
_ALL_BITS = (1 << 64) - 1
_FEW = 32

Numbers = NDArray[np.uint64]
Refusals = Literal["always", "again", "whenNonePass"]
"""When an answer lists refused nodes with their reasons: ``always``; only ``whenNonePass``; or also to a pod
that comes ``again``, since another plugin has refused the nodes that it was given."""


class Turns:
    """Counts the shortened answers of each waiting pod: answers that left out nodes or reasons.

    Written on the event loop, read by any thread.
    """

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._told: OrderedDict[str, int] = OrderedDict()
        self._limit = limit

    def of(self, uid: str) -> int:
        """How many shortened answers the pod got; 0 for an unknown pod."""
        return self._told.get(uid, 0)

    def told(self, uid: str) -> None:
        """Count a shortened answer; over the limit, the pod without one for longest is forgotten."""
        if not uid:
            return
        self._told[uid] = self.of(uid) + 1
        self._told.move_to_end(uid)
        if len(self._told) > self._limit:
            self._told.popitem(last=False)

    def forget(self, uid: str) -> None:
        """Forget a pod that was bound, since it does not come again."""
        self._told.pop(uid, None)

    def __len__(self) -> int:
        return len(self._told)


def filter_and_keep(
    policies: Sequence[Policy], question: Question, attempt: Attempt, *, keep: int, turns: Turns
) -> tuple[Decision, Decision | None]:
    """As `filter_nodes`, and if more than ``keep`` nodes pass, the decision with scores and kept rows.

    A pod that only shadow policies apply to keeps all its nodes.
    """
    if not interested(policies, question.pod):
        return filter_nodes(policies, question, attempt), None
    filtered, scored = filter_and_score(policies, question, attempt, more_than=keep)
    if scored is None:
        return filtered, None
    if attempt.turn is None:
        attempt.turn = turns.of(question.pod.uid)
    kept = best(scored.total, scored.nodes, question.pod.uid, keep=keep, turn=attempt.turn)
    return filtered, msgspec.structs.replace(scored, kept=kept, turn=attempt.turn)


def best(total: NDArray[np.float64] | None, nodes: NodeTable, uid: str, *, keep: int, turn: int = 0) -> Rows:
    """The ``keep`` rows for this turn, best first.

    The order is by score, then by a hash of the pod's UID and the node's name: different pods get different
    nodes, the same pod always the same ones. Each turn takes the next rows in that order, cyclically.
    """
    if turn == 0:
        return _first(total, nodes, uid, keep)
    numbers = _mixed(nodes[_NAMES], uid)
    order = np.argsort(numbers, kind="stable") if total is None else np.lexsort((numbers, -total))
    places: Rows = (turn * keep + np.arange(min(keep, order.size))) % max(1, order.size)
    chosen: Rows = order[places]
    return chosen


def _first(total: NDArray[np.float64] | None, nodes: NodeTable, uid: str, keep: int) -> Rows:
    """The first ``keep`` rows of the order, without sorting the others."""
    count = len(nodes)
    if keep == 1 and total is not None and count:
        equal: Rows = (total == total.max()).nonzero()[0]
        if equal.size > 1:
            lowest = first_of_equals(nodes, equal.tolist(), uid)
            equal = equal[lowest : lowest + 1]
        return equal
    if keep >= count:
        chosen = np.arange(count)
    elif total is None:
        chosen = np.argpartition(_mixed(nodes[_NAMES], uid), keep - 1)[:keep]
    else:
        least = np.partition(total, count - keep)[count - keep]
        better, equal = np.flatnonzero(total > least), np.flatnonzero(total == least)
        wanted = keep - better.size
        if equal.size > wanted:
            numbers = _mixed(nodes[_NAMES][equal], uid)
            equal = equal[np.argpartition(numbers, wanted - 1)[:wanted]]
        chosen = np.concatenate((better, equal))
    if total is None:
        return chosen
    ranked: Rows = chosen[np.argsort(-total[chosen], kind="stable")]
    return ranked


def first_of_equals(nodes: NodeTable, rows: list[int], uid: str) -> int:
    """The position in ``rows`` of the row whose hash comes first."""
    if len(rows) > _FEW:
        return int(_mixed(nodes[_NAMES][rows], uid).argmin())
    # The same with plain ints: after a pause one NumPy call takes longer than all of these.
    key, known = _key(uid), memoryview(nodes[_NAMES])
    numbers = [known[row] * key & _ALL_BITS for row in rows]
    return numbers.index(min(numbers))


class _NameNumbers:
    """A column with a hash of each node's name, the same in every process."""

    title = "number of the name"
    meaning = "what equals are told apart by"

    def read(self, nodes: list[NodeObject]) -> Numbers:
        """The hashes; the table caches them as long as its nodes stay the same."""
        return np.array([_number(node.name) for node in nodes], dtype=np.uint64)


_NAMES = _NameNumbers()


def _mixed(names: Numbers, uid: str) -> Numbers:
    """The hashes of names mixed with the pod's UID: a different order for each pod."""
    mixed: Numbers = names * np.uint64(_key(uid))
    return mixed


def _number(name: str) -> int:
    # Never 0, which would stay the lowest whatever it is multiplied by.
    return crc32(name.encode()) | 1 << 32


def _key(uid: str) -> int:
    """The pod's multiplier: 64 bits, and odd so that different hashes stay different."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest(), "little") | 1
