"""NodeResourcesBalancedAllocation: prefer nodes that the pod makes more evenly used."""

import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.authoring.hooks import PolicyError
from bayplan.policies.default_profile.node_resources_balanced_allocation import (
    NodeResourcesBalancedAllocation,
)
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

GPU, NIC = "example.com/gpu", "example.com/nic"
FOUR = {
    "resources": [{"name": "cpu", "weight": 1}, {"name": "memory"}, {"name": GPU, "weight": 0}, {"name": NIC}]
}

DISK = {"resources": [{"name": name} for name in ("cpu", "memory", "ephemeral-storage", NIC)]}


def scores(cluster: Any, pod: Any, args: dict[str, Any] | None = None) -> dict[str, float]:
    return run_policy(NodeResourcesBalancedAllocation, pod, cluster, args=args).scores


@pytest.mark.parametrize(
    ("cpu", "memory", "score"),
    [
        pytest.param("1", "1000Mi", 75, id="an even pod on an even node changes nothing"),
        # 40 percent of CPU and none of memory: 20 apart, 80; 50 + (50 + 80 - 100) / 2.
        pytest.param("4", None, 65, id="it makes the node uneven"),
        pytest.param(None, "10000Mi", 50, id="as uneven as can be"),
        pytest.param("100m", None, 74, id="by a hair"),
    ],
)
def test_an_empty_node(cpu: str | None, memory: str | None, score: float) -> None:
    cluster = make_cluster([make_node("empty", cpu=10, memory="10000Mi")])

    assert scores(cluster, make_pod(cpu=cpu, memory=memory)) == {"empty": score}


def test_a_pod_that_evens_out_what_is_there_is_welcome() -> None:
    nodes = [make_node(name, cpu=10, memory="10000Mi") for name in ("much-cpu", "much-memory", "empty")]
    pods = [make_pod(cpu=6, node="much-cpu"), make_pod(memory="6000Mi", node="much-memory")]

    found = scores(make_cluster(nodes, pods), make_pod(memory="4000Mi"))

    # 70 before: 90 after with the pod here, 50 there; 100 and 80 on the empty one.
    assert found == {"much-cpu": 85, "much-memory": 65, "empty": 65}


def test_a_pod_that_asks_for_nothing_has_no_opinion() -> None:
    result = run_policy(NodeResourcesBalancedAllocation, make_pod(), make_cluster(["node"]))

    (outcome,) = result.scored.outcomes
    assert (outcome.normalised, outcome.failure) == (None, None)


def test_a_resource_that_a_node_does_not_have_does_not_count_there() -> None:
    nodes = [
        make_node("virtual", cpu=0, memory=0),
        make_node("cpu-only", cpu=10, memory=0),
        make_node("plain"),
    ]

    found = scores(make_cluster(nodes), make_pod(cpu=2))

    # Nothing and one thing alone are always even; 2 of 4 are half of the CPU, and 25 apart.
    assert found == {"virtual": 75, "cpu-only": 75, "plain": 62}


def test_three_of_four_resources_are_as_even_as_three() -> None:
    node = make_node("no-nic", cpu=10, memory=10, allocatable={"ephemeral-storage": 10})

    # Shares of 1, 0 and 0 deviate by 0.47: 52 after, 100 before.
    found = scores(make_cluster([node]), make_pod(cpu=10, requests={"ephemeral-storage": 0, NIC: 1}), DISK)

    assert found == {"no-nic": 51}


def reference(requests: list[int], needs: list[int], has: list[int]) -> int:
    """What the formula says for one node, a number after another."""

    def even(amounts: list[int]) -> int:
        shares = [min(amount / whole, 1.0) for amount, whole in zip(amounts, has, strict=True) if whole]
        deviation = 0.0
        if len(shares) == 2:
            deviation = abs((shares[0] - shares[1]) / 2)
        elif len(shares) > 2:
            mean = sum(shares) / len(shares)
            squares = 0.0
            for share in shares:
                squares += (share - mean) * (share - mean)
            deviation = math.sqrt(squares / len(shares))
        return int((1 - deviation) * 100.0)

    after = [amount + need for amount, need in zip(requests, needs, strict=True)]
    return 50 + int((50 + even(after) - even(requests)) / 2)


amounts = st.tuples(*[st.integers(0, 40)] * 4)


@given(st.lists(st.tuples(amounts, amounts), min_size=1, max_size=8), amounts.filter(any))
@settings(deadline=None, max_examples=200)
def test_four_resources_are_as_even_as_the_formula_says(
    nodes: list[tuple[tuple[int, ...], tuple[int, ...]]], asked: tuple[int, ...]
) -> None:
    """Some of them on nodes that have fewer."""

    def requests(values: tuple[int, ...]) -> dict[str, Any]:
        return {"cpu": values[0], "memory": values[1], GPU: values[2], NIC: values[3]}

    made = [make_node(f"node-{n}", allocatable=requests(has)) for n, (has, _) in enumerate(nodes)]
    pods = [
        make_pod(f"pod-{n}", requests=requests(got), node=f"node-{n}") for n, (_, got) in enumerate(nodes)
    ]

    found = scores(make_cluster(made, pods), make_pod(requests=requests(asked)), FOUR)

    for number, (has, got) in enumerate(nodes):
        # What the pod does not ask for does not count, unless it is CPU or memory.
        counted = [n for n in range(4) if n < 2 or asked[n]]
        milli = (1000, 1, 1, 1)
        parts = [[values[n] * milli[n] for n in counted] for values in (got, asked, has)]
        assert found[f"node-{number}"] == reference(*parts)


@pytest.mark.parametrize(
    ("resources", "told"),
    [
        pytest.param([{"name": "memry"}], "did you mean 'memory'", id="a mistyped resource"),
        pytest.param([{"name": "cpu"}, {"name": "cpu"}], "'cpu' is there twice", id="one twice"),
        pytest.param([{"name": "cpu", "weight": 2}], "Invalid enum value 2", id="all count the same"),
    ],
)
def test_settings_that_make_no_sense_are_an_error(resources: list[dict[str, Any]], told: str) -> None:
    with pytest.raises((PolicyError, ValueError), match=told):
        scores(make_cluster(["node"]), make_pod(cpu=1), {"resources": resources})
