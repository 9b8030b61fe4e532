"""Answers put together from names that stand in JSON as they are, without an object for each node.

Names of nodes are DNS names: nothing in them is escaped. That is looked at once for all names of a cluster;
where it does not hold, the answer is encoded in the usual way, and says the same.
"""

from collections.abc import Iterable, Sequence

import msgspec

from bayplan.engine.decision import Decision
from bayplan.runtimes.extender.host_lines import HostLines
from bayplan.wire.scale import MAX_EXTENDER_PRIORITY

_NEXT_HOST = '{"Host":"'
_SCORES = [f'","Score":{score}}},{_NEXT_HOST}' for score in range(MAX_EXTENDER_PRIORITY + 1)]


class Spelling:
    """Whether names need no escapes; asked once for each list, which tables that follow one another share."""

    def __init__(self) -> None:
        self._known: tuple[Sequence[str], bool] = ((), True)
        self._lines: tuple[Sequence[str], HostLines | None] = ((), None)

    def is_plain(self, names: Sequence[str]) -> bool:
        """Whether each of these names is in JSON what it is."""
        known, plain = self._known
        if known is not names:
            text = "".join(names)
            plain = "" not in names and msgspec.json.encode(text) == f'"{text}"'.encode()
            # Both at once: another thread may look at the same time.
            self._known = names, plain
        return plain

    def host_lines(self, names: Sequence[str]) -> HostLines | None:
        """Their lines of a prioritize answer; ``None`` where they are better put together one by one.

        To make them takes a while, so this is for a policy's thread, and for names that stay.
        """
        known, lines = self._lines
        if known is not names:
            lines = HostLines.of(names) if self.is_plain(names) else None
            self._lines = names, lines
        return lines


def quoted(names: Iterable[str]) -> str:
    """The inside of a list of names."""
    joined = '","'.join(names)
    return f'"{joined}"' if joined else ""


def filter_answer(told: str, failed: str, unresolvable: str) -> bytes:
    """What filter answers with names alone; each is the inside of a list or an object."""
    return (
        f'{{"Nodes":null,"NodeNames":[{told}],"FailedNodes":{{{failed}}},'
        f'"FailedAndUnresolvableNodes":{{{unresolvable}}},"Error":""}}'
    ).encode()


def refusals(decision: Decision, *, heeded: bool) -> tuple[str, str]:
    """Names with reasons, as the inside of two objects: those that eviction may help, and the others."""
    failed: list[str] = []
    unresolvable: list[str] = []
    for _, reason, rows in decision.groups():
        part = failed if reason.preemptible and heeded else unresolvable
        names = map(decision.nodes.names.__getitem__, rows.tolist())
        part.append(refused(names, spelt(reason.text)))
    return ",".join(failed), ",".join(unresolvable)


def spelt(text: str) -> str:
    """A text as JSON."""
    return msgspec.json.encode(text).decode()


def refused(names: Iterable[str], why: str) -> str:
    """At least one name, each with the reason, as the inside of an object; ``why`` is spelt already."""
    found = f'":{why},"'.join(names)
    return f'"{found}":{why}'


def priority(name: str, score: int) -> str:
    """One line of what prioritize answers."""
    return f'{_NEXT_HOST}{name}","Score":{score}}}'


def together(lines: Iterable[str]) -> bytes:
    """What prioritize answers, out of its lines."""
    return f"[{','.join(lines)}]".encode()


def priorities_answer(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """What prioritize answers; there is at least one name."""
    parts = [""] * (2 * len(names))
    parts[::2] = names
    parts[1::2] = map(_SCORES.__getitem__, scores)
    parts[-1] = f'","Score":{scores[-1]}}}]'
    return f"[{_NEXT_HOST}{''.join(parts)}".encode()
