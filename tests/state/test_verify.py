"""Drift is what differs each time; what is only late is none."""

from collections.abc import Callable

import pytest

from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.units import ALLOCATION
from bayplan.state.verify import differences, verify
from bayplan.testing import make_cluster, make_pod

TRUTH = make_cluster(
    ["a", "b"],
    [
        make_pod("placed", uid="1", node="a", annotations={ALLOCATION: '{"x/y":{"0":1}}'}),
        make_pod("waiting", uid="2"),
    ],
)


@pytest.mark.parametrize(
    ("view", "said"),
    [
        pytest.param(TRUTH, [], id="the truth"),
        pytest.param(
            make_cluster(["a", "b", "ghost"], TRUTH.pods),
            ["node ghost is gone and still in view"],
            id="a ghost",
        ),
        pytest.param(
            make_cluster(["a"], TRUTH.pods), ["node b is there and not in view"], id="a node too few"
        ),
        pytest.param(
            TRUTH.without({"2"}), ["pod default/waiting is there and not in view"], id="a pod too few"
        ),
        pytest.param(
            TRUTH.placed(TRUTH.pods[1], "b"),
            ["pod default/waiting is on no node, in view on b"],
            id="misplaced",
        ),
        pytest.param(
            make_cluster(["a", "b"], [make_pod("placed", uid="1", node="a"), TRUTH.pods[1]]),
            ['pod default/placed holds {"x/y":{"0":1}}, in view nothing'],
            id="an allocation forgotten",
        ),
    ],
)
def test_differences(view: Snapshot, said: list[str]) -> None:
    assert differences(view, TRUTH) == said


def looking_at(*views: Snapshot | None) -> Callable[[], Snapshot | None]:
    left = list(views)
    return lambda: left.pop(0) if len(left) > 1 else left[0]


async def truth() -> Snapshot:
    return TRUTH


async def test_a_view_that_is_only_late_has_no_drift() -> None:
    late = TRUTH.without({"2"})

    found = await verify(looking_at(late, TRUTH), truth, pause_seconds=0)

    assert (found.drift, found.nodes, found.pods) == ([], 2, 2)


async def test_what_stays_wrong_is_drift() -> None:
    wrong, late = TRUTH.placed(TRUTH.pods[1], "b"), TRUTH.placed(TRUTH.pods[1], "b").without({"1"})

    found = await verify(looking_at(late, wrong, wrong), truth, pause_seconds=0)

    assert found.drift == ["pod default/waiting is on no node, in view on b"]


async def test_a_view_without_anything_is_said_so() -> None:
    assert (await verify(looking_at(None), truth, pause_seconds=0)).drift == ["nothing is listed yet"]
