"""Analyses the filters' verdicts in a dry run: filters that refuse every node, and unreadable reasons."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from bayplan.authoring.registry import Hook, Policy
from bayplan.authoring.verdict import Reason
from bayplan.config.lines import is_built_in
from bayplan.engine.decision import Decision, Outcome
from bayplan.kube.written import UNITS
from bayplan.kube.yaml import suggest
from bayplan.snapshot.sources import Latch, Source

_SOURCE = "source:"
_TO_FILL_IN = re.compile(r"\{\w+(:[^{}]*)?\}")
_NUMBER = re.compile(r"\d+(\.\d+)?")


@dataclass
class _Said:
    """The verdicts of one filter about the nodes of a cluster, for all pods that were tried."""

    hook: Hook
    nodes: int
    only_no: bool = True
    texts: Counter[str] = field(default_factory=Counter)


class Refusals:
    """The verdicts of all filters."""

    def __init__(self) -> None:
        self._of_cluster: dict[int, _Said] = {}
        self._odd: dict[tuple[str, str], str] = {}

    def note(self, policy: Policy, decision: Decision, *, of_cluster: bool) -> None:
        """Note the verdicts of a policy's filters for one pod."""
        # In a dry run the values of sources are made up: a node refused for them may pass in production.
        telling = of_cluster and not any(isinstance(column, Source | Latch) for column in policy.columns)
        for outcome in decision.outcomes:
            if outcome.hook.spec.kind not in ("filter", "prefer"):
                continue
            texts = _texts(outcome)
            if not is_built_in(outcome.hook):
                for about, hint in _odd(policy, outcome, texts):
                    self._odd.setdefault((outcome.hook.title, about), hint)
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
        """Suggestions about the verdicts."""
        found = [_refuses_all(said) for said in self._of_cluster.values() if said.only_no]
        return [*found, *self._odd.values()]


def _odd(policy: Policy, outcome: Outcome, texts: Counter[str]) -> Iterator[tuple[str, str]]:
    """Reasons that people cannot read or kube-scheduler cannot count, each with a suggestion."""
    title, verdict = outcome.hook.title, outcome.verdict
    if verdict is None:
        return
    if outcome.hook.name in texts:
        name = outcome.hook.name
        yield "name", f'{title}: people will read "{name}" as the reason; return a Reason with a text'
    for text in filter(_TO_FILL_IN.search, texts):
        yield text, f'{title}: people will read "{text}" as it stands: numbers are filled into `detail` alone'
    if same := _alike(texts):
        yield (
            "number",
            f'{title}: "{same[0]}" and "{same[1]}" are two reasons, and kube-scheduler counts equal ones:'
            " return a Reason with one text for all nodes, and the number in its `detail`",
        )
    for code, reason in enumerate(verdict.reasons, start=1):
        rows = (verdict.codes == code).nonzero()[0]
        if rows.size and (fault := verdict.fault_of_detail(int(rows[0]))):
            yield (
                reason.detail,
                f'{title}: people will read "{reason.detail}" as it stands, since it cannot be filled in:'
                f" {fault}; want a format of Python, or :{' or :'.join(sorted(UNITS))}",
            )
        yield from _unread(policy, title, reason)


def _alike(texts: Counter[str]) -> list[str]:
    """Two texts that differ only in a number."""
    alike: dict[str, list[str]] = {}
    for text in texts:
        alike.setdefault(_NUMBER.sub("0", text), []).append(text)
    return next((same[:2] for same in alike.values() if len(same) > 1), [])


def _unread(policy: Policy, title: str, reason: Reason) -> Iterator[tuple[str, str]]:
    """Sources in ``helped_by`` that the policy does not read."""
    read = {column.source for column in policy.columns if isinstance(column, Source | Latch)}
    for topic in sorted(reason.helped_by):
        name = topic.removeprefix(_SOURCE)
        if topic.startswith(_SOURCE) and name not in read:
            hint = suggest(name, read) if read else ""
            text = f'"{reason.text}" is helped by {topic!r}, which the policy does not read'
            yield topic, f"{title}: {text}{hint}"


def _texts(outcome: Outcome) -> Counter[str]:
    """The number of refused nodes, by the text of the reason."""
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
