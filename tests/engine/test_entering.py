"""Who may come into the queue, and where he stands there."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

import bayplan
from bayplan import PolicyError, Reason
from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import PolicyScope
from bayplan.engine.entering import WHATEVER, Admission, Entrance, one_order
from bayplan.engine.guard import Attempt
from bayplan.testing import make_cluster, make_node, make_pod
from bayplan.testing.run import ready

CLUSTER = make_cluster([make_node("a"), make_node("b")])


def gate(said: Any, **changes: Any) -> Policy:
    @bayplan.gate
    def door(pod: bayplan.Pod) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    return made(door, **changes)


def order(said: Any, **changes: Any) -> Policy:
    @bayplan.order
    def line(pod: bayplan.Pod) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    return made(line, **changes)


def made(function: Any, **changes: Any) -> Policy:
    (policy,) = ready(function, None)
    return replace(policy, **changes)


def ask(*policies: Policy, attempt: Attempt | None = None) -> Admission:
    return Entrance(policies).ask(make_pod("p"), CLUSTER, attempt or Attempt())


@pytest.mark.parametrize(
    ("said", "text"),
    [
        pytest.param(None, "", id="None lets in"),
        pytest.param(True, "", id="True lets in"),
        pytest.param("not now", "not now", id="a text"),
        pytest.param(Reason("not now"), "not now", id="a Reason"),
        pytest.param(False, "door", id="False"),
        pytest.param(RuntimeError("oops"), "RuntimeError: oops", id="a failure keeps it out"),
        pytest.param(7, "want None or True", id="a bad result keeps it out"),
    ],
)
def test_what_a_gate_says(said: Any, text: str) -> None:
    reason = ask(gate(said)).reason

    assert (reason is None) == (text == "")
    assert reason is None or text in reason.text


def test_a_gate_that_fails_and_is_ignored_lets_in_and_is_told() -> None:
    answer = ask(gate(RuntimeError("oops"), failure_policy="Ignore"))

    assert answer.reason is None
    ((hook, failure),) = answer.failures
    assert (hook.name, failure.kind) == ("door", "exception")


@pytest.mark.parametrize(
    ("helped_by", "news"),
    [
        pytest.param(set(), WHATEVER, id="whoever does not say is helped by anything, and by time"),
        pytest.param({"nodes"}, {"nodes"}, id="as it says"),
        pytest.param({"pods"}, {"pods", "placed"}, id="pods that come are pods"),
    ],
)
def test_what_helps(helped_by: set[str], news: set[str]) -> None:
    assert ask(gate(Reason("no", helped_by=frozenset(helped_by)))).helped_by == news


def test_the_first_gate_that_says_no_is_the_one_that_is_told_and_the_order_is_not_asked() -> None:
    attempt = Attempt()
    answer = ask(gate(None), gate("first", name="one"), gate("second"), order(1), attempt=attempt)

    assert (answer.reason, answer.by) == (Reason("first"), "one")
    assert len(attempt.ran) == 2


def test_an_order_that_fails_leaves_the_pod_to_its_priority() -> None:
    answer = ask(order(float("nan")))

    assert (answer.reason, answer.key) == (None, None)
    assert [failure.kind for _, failure in answer.failures] == ["bad-result"]


def test_a_policy_is_asked_about_its_own_pods_only_and_a_shadow_about_none() -> None:
    ours = PolicyScope(namespaces=("ours",))
    entrance = Entrance([gate("no", scope=ours), order(1, scope=ours)])

    assert not entrance.concerns(make_pod("p"))
    assert entrance.concerns(make_pod("p", namespace="ours"))
    assert entrance.ask(make_pod("p"), CLUSTER, Attempt()) == Admission()
    assert not Entrance([gate("no", shadow=True)]).concerns(make_pod("p"))
    assert not Entrance([]).concerns(make_pod("p"))


def test_a_gate_sees_the_cluster_and_the_time() -> None:
    noon = datetime(2026, 1, 1, 12, tzinfo=UTC)

    @bayplan.gate
    def full(cluster: bayplan.Snapshot, now: datetime) -> str:
        return f"{len(cluster.nodes)} nodes at {now:%H:%M}"

    entrance = Entrance(ready(full, None))

    assert entrance.looks_at_cluster
    assert not Entrance([gate(None)]).looks_at_cluster
    assert entrance.ask(make_pod("p"), CLUSTER, Attempt(now=noon)).reason == Reason("2 nodes at 12:00")


def test_two_orders_are_an_error_with_the_places_of_both() -> None:
    two = [order(1, name="mine"), order(2, name="yours")]

    with pytest.raises(PolicyError) as error:
        one_order(two)

    assert str(error.value).count("test_entering.py:") == 2
    assert "policy 'mine'" in str(error.value)
    assert "policy 'yours'" in str(error.value)
    assert one_order(two[:1]) is not None
    assert one_order([]) is None
