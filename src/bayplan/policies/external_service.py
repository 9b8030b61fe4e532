"""ExternalService: what a web service says of a pod and the nodes it may go to.

Filter   refuses nodes with the service's own text; or those that it says nothing of.
Score    the service's numbers, the higher the better.
Reads    the columns ``refuse`` and ``score`` of a source with ``per: pod``.
"""

from typing import Annotated, Literal

import msgspec
import numpy as np
from numpy.typing import NDArray

import bayplan
from bayplan import Args, NodeTable, Reason, Source, Verdict

# Each text is a label of a metric, and all of them go into one event of the pod.
TEXTS_LIMIT = 20
# Whatever a service says, the distance between two scores must be a number.
_FAR = 1e300


class ExternalServiceArgs(Args):
    """Settings of `ExternalService`."""

    source: Annotated[
        str,
        msgspec.Meta(pattern="^[A-Za-z0-9_-]+$", extra={"want": "the name of a source, without a column"}),
    ]
    """The source that is asked: an ``http`` one with ``per: pod``."""
    score: bool = True
    """Whether its numbers count, or its refusals alone."""
    score_range: tuple[float, float] | None = None
    """The worst and the best score; where it is left out, the scores of one answer are stretched."""
    on_missing: Literal["pass", "refuse"] = "pass"
    """What becomes of a node that the service says nothing of."""

    def __post_init__(self) -> None:
        if self.score_range is not None and not self.score_range[0] < self.score_range[1]:
            raise ValueError("scoreRange: want the worst score first and then the best, such as [0, 10]")


@bayplan.policy
class ExternalService:
    """Ask a web service."""

    def __init__(self, args: ExternalServiceArgs) -> None:
        self._args = args
        self._refuse = Source(f"{args.source}.refuse", str)
        self._score = Source(f"{args.source}.score")
        # Without topics: nobody tells when a service would say something else.
        self._plain = Reason(f"refused by {args.source}")
        self._silent = Reason(f"{args.source} says nothing of the node")

    @bayplan.filter
    def allowed(self, nodes: NodeTable) -> Verdict:
        """Where the service refuses the pod, with its text."""
        said = nodes[self._refuse]
        refused = said.present & ~said.isin(["", "false"])
        codes, counts = np.unique(said.codes[refused], return_counts=True)
        most = codes[np.argsort(-counts, kind="stable")[:TEXTS_LIMIT]]
        reasons = [self._reason(said.values[code]) for code in most.tolist()]
        # The last reason is for all the texts that have none of their own.
        numbers = np.full(len(said.values) + 1, len(reasons) + 1, dtype=np.int16)
        numbers[most] = np.arange(1, len(most) + 1)
        verdict = Verdict(np.where(refused, numbers[said.codes], 0), (*reasons, self._plain))
        if self._args.on_missing == "pass":
            return verdict
        return verdict | self._silent.where(~said.present & np.isnan(nodes[self._score]))

    @bayplan.score(range=(0, 100))
    def preferred(self, nodes: NodeTable) -> NDArray[np.float64]:
        """The service's numbers, from 0 to 100."""
        scores = nodes[self._score].clip(-_FAR, _FAR)
        known = scores[~np.isnan(scores)]
        if not self._args.score or not known.size:
            return np.full(len(nodes), np.nan)
        low, high = self._args.score_range or (known.min(), known.max())
        if low == high:
            return np.where(np.isnan(scores), np.nan, 50.0)
        found: NDArray[np.float64] = 100.0 * ((scores - low) / (high - low))
        return found

    def _reason(self, text: str) -> Reason:
        return self._plain if text.strip() in ("", "true") else Reason(text)
