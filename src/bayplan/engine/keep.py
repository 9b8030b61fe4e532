"""An answer cut down to the best of the nodes that passed: which those are, and whose turn it is.

kube-scheduler runs every Score plugin on each node that we let pass. Who knows which nodes are best tells it
those alone. A pod that comes again was given a node that then failed, and kube-scheduler forgets such a node:
each time the next ones in order are told, so that none is tried for ever.
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

# At 300 pods a second these came within a minute, and kube-scheduler's longest pause is ten seconds.
_REMEMBERED = 16_384
_ALL_BITS = (1 << 64) - 1
_FEW = 32

Numbers = NDArray[np.uint64]
Refusals = Literal["always", "again", "whenNonePass"]
"""When refused nodes are told with their reasons: always; where no node passed; or there, and to a pod that
comes ``again``: it was told less, and somebody else has refused the rest."""


class Turns:
    """How often each waiting pod was told a part: of its nodes, or of why others were refused.

    Counted in the event loop, read anywhere.
    """

    def __init__(self, *, limit: int = _REMEMBERED) -> None:
        self._told: OrderedDict[str, int] = OrderedDict()
        self._limit = limit

    def of(self, uid: str) -> int:
        """How often that was; 0 for a pod that nobody remembers."""
        return self._told.get(uid, 0)

    def told(self, uid: str) -> None:
        """The pod was told once more; the pod that was told the longest ago may be forgotten for it."""
        if not uid:
            return
        self._told[uid] = self.of(uid) + 1
        self._told.move_to_end(uid)
        if len(self._told) > self._limit:
            self._told.popitem(last=False)

    def forget(self, uid: str) -> None:
        """The pod is bound: it does not come again."""
        self._told.pop(uid, None)

    def __len__(self) -> int:
        return len(self._told)


def filter_and_keep(
    policies: Sequence[Policy], question: Question, attempt: Attempt, *, keep: int, turns: Turns
) -> tuple[Decision, Decision | None]:
    """As `filter_nodes`; and where more than ``keep`` nodes pass, their scores and which are kept.

    Shadow policies change nothing: a pod that only they are for keeps all its nodes.
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
    """The ``keep`` rows whose turn it is, the best of them first.

    The order is by score, and among equals by a number made of the pod's UID and the node's name: other pods
    get others, the same pod the same. With each turn the next ones in that order come, and after the last
    the first.
    """
    if turn == 0:
        return _first(total, nodes, uid, keep)
    numbers = _mixed(nodes[_NAMES], uid)
    order = np.argsort(numbers, kind="stable") if total is None else np.lexsort((numbers, -total))
    places: Rows = (turn * keep + np.arange(min(keep, order.size))) % max(1, order.size)
    chosen: Rows = order[places]
    return chosen


def _first(total: NDArray[np.float64] | None, nodes: NodeTable, uid: str, keep: int) -> Rows:
    """The first rows of the order, without putting the rest in order."""
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
    """The place, among these rows, of the one that comes first among equals."""
    if len(rows) > _FEW:
        return int(_mixed(nodes[_NAMES][rows], uid).argmin())
    # The same in plain numbers: after a pause each of NumPy's functions takes as long as these few together.
    key, known = _key(uid), memoryview(nodes[_NAMES])
    numbers = [known[row] * key & _ALL_BITS for row in rows]
    return numbers.index(min(numbers))


class _NameNumbers:
    """A number for each node's name, the same wherever and whenever it is made."""

    title = "number of the name"
    meaning = "what equals are told apart by"

    def read(self, nodes: list[NodeObject]) -> Numbers:
        """The numbers; the table keeps them as long as the nodes are the same."""
        return np.array([_number(node.name) for node in nodes], dtype=np.uint64)


_NAMES = _NameNumbers()


def _mixed(names: Numbers, uid: str) -> Numbers:
    """The numbers of names, mixed with the pod's UID: for each pod as if drawn anew."""
    mixed: Numbers = names * np.uint64(_key(uid))
    return mixed


def _number(name: str) -> int:
    # None is 0, which would be the lowest whatever it is multiplied by.
    return crc32(name.encode()) | 1 << 32


def _key(uid: str) -> int:
    """What a pod multiplies by: odd, so that no two names become one, and with bits up to the highest."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=8).digest(), "little") | 1
