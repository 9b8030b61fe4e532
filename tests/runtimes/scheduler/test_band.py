"""A gang as it stands: where its members are, and what each is told."""

import pytest

from bayplan import Gang
from bayplan.kube.pod import Pod
from bayplan.runtimes.scheduler.band import Band
from bayplan.testing import make_cluster, make_node, make_pod

KEY = ("team", "job")


def band(*placed: Pod, within: str | None = "rack") -> Band:
    return Band(KEY, Gang("job", size=3, within=within), (), placed)


@pytest.mark.parametrize(
    ("nodes", "rack"),
    [
        pytest.param([], "", id="nobody has a node"),
        pytest.param(["a1"], "a", id="one has"),
        pytest.param(["a1", "b1", "b2"], "b", id="most are there"),
        pytest.param(["a1", "b1"], "a", id="as many here as there"),
        pytest.param(["gone"], "", id="on a node that is gone"),
        pytest.param(["plain"], "", id="on a node in no rack"),
    ],
)
def test_those_who_have_a_node_decide_the_rack(nodes: list[str], rack: str) -> None:
    cluster = make_cluster(
        [*(make_node(name, labels={"rack": name[0]}) for name in ("a1", "b1", "b2")), make_node("plain")]
    )
    placed = [make_pod(f"p{number}", node=node) for number, node in enumerate(nodes)]

    assert band(*placed).pinned(cluster) == rack
    assert band(*placed, within=None).pinned(cluster) == ""


def test_how_many_are_needed_is_what_is_missing_to_its_size() -> None:
    there = [make_pod(f"p{number}", node="n") for number in range(4)]

    assert [band(*there[:count]).needed for count in (0, 2, 3, 4)] == [3, 1, 0, 0]
    assert band().title == "gang team/job"
