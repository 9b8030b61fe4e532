"""Preempt with prices: what kube-scheduler counted about disruption budgets is heeded and given back."""

import json
import logging
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from bayplan.authoring.load import load
from bayplan.engine.guard import Attempt
from bayplan.ops.metrics import Metrics
from bayplan.runtimes.extender.verbs import Verbs
from bayplan.testing import make_cluster, make_pod

COST = "bayplan.dev/eviction-cost"
CHEAP = make_pod("cheap", uid="u-cheap", node="a", annotations={COST: "1"})
DEAR = make_pod("dear", uid="u-dear", node="b", annotations={COST: "9"})


def victims(pod: Any, violations: int, *, in_full: bool) -> dict[str, Any]:
    sent = msgspec.to_builtins(pod) if in_full else {"UID": pod.uid}
    return {"Pods": [sent], "NumPDBViolations": violations}


@pytest.mark.parametrize("in_full", [False, True], ids=["victims by UID", "victims in full"])
@pytest.mark.parametrize(
    ("violations", "left"),
    [
        pytest.param((0, 0), {"a": 0}, id="the cheaper victim goes"),
        pytest.param((1, 0), {"b": 0}, id="unless that violates a disruption budget"),
        pytest.param((1, 1), {"a": 1}, id="or both do"),
    ],
)
def test_preempt(violations: tuple[int, int], left: dict[str, int], in_full: bool) -> None:
    (found,) = load("Preemption")
    verbs = Verbs([found.make()], Metrics(version="0"))
    there = {
        "a": victims(CHEAP, violations[0], in_full=in_full),
        "b": victims(DEAR, violations[1], in_full=in_full),
    }
    key = "NodeNameToVictims" if in_full else "NodeNameToMetaVictims"
    body = json.dumps({"Pod": msgspec.to_builtins(make_pod("urgent")), key: there}).encode()

    answer = verbs.preempt(body, make_cluster(["a", "b"], [CHEAP, DEAR]), Attempt())

    kept = json.loads(answer.body)["NodeNameToMetaVictims"]
    assert {node: there["NumPDBViolations"] for node, there in kept.items()} == left


def test_a_shadow_drops_nothing_and_is_recorded(caplog: pytest.LogCaptureFixture) -> None:
    (found,) = load("Preemption")
    verbs = Verbs([replace(found.make(), shadow=True)], Metrics(version="0"))
    there = {"a": victims(CHEAP, 0, in_full=False), "b": victims(DEAR, 0, in_full=False), "empty": None}
    request = {"Pod": msgspec.to_builtins(make_pod("urgent")), "NodeNameToMetaVictims": there}

    with caplog.at_level(logging.INFO):
        answer = verbs.preempt(
            json.dumps(request).encode(), make_cluster(["a", "b"], [CHEAP, DEAR]), Attempt()
        )

    assert set(json.loads(answer.body)["NodeNameToMetaVictims"]) == set(there), "not a candidate is touched"
    (entry,) = verbs.journal.entries()
    assert entry.dropped == ()
    assert entry.would_drop == (("b", "Preemption", "its victims cost more than those on a"),)
    assert "would drop node b: its victims cost more than those on a" in caplog.text
