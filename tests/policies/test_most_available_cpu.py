"""MostAvailableCPU: room for the request and the headroom; the most free CPU wins."""

import pytest

from bayplan.policies.most_available_cpu import MostAvailableCPU
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy

CLUSTER = make_cluster(
    [make_node("full", cpu=4), make_node("half", cpu=4), make_node("empty", cpu=4)],
    [make_pod("a", node="full", cpu="3900m"), make_pod("b", node="half", cpu=2)],
)


@pytest.mark.parametrize(
    ("asked", "headroom", "refused"),
    [
        pytest.param("100m", 0, [], id="an exact fit is a fit"),
        pytest.param("101m", 0, ["full"], id="one milli too much"),
        pytest.param("100m", 2000, ["full", "half"], id="headroom counts as need"),
        pytest.param(None, 2000, [], id="who asks for no CPU takes none of the headroom"),
    ],
)
def test_filter(asked: str | None, headroom: int, refused: list[str]) -> None:
    result = run_policy(MostAvailableCPU, make_pod(cpu=asked), CLUSTER, args={"headroomMilli": headroom})

    assert list(result.refused) == refused


def test_the_reason_has_its_numbers() -> None:
    result = run_policy(MostAvailableCPU, make_pod(cpu="500m"), CLUSTER, args={"headroomMilli": 100})

    assert result.refused == {"full": "too little CPU"}
    assert result.details == {"full": "100m free, 600m needed"}


def test_the_score_is_what_is_left_in_percent() -> None:
    result = run_policy(MostAvailableCPU, make_pod(cpu="100m"), CLUSTER)

    # 0, 1900 and 3900 of 4000 milli-CPU are left.
    assert result.scores == pytest.approx({"full": 0, "half": 47.5, "empty": 97.5})


def test_a_node_without_cpu_or_past_its_limit_scores_zero() -> None:
    cluster = make_cluster(
        [make_node("virtual", cpu=0), make_node("crowded", cpu=1)], [make_pod("big", node="crowded", cpu=2)]
    )

    result = run_policy(MostAvailableCPU, make_pod(), cluster)

    assert result.scores == {"virtual": 0, "crowded": 0}


def test_the_headroom_is_looked_at_again_at_bind() -> None:
    bound = bind(MostAvailableCPU, make_pod(cpu="50m"), "full", CLUSTER, args={"headroomMilli": 100})

    assert bound.refusal == "node full: too little CPU, just now"
