"""Built-in policies keep what they promise with ``reads``: who remembers says the same as who asks anew."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest

from bayplan.authoring.load import load
from bayplan.authoring.registry import Policy
from bayplan.engine.choose import Choice, choose
from bayplan.engine.memory import Memory
from bayplan.kube.pod import Pod
from bayplan.snapshot.draft import Draft
from bayplan.snapshot.sources import Reading, Readings
from bayplan.snapshot.units import ALLOCATION
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod

NOW = datetime(2026, 11, 18, tzinfo=UTC)
GPU, CAPACITY = "example.com/gpu-memory", "example.com/gpus"
NODES, PODS, DRAFTS = 9, 14, 4

PROMISING: dict[str, tuple[str, dict[str, Any]]] = {
    "MostAvailableCPU": ("MostAvailableCPU", {"headroomMilli": 500}),
    "LeastAllocated": ("LeastAllocated", {}),
    "MostAllocated": ("MostAllocated", {}),
    "BalancedAllocation": ("BalancedAllocation", {}),
    "BalancedAllocation, by how much better": ("BalancedAllocation", {"measure": "Improvement"}),
    "ResourceLimits": (
        "ResourceLimits",
        {
            "limits": [
                {
                    "pods": {"sameLabel": "team"},
                    "share": {"cpu": "50%"},
                    "maxPods": 5,
                    "headroom": {"cpu": "10%"},
                    "usage": {"source": "usage", "max": "85%"},
                }
            ]
        },
    ),
    "SharedResource": ("SharedResource", {"resource": GPU, "capacity": CAPACITY}),
    "SharedResource, spread over nodes": (
        "SharedResource",
        {"resource": GPU, "capacity": CAPACITY, "nodes": "spread"},
    ),
    "Load": (
        "Load",
        {"columns": [{"source": "usage", "resource": "cpu", "unit": "fraction", "refuseAbove": 0.8}]},
    ),
    "Affinity": ("Affinity", {"rules": [{"nodeLabel": "rack", "podLabel": "rack"}]}),
}


def _policy(name: str) -> Policy:
    use, args = PROMISING[name]
    policy: Policy = load(use)[0].make(args=args)
    assert any(hook.spec.reads != "cluster" for hook in policy.hooks), "it promises something"
    return policy


def _cache(dice: random.Random) -> Cache:
    """Nodes of several sizes, some with GPUs, some in a rack."""
    cache = Cache()
    for number in range(NODES):
        gpus = {CAPACITY: ",".join(["10"] * dice.randint(1, 3))} if dice.random() < 0.7 else {}
        rack = {"rack": dice.choice("ab")} if dice.random() < 0.8 else {}
        node = make_node(f"n{number}", cpu=dice.choice([2, 4, 8]), annotations=gpus, labels=rack)
        cache.put_node(node.object)
    return cache


def _readings(dice: random.Random, cache: Cache) -> Readings:
    names = dice.sample(range(NODES), NODES - 2)
    usage = {f"n{number}": round(dice.random(), 2) for number in names}
    return Readings({"usage": Reading({"": usage}, before=cache.snapshot().nodes.requested_now)})


def _pod(dice: random.Random, number: int) -> Pod:
    """One of a few kinds."""
    kinds: list[dict[str, Any]] = [
        {"cpu": "500m", "labels": {"team": "red", "rack": "a"}},
        {"cpu": "1", "labels": {"team": "blue"}},
        {"labels": {"team": "red"}, "requests": {GPU: 4}},
        {"cpu": "250m", "memory": "64Mi", "labels": {"rack": "b"}, "requests": {GPU: 7}},
    ]
    return make_pod(f"p{number}", **dice.choice(kinds))


def _given(pod: Pod) -> dict[str, str]:
    """A slice of the first device, as the ledger writes it down."""
    asked = pod.request(GPU)
    return {ALLOCATION: json.dumps({GPU: {"0": asked}})} if asked else {}


def _told(choice: Choice) -> object:
    """Everything that a choice says, node by node."""
    refusals = [choice.filtered.refusal(row) for row in range(len(choice.filtered.nodes))]
    scored = choice.scored
    scores = [] if scored is None or scored.total is None else scored.total.tolist()
    return choice.feasible, choice.message, choice.best, refusals, scores


@pytest.mark.parametrize("name", PROMISING)
@pytest.mark.parametrize("seed", range(6))
def test_what_is_remembered_is_what_would_be_said(name: str, seed: int) -> None:
    policies = [_policy(name)]
    dice = random.Random(seed)
    cache = _cache(dice)
    memory = Memory(most=1.0)
    remembered = 0
    for _ in range(DRAFTS):
        draft = Draft(cache.snapshot().with_readings(_readings(dice, cache)))
        for number in range(PODS):
            pod = _pod(dice, dice.randrange(10**9))
            remembered += memory.recall(pod, draft.snapshot) is not None
            again = choose(policies, pod, draft.snapshot, now=NOW, memory=memory)

            assert _told(again) == _told(choose(policies, pod, draft.snapshot, now=NOW)), number
            if again.feasible:
                node, given = dice.choice(again.best), _given(pod)
                draft.place(pod, node, given)
                # Of what was drafted not everything comes to be.
                if dice.random() < 0.7:
                    cache.assume(pod, node, given)
    assert remembered > DRAFTS, "there was something to remember"
