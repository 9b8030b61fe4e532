"""What filters said in a dry run: who refuses every node there is, and who gives no reason but its name."""

from collections import Counter
from dataclasses import dataclass, field

from bayplan.authoring.registry import Hook, Policy
from bayplan.config.lines import is_built_in
from bayplan.engine.decision import Decision, Outcome
from bayplan.snapshot.sources import Latch, Source


@dataclass
class _Said:
    """What one filter said of the nodes of a cluster, to all pods that were tried."""

    hook: Hook
    nodes: int
    only_no: bool = True
    texts: Counter[str] = field(default_factory=Counter)


class Refusals:
    """What was said, question by question."""

    def __init__(self) -> None:
        self._of_cluster: dict[int, _Said] = {}
        self._by_name: dict[str, Hook] = {}

    def note(self, policy: Policy, decision: Decision, *, of_cluster: bool) -> None:
        """What the filters of a policy said to one pod."""
        # Values of sources are made up in a dry run: what is refused for them may pass in fact.
        telling = of_cluster and not any(isinstance(column, Source | Latch) for column in policy.columns)
        for outcome in decision.outcomes:
            if outcome.hook.spec.kind not in ("filter", "prefer"):
                continue
            texts = _texts(outcome)
            if outcome.hook.name in texts:
                self._by_name.setdefault(outcome.hook.title, outcome.hook)
            if telling and outcome.hook.spec.kind == "filter":
                self._note(outcome.hook, texts, len(decision.nodes))

    def _note(self, hook: Hook, texts: Counter[str], nodes: int) -> None:
        said = self._of_cluster.setdefault(id(hook), _Said(hook, nodes))
        said.only_no = said.only_no and nodes > 0 and texts.total() == nodes
        said.texts += texts

    @property
    def refusing_all(self) -> list[Hook]:
        """Filters that refused every node of the cluster to every pod."""
        return [said.hook for said in self._of_cluster.values() if said.only_no]

    @property
    def hints(self) -> list[str]:
        """What is odd about them."""
        found = [_refuses_all(said) for said in self._of_cluster.values() if said.only_no]
        return found + [
            f'{hook.title}: people will read "{hook.name}" as the reason; return a Reason with a text'
            for hook in self._by_name.values()
        ]


def _texts(outcome: Outcome) -> Counter[str]:
    """How many nodes were refused, by the text of the reason."""
    verdict = outcome.verdict
    if verdict is None:
        return Counter()
    codes = Counter(verdict.codes[verdict.refused].tolist())
    texts: Counter[str] = Counter()
    for code, count in codes.items():
        texts[verdict.reasons[code - 1].text] += count
    return texts


def _refuses_all(said: _Said) -> str:
    which = f"all {said.nodes} nodes" if said.nodes > 1 else "the only node"
    text = said.texts.most_common(1)[0][0]
    who = f"policy {said.hook.policy!r}" if is_built_in(said.hook) else said.hook.title
    return f'{who}: refuses {which} of the cluster for each pod that was tried ("{text}")'
