"""Answers put together from names that stand in JSON as they are, without an object for each node.

Names of nodes are DNS names: nothing in them is escaped. That is looked at once for all names of a cluster;
where it does not hold, the answer is encoded in the usual way, and says the same.
"""

from collections.abc import Iterable, Sequence
from itertools import compress

import msgspec
import numpy as np

from bayplan.engine.decision import Decision, Rows
from bayplan.wire.scale import MAX_EXTENDER_PRIORITY

_NEXT_HOST = '{"Host":"'
_SCORES = [f'","Score":{score}}},{_NEXT_HOST}' for score in range(MAX_EXTENDER_PRIORITY + 1)]


class Spelling:
    """Whether names need no escapes; asked once for each list, which tables that follow one another share."""

    def __init__(self) -> None:
        self._known: tuple[Sequence[str], bool] = ((), True)

    def is_plain(self, names: Sequence[str]) -> bool:
        """Whether each of these names is in JSON what it is."""
        known, plain = self._known
        if known is not names:
            text = "".join(names)
            plain = "" not in names and msgspec.json.encode(text) == f'"{text}"'.encode()
            # Both at once: another thread may look at the same time.
            self._known = names, plain
        return plain


def filter_answer(told: Iterable[str], failed: str, unresolvable: str) -> bytes:
    """What filter answers with names alone."""
    names = '","'.join(told)
    quoted = f'"{names}"' if names else ""
    return (
        f'{{"Nodes":null,"NodeNames":[{quoted}],"FailedNodes":{{{failed}}},'
        f'"FailedAndUnresolvableNodes":{{{unresolvable}}},"Error":""}}'
    ).encode()


def refusals(decision: Decision, *, preemptible: bool, heeded: bool) -> str:
    """Names with their reasons, as the inside of an object: those that eviction may help, or the others."""
    parts = [
        _refused(decision, reason.text, rows)
        for _, reason, rows in decision.groups()
        if (reason.preemptible and heeded) is preemptible
    ]
    return ",".join(parts)


def _refused(decision: Decision, reason: str, rows: Rows) -> str:
    chosen = np.zeros(len(decision.nodes), dtype=bool)
    chosen[rows] = True
    why = msgspec.json.encode(reason).decode()
    names = f'":{why},"'.join(compress(decision.nodes.names, chosen.tolist()))
    return f'"{names}":{why}'


def priorities_answer(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """What prioritize answers; there is at least one name."""
    parts = [""] * (2 * len(names))
    parts[::2] = names
    parts[1::2] = map(_SCORES.__getitem__, scores)
    parts[-1] = f'","Score":{scores[-1]}}}]'
    return f"[{_NEXT_HOST}{''.join(parts)}".encode()
