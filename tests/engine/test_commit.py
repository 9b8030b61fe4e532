"""The last word before a bind: a policy prepares once for all that it says there, and within one budget."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import bayplan
from bayplan import Reason
from bayplan.authoring.load import Definition
from bayplan.authoring.registry import Policy
from bayplan.engine.commit import Commitment, allocate, commit
from bayplan.engine.cycle import Question
from bayplan.engine.guard import Attempt, Failure
from bayplan.snapshot.units import Allocation
from bayplan.testing import make_cluster, make_pod

CLUSTER = make_cluster(["chosen"], [])
FULL = Reason("nothing is left")


@bayplan.policy
class Generous:
    """Gives twice, from what it prepared, and refuses nothing."""

    def __init__(self) -> None:
        self.prepared: list[str] = []
        self.refuses = self.fails = False

    @bayplan.prepare
    def looks(self, pod: Any, cluster: Any) -> Any:
        self.prepared.append(pod.name)
        if self.fails:
            raise ValueError("no map")
        return f"plan {len(self.prepared)}"

    @bayplan.allocate
    def first(self, pod: Any, node: Any, prepared: Any) -> Any:
        return Allocation({}, {"example.com/first": prepared})

    @bayplan.allocate
    def second(self, pod: Any, node: Any, prepared: Any) -> Any:
        return Allocation({}, {"example.com/second": prepared})


@bayplan.policy
class Thorough(Generous):
    """Has a rule to check once more, too."""

    @bayplan.filter(recheck=True)
    def fits(self, pod: Any, nodes: Any, prepared: Any) -> Any:
        return FULL.where([self.refuses])


def made(kind: type[Generous] = Thorough, **changes: Any) -> tuple[Policy, Generous]:
    policy = Definition(kind.__name__, (), kind, ()).make()
    target = policy.hooks[0].function.__self__  # type: ignore[attr-defined]
    return replace(policy, **changes), target


def word(*policies: Policy, attempt: Attempt | None = None) -> Commitment:
    question = Question(make_pod("web"), CLUSTER.nodes, CLUSTER, datetime.now(UTC))
    return commit(policies, question, "chosen", attempt)


@pytest.mark.parametrize("kind", [Thorough, Generous])
def test_a_policy_prepares_once_for_all_its_hooks(kind: type[Generous]) -> None:
    policy, target = made(kind)

    said = word(policy)

    assert said.refusal == ""
    given = {name: said.annotations[f"example.com/{name}"] for name in ("first", "second")}
    assert given == {"first": "plan 1", "second": "plan 1"}
    assert target.prepared == ["web"]


def test_each_policy_prepares_for_itself() -> None:
    (one, first), (other, second) = made(), made()

    word(one, other)

    assert (first.prepared, second.prepared) == (["web"], ["web"])


def test_nobody_prepares_to_give_where_a_rule_refuses() -> None:
    (strict, refusing), (generous, giving) = made(), made(Generous)
    refusing.refuses = True

    said = word(strict, generous)

    assert said.refusal == "node chosen: nothing is left, just now"
    assert giving.prepared == []


@pytest.mark.parametrize(
    ("failure_policy", "refusal"),
    [
        pytest.param("Fail", "policy 'Generous' failed: test_commit.py", id="it refuses"),
        pytest.param("Ignore", "", id="it gives nothing"),
    ],
)
def test_a_preparation_that_fails_is_told_once(failure_policy: str, refusal: str) -> None:
    policy, target = made(Generous, failure_policy=failure_policy)
    target.fails = True

    said = word(policy)

    assert said.refusal.startswith(refusal)
    assert bool(said.refusal) == bool(refusal)
    assert said.annotations == {}
    assert [failure.summary for failure in said.failures] == ["policy Generous raised ValueError"]
    assert target.prepared == ["web"]


def test_a_policy_that_overran_in_an_earlier_try_is_not_called_again() -> None:
    policy, target = made(failure_policy="Ignore")
    late = Failure("overrun", "still running after 1 s", "took too long")

    said = word(policy, attempt=Attempt(given_up={policy.name: late}))

    assert (said.refusal, said.annotations, target.prepared) == ("", {}, [])


def test_who_has_filtered_just_now_asks_no_rule_once_more() -> None:
    (thorough, strict), (generous, _) = made(), made(Generous)
    strict.refuses = True
    question = Question(make_pod("web"), CLUSTER.nodes, CLUSTER, datetime.now(UTC))

    said = allocate([thorough, generous], question, "chosen")

    assert said.refusal == ""
    assert set(said.annotations) >= {"example.com/first", "example.com/second"}
    assert strict.prepared == ["web"]
    assert commit([thorough, generous], question, "chosen").refusal, "at bind, in another cluster, they are"


def test_where_nobody_hands_anything_out_nobody_is_asked_to() -> None:
    thorough, target = made(shadow=True)
    rules, other = made()
    rules = replace(rules, hooks=tuple(hook for hook in rules.hooks if hook.spec.kind != "allocate"))
    question = Question(make_pod("web"), CLUSTER.nodes, CLUSTER, datetime.now(UTC))

    assert allocate([thorough, rules], question, "chosen") == Commitment()
    assert (target.prepared, other.prepared) == ([], [])
