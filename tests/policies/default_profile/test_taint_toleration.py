"""TaintToleration: taints keep pods away, some of them only as a wish."""

from typing import Any

import pytest

from bayplan.policies.default_profile.taint_toleration import TaintToleration
from bayplan.testing import make_cluster, make_node, make_pod, run_policy

HARD = {"key": "gpu", "value": "yes", "effect": "NoSchedule"}
EVICTING = {"key": "broken", "effect": "NoExecute"}
SOFT = {"key": "old", "effect": "PreferNoSchedule"}
SLOW = {"key": "slow", "value": "1", "effect": "PreferNoSchedule"}


@pytest.mark.parametrize(
    ("tolerations", "refused"),
    [
        pytest.param([], ["hard", "evicting", "both"], id="nothing is tolerated"),
        pytest.param([{"key": "gpu", "value": "yes"}], ["evicting", "both"], id="the value"),
        pytest.param([{"key": "gpu", "value": "no"}], ["hard", "evicting", "both"], id="another value"),
        pytest.param([{"key": "gpu", "operator": "Exists"}], ["evicting", "both"], id="any value"),
        pytest.param(
            [{"operator": "Exists", "effect": "NoExecute"}], ["hard", "both"], id="everything of an effect"
        ),
        pytest.param([{"operator": "Exists"}], [], id="everything"),
    ],
)
def test_filter(tolerations: list[dict[str, Any]], refused: list[str]) -> None:
    cluster = make_cluster(
        [
            make_node("free"),
            make_node("hard", taints=[HARD]),
            make_node("evicting", taints=[EVICTING]),
            make_node("both", taints=[HARD, EVICTING]),
            make_node("soft", taints=[SOFT]),
        ]
    )

    result = run_policy(TaintToleration, make_pod(tolerations=tolerations), cluster)

    assert list(result.refused) == refused
    assert set(result.refused.values()) <= {"node(s) had untolerated taint(s)"}


@pytest.mark.parametrize(
    ("tolerations", "scores"),
    [
        pytest.param([], {"free": 100, "one": 67, "two": 34, "three": 0}, id="of the most there are"),
        pytest.param(
            [{"key": "old", "operator": "Exists"}],
            {"free": 100, "one": 100, "two": 50, "three": 0},
            id="what is tolerated does not count",
        ),
        pytest.param(
            [{"key": "old", "operator": "Exists", "effect": "NoSchedule"}],
            {"free": 100, "one": 67, "two": 34, "three": 0},
            id="a toleration of another effect",
        ),
        pytest.param(
            [{"operator": "Exists"}],
            {"free": 100, "one": 100, "two": 100, "three": 100},
            id="all are tolerated",
        ),
    ],
)
def test_score(tolerations: list[dict[str, Any]], scores: dict[str, float]) -> None:
    third = {"key": "far", "effect": "PreferNoSchedule"}
    cluster = make_cluster(
        [
            make_node("free"),
            make_node("one", taints=[SOFT]),
            make_node("two", taints=[SOFT, SLOW]),
            make_node("three", taints=[SOFT, SLOW, third]),
        ]
    )

    assert run_policy(TaintToleration, make_pod(tolerations=tolerations), cluster).scores == scores


def test_only_nodes_that_passed_are_compared() -> None:
    cluster = make_cluster(
        [make_node("free"), make_node("one", taints=[SOFT]), make_node("closed", taints=[HARD, SOFT, SLOW])]
    )

    assert run_policy(TaintToleration, make_pod(), cluster).scores == {"free": 100, "one": 0}


def test_a_cluster_without_taints_scores_everybody_the_same() -> None:
    assert run_policy(TaintToleration, make_pod(), make_cluster(["a", "b"])).scores == {"a": 100, "b": 100}
