"""Assembles answers by joining node names, without a JSON encoder and without an object for each node.

Node names are DNS names, so JSON needs no escapes for them. That is checked once for all names of a cluster;
if it does not hold, the answer is encoded in the usual way, with the same content.
"""

from collections.abc import Iterable, Sequence

import msgspec

from bayplan.engine.decision import Decision
from bayplan.runtimes.extender.host_lines import HostLines
from bayplan.wire.scale import MAX_EXTENDER_PRIORITY

_NEXT_HOST = '{"Host":"'
_SCORES = [f'","Score":{score}}},{_NEXT_HOST}' for score in range(MAX_EXTENDER_PRIORITY + 1)]


class Spelling:
    """Checks names for JSON escapes, once per list: successive tables share their list of names."""

    def __init__(self) -> None:
        self._known: tuple[Sequence[str], bool] = ((), True)
        self._lines: tuple[Sequence[str], HostLines | None] = ((), None)

    def is_plain(self, names: Sequence[str]) -> bool:
        """Whether JSON writes each of these names without escapes."""
        known, plain = self._known
        if known is not names:
            text = "".join(names)
            plain = "" not in names and msgspec.json.encode(text) == f'"{text}"'.encode()
            # One assignment: another thread may read it at the same time.
            self._known = names, plain
        return plain

    def host_lines(self, names: Sequence[str]) -> HostLines | None:
        """The names' lines of a prioritize answer as one block; ``None`` if a block does not pay.

        Building the block takes a while: call this in a policy thread, for names that stay.
        """
        known, lines = self._lines
        if known is not names:
            lines = HostLines.of(names) if self.is_plain(names) else None
            self._lines = names, lines
        return lines


def quoted(names: Iterable[str]) -> str:
    """The names as the inside of a JSON list."""
    joined = '","'.join(names)
    return f'"{joined}"' if joined else ""


def filter_answer(told: str, failed: str, unresolvable: str) -> bytes:
    """A filter answer of names; each argument is the inside of a JSON list or object."""
    return (
        f'{{"Nodes":null,"NodeNames":[{told}],"FailedNodes":{{{failed}}},'
        f'"FailedAndUnresolvableNodes":{{{unresolvable}}},"Error":""}}'
    ).encode()


def refusals(decision: Decision, *, heeded: bool) -> tuple[str, str]:
    """Refused names with reasons, as the insides of FailedNodes and of FailedAndUnresolvableNodes."""
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
    """The names, at least one, each with the reason, as the inside of a JSON object; ``why`` is JSON."""
    found = f'":{why},"'.join(names)
    return f'"{found}":{why}'


def priority(name: str, score: int) -> str:
    """One line of a prioritize answer."""
    return f'{_NEXT_HOST}{name}","Score":{score}}}'


def together(lines: Iterable[str]) -> bytes:
    """A prioritize answer, joined from its lines."""
    return f"[{','.join(lines)}]".encode()


def priorities_answer(names: Sequence[str], scores: Sequence[int]) -> bytes:
    """A prioritize answer for at least one name."""
    parts = [""] * (2 * len(names))
    parts[::2] = names
    parts[1::2] = map(_SCORES.__getitem__, scores)
    parts[-1] = f'","Score":{scores[-1]}}}]'
    return f"[{_NEXT_HOST}{''.join(parts)}".encode()
