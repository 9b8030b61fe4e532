"""What was decided about one pod, and why: the record that every door hands on."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from bayplan.authoring.registry import Hook
from bayplan.authoring.verdict import Reason, Score, Verdict
from bayplan.engine.guard import Failure
from bayplan.kube.pod import Pod
from bayplan.snapshot.table import NodeTable

NOBODY = -1
Rows = NDArray[np.intp]
NOT_IN_VIEW = Reason("node is not in Bayplan's view", helped_by=frozenset({"nodes"}))


_EVERY_NODE = np.full(1 << 16, NOBODY, dtype=np.int16)
_EVERY_NODE.flags.writeable = False


def nobody(count: int) -> NDArray[np.int16]:
    """`NOBODY` for so many nodes, not to be written to: all decisions that refuse nobody share it."""
    return _EVERY_NODE[:count] if count <= len(_EVERY_NODE) else np.full(count, NOBODY, dtype=np.int16)


class Outcome(msgspec.Struct, frozen=True, eq=False, gc=False):
    """What one hook said, or how it failed."""

    # A dozen of these are made for a pod; as a dataclass each would take as long as the hook of a rule that
    # has nothing to say.
    hook: Hook
    seconds: float
    verdict: Verdict | None = None
    void: bool = False
    """A soft filter that would have left no node, and so did not count."""
    score: Score | None = None
    normalised: NDArray[np.float64] | None = None
    weight: float = 0.0
    failure: Failure | None = None
    ignored: bool = False
    """It failed, and its policy's ``failurePolicy: Ignore`` made it abstain."""
    shadow: bool = False
    """Its policy is only looked at: nothing of it counts."""
    written: Any = None
    """As the journal has it, once it has: what was said about a pod is said again about those like it."""


@dataclass(frozen=True)
class Refusal:
    """Why one node was refused."""

    node: str
    policy: str
    hook: str
    reason: Reason
    detail: str = ""


class Decision(msgspec.Struct, frozen=True, eq=False, dict=True):
    """Every node's verdict and score, by policy."""

    pod: Pod
    nodes: NodeTable
    outcomes: tuple[Outcome, ...]
    refused_by: NDArray[np.int16]
    """One number a node: the outcome that refused it, or `NOBODY`."""
    total: NDArray[np.float64] | None = None
    """Combined score of each node, 0 to 100; ``None`` where nobody had a score to give."""
    error: str = ""
    """Set when a policy failed whose ``failurePolicy`` is Fail: there is no answer then."""
    not_in_view: tuple[str, ...] = ()
    """Nodes that were asked about and are not in the view: refused, each alone."""
    kept: Rows | None = None
    """Of an answer that was cut down: the rows that are told, the best first; ``None`` for all."""
    turn: int = 0
    """How often the pod was told others before them."""
    judged: bool = True
    """False where no policy is for this pod: everything passes untouched."""
    seconds: float = 0.0

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """One bool a node: true where nobody refused it."""
        return np.equal(self.refused_by, NOBODY)

    @cached_property
    def passed_names(self) -> list[str]:
        """Names of the nodes that passed, in the order they were asked about."""
        names = self.nodes.names
        if not self.outcomes:
            return list(names)
        return list(compress(names, self.passed.tolist()))

    @property
    def failures(self) -> list[Outcome]:
        """Hooks that failed, whether or not that was ignored."""
        return [outcome for outcome in self.outcomes if outcome.failure]

    def refusal(self, row: int) -> Refusal | None:
        """Why the node of that row was refused, with the numbers behind it."""
        number = int(self.refused_by[row])
        if number == NOBODY:
            return None
        outcome = self.outcomes[number]
        reason = outcome.verdict.reason(row) if outcome.verdict else None
        if outcome.verdict is None or reason is None:
            return None
        detail = outcome.verdict.detail(row)
        return Refusal(self.nodes.names[row], outcome.hook.policy, outcome.hook.name, reason, detail)

    def groups(self) -> Sequence[tuple[Outcome, Reason, Rows]]:
        """The refused rows, grouped by who refused them and why: few groups, however many nodes."""
        return self._groups

    @cached_property
    def _groups(self) -> Sequence[tuple[Outcome, Reason, Rows]]:
        return [
            (outcome, reason, rows)
            for number, outcome in enumerate(self.outcomes)
            if outcome.verdict is not None and outcome.verdict.reasons
            for reason, rows in _by_reason(outcome.verdict, self.refused_by == number)
        ]

    def shadow_groups(self) -> Iterator[tuple[Outcome, Reason, Rows]]:
        """The rows that a shadow policy would have refused and nobody did, grouped as `groups` does."""
        for outcome in self.outcomes:
            if outcome.shadow and outcome.verdict is not None and not outcome.void:
                for reason, rows in _by_reason(outcome.verdict, self.passed & outcome.verdict.refused):
                    yield outcome, reason, rows


def _by_reason(verdict: Verdict, refused: NDArray[np.bool_]) -> Iterator[tuple[Reason, Rows]]:
    """Those of a verdict's refused rows that are chosen, by reason."""
    rows = refused.nonzero()[0]
    if not rows.size:
        return
    if len(verdict.reasons) == 1:
        yield verdict.reasons[0], rows
        return
    codes = verdict.codes[rows]
    for code, reason in enumerate(verdict.reasons, start=1):
        found = rows[codes == code]
        if found.size:
            yield reason, found
