"""LeastAllocated, MostAllocated and BalancedAllocation: kube-scheduler's formulas, worked out by hand."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.policies.balanced_allocation import BalancedAllocation
from bayplan.policies.least_allocated import LeastAllocated
from bayplan.policies.most_allocated import MostAllocated
from bayplan.snapshot.cluster import Snapshot
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

GPU = "example.com/gpu"
# With the pod on it: CPU 3000 of 4000 and memory 5 of 10 Gi here, CPU 3000 of 6000 and 5 of 20 Gi there.
SMALL = make_node("small", cpu=4, memory="10Gi")
LARGE = make_node("large", cpu=6, memory="20Gi")
POD = make_pod(cpu=3, memory="5Gi")


def scores(policy: Any, pod: Any, cluster: Snapshot, **args: Any) -> dict[str, float]:
    result = run_policy(policy, pod, cluster, args=args)
    assert result.passed == list(cluster.nodes.names)
    return result.scores


@pytest.mark.parametrize(
    ("policy", "small", "large"),
    [
        # (25 + 50) / 2 and (50 + 75) / 2
        pytest.param(LeastAllocated, 37.5, 62.5, id="least: the mean of what is free"),
        # (75 + 50) / 2 and (50 + 25) / 2
        pytest.param(MostAllocated, 62.5, 37.5, id="most: the mean of what is taken"),
        # Of two numbers the standard deviation is half their distance: 0.125 for both.
        pytest.param(BalancedAllocation, 87.5, 87.5, id="balanced: 1 less the standard deviation"),
    ],
)
def test_worked_example(policy: Any, small: float, large: float) -> None:
    assert scores(policy, POD, make_cluster([SMALL, LARGE])) == pytest.approx(
        {"small": small, "large": large}
    )


def test_what_runs_on_the_node_counts_with_the_pod() -> None:
    there = make_pod("there", node="small", cpu=1, memory="2560Mi")
    cluster = make_cluster([SMALL], [there])

    # CPU 4000 of 4000, memory 7.5 of 10 Gi.
    assert scores(LeastAllocated, POD, cluster) == pytest.approx({"small": 12.5})
    assert scores(MostAllocated, POD, cluster) == pytest.approx({"small": 87.5})
    assert scores(BalancedAllocation, POD, cluster) == pytest.approx({"small": 87.5})


@pytest.mark.parametrize(
    ("policy", "score"),
    [
        # (3 x 25 + 1 x 50) / 4
        pytest.param(LeastAllocated, 31.25, id="least"),
        pytest.param(MostAllocated, 68.75, id="most"),
        # Mean 0.6875; deviation sqrt((3 x 0.0625^2 + 0.1875^2) / 4) = 0.10825
        pytest.param(BalancedAllocation, 89.1747, id="balanced"),
    ],
)
def test_weights(policy: Any, score: float) -> None:
    weighted = [{"name": "cpu", "weight": 3}, {"name": "memory"}]

    found = scores(policy, POD, make_cluster([SMALL]), resources=weighted)

    assert found == pytest.approx({"small": score}, abs=1e-4)


def test_three_resources_have_the_standard_deviation_of_three() -> None:
    node = make_node("gpu", cpu=10, memory="10Gi", allocatable={GPU: 10})
    pod = make_pod(cpu=2, memory="4Gi", requests={GPU: 9})
    resources = [{"name": name} for name in ("cpu", "memory", GPU)]

    # 0.2, 0.4 and 0.9: mean 0.5, squares 0.09, 0.01 and 0.16, so sqrt(0.26 / 3) = 0.29439
    found = scores(BalancedAllocation, pod, make_cluster([node]), resources=resources)

    assert found == pytest.approx({"gpu": 70.5608}, abs=1e-4)


@pytest.mark.parametrize(
    ("asked", "score"),
    [
        # CPU 75 % free, GPU 50 %; without a GPU only the CPU counts.
        pytest.param(2, {"gpu": 62.5, "plain": 75}, id="a resource that a node does not have is left out"),
        pytest.param(
            0, {"gpu": 75, "plain": 75}, id="an extended resource that nobody asked for is left out"
        ),
    ],
)
def test_extended_resources(asked: int, score: dict[str, float]) -> None:
    cluster = make_cluster([make_node("gpu", allocatable={GPU: 4}), make_node("plain")])
    pod = make_pod(cpu=1, requests={GPU: asked} if asked else {})

    found = scores(LeastAllocated, pod, cluster, resources=[{"name": "cpu"}, {"name": GPU}])

    assert found == pytest.approx(score)


def test_the_pod_is_one_of_the_pods() -> None:
    cluster = make_cluster([make_node("n", pods=10)], [make_pod("there", node="n")])

    assert scores(MostAllocated, make_pod(), cluster, resources=[{"name": "pods"}]) == {"n": 20}


@pytest.mark.parametrize("policy", [LeastAllocated, MostAllocated])
def test_a_node_that_has_none_of_the_resources_scores_zero(policy: Any) -> None:
    cluster = make_cluster([make_node("virtual", cpu=0, memory=0)])

    assert scores(policy, POD, cluster) == {"virtual": 0}


def test_balance_has_no_opinion_about_a_pod_that_asks_for_nothing() -> None:
    result = run_policy(BalancedAllocation, make_pod(), make_cluster([SMALL, LARGE]))

    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    assert np.isnan(outcome.score.scores).all()


def test_improvement_prefers_the_node_that_the_pod_makes_more_even() -> None:
    lopsided = make_pod("memory-hog", node="lopsided", memory="8Gi")
    cluster = make_cluster(
        [make_node("lopsided", cpu=10, memory="10Gi"), make_node("even", cpu=10, memory="10Gi")], [lopsided]
    )
    pod = make_pod(cpu=4)

    # Before: 0 and 0.8, deviation 0.4; after: 0.4 and 0.8, 0.2. On the even one: 0, then 0.2.
    found = scores(BalancedAllocation, pod, cluster, measure="Improvement")

    assert found == pytest.approx({"lopsided": 85, "even": 65})
    assert scores(BalancedAllocation, pod, cluster) == pytest.approx({"lopsided": 80, "even": 80})


_MILLI = st.integers(0, 2**62)
_NAMES = st.lists(
    st.sampled_from(["cpu", "memory", "pods", "ephemeral-storage", GPU]), min_size=1, max_size=5, unique=True
)


@given(
    policy=st.sampled_from([LeastAllocated, MostAllocated, BalancedAllocation]),
    names=_NAMES,
    weights=st.lists(st.floats(0.001, 1_000_000), min_size=5, max_size=5),
    sizes=st.lists(_MILLI, min_size=3, max_size=3),
    taken=st.lists(_MILLI, min_size=3, max_size=3),
    asked=st.lists(_MILLI, min_size=3, max_size=3),
    measure=st.sampled_from(["Balance", "Improvement"]),
)
@settings(deadline=None, max_examples=200)
def test_scores_are_finite_and_within_0_and_100(
    *,
    policy: Any,
    names: list[str],
    weights: list[float],
    sizes: list[int],
    taken: list[int],
    asked: list[int],
    measure: str,
) -> None:
    def quantities(amounts: list[int]) -> dict[str, Any]:
        return {"cpu": f"{amounts[0] // 1000}m", "memory": amounts[1], "requests": {GPU: amounts[2]}}

    node = make_node("n", cpu=f"{sizes[0] // 1000}m", memory=sizes[1], allocatable={GPU: sizes[2]})
    cluster = make_cluster([node], [make_pod("there", node="n", **quantities(taken))])
    weighted = [{"name": name, "weight": weight} for name, weight in zip(names, weights, strict=False)]
    args: dict[str, Any] = {"resources": weighted}
    if policy is BalancedAllocation:
        args["measure"] = measure

    pod = make_pod(**quantities(asked))

    result = run_policy(policy, pod, cluster, args=args)

    (outcome,) = result.scored.outcomes
    assert outcome.score is not None
    (score,) = outcome.score.scores.tolist()
    if policy is BalancedAllocation and not any(pod.request(name) for name in names):
        assert math.isnan(score)
    else:
        assert 0 <= score <= 100
