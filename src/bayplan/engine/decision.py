"""The decision about one pod: every node's verdict and score, by hook."""

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
    """`NOBODY` for each of so many nodes; read-only, since all decisions without a refusal share it."""
    return _EVERY_NODE[:count] if count <= len(_EVERY_NODE) else np.full(count, NOBODY, dtype=np.int16)


class Outcome(msgspec.Struct, frozen=True, eq=False, gc=False):
    """The result of one hook: a verdict, scores, or a failure."""

    # A struct: a dozen are made for each pod, and making a dataclass takes as long as running a small hook.
    hook: Hook
    seconds: float
    verdict: Verdict | None = None
    void: bool = False
    """Whether this is a soft filter that would have left no node, and so did not count."""
    score: Score | None = None
    normalised: NDArray[np.float64] | None = None
    weight: float = 0.0
    failure: Failure | None = None
    ignored: bool = False
    """Whether the hook failed and abstains, by its policy's ``failurePolicy: Ignore``."""
    shadow: bool = False
    """Whether its policy is a shadow policy, which decides nothing."""
    written: Any = None
    """The journal's form of this outcome, once written: outcomes are reused for similar pods."""


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
    """For each node, the index of the outcome that refused it, or `NOBODY`."""
    total: NDArray[np.float64] | None = None
    """Combined score of each node, 0 to 100; ``None`` if no policy scored."""
    error: str = ""
    """Set if a policy with ``failurePolicy: Fail`` failed: there is no verdict then."""
    not_in_view: tuple[str, ...] = ()
    """Nodes that were asked about and are not in view: each is refused."""
    kept: Rows | None = None
    """With `keep`: the rows that the answer lists, best first; ``None`` for all."""
    turn: int = 0
    """With `keep`: how many earlier answers listed other nodes to this pod."""
    judged: bool = True
    """False if no policy applies to this pod: every node passes."""
    seconds: float = 0.0

    @cached_property
    def passed(self) -> NDArray[np.bool_]:
        """For each node, whether it passed."""
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
        """The outcomes of hooks that failed, ignored or not."""
        return [outcome for outcome in self.outcomes if outcome.failure]

    def refusal(self, row: int) -> Refusal | None:
        """Why the node of that row was refused, with its detail; ``None`` if it passed."""
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
        """The refused rows, grouped by outcome and reason."""
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
        """The passing rows that shadow policies would have refused, grouped by outcome and reason."""
        for outcome in self.outcomes:
            if outcome.shadow and outcome.verdict is not None and not outcome.void:
                for reason, rows in _by_reason(outcome.verdict, self.passed & outcome.verdict.refused):
                    yield outcome, reason, rows


def _by_reason(verdict: Verdict, refused: NDArray[np.bool_]) -> Iterator[tuple[Reason, Rows]]:
    """The rows marked in ``refused``, grouped by the verdict's reason for each."""
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
