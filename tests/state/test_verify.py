"""Drift is what differs each time; what is only late is none."""

import asyncio
from collections.abc import Callable
from typing import cast

import msgspec
import pytest

from bayplan import Node, NodeAnnotation
from bayplan.kube.meta import NO_META
from bayplan.kube.node import NodeObject, NodeWithImages
from bayplan.kube.pod import Pod
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.units import ALLOCATION, Units
from bayplan.state import verify as verify_module
from bayplan.state.cache import Cache
from bayplan.state.verify import caught_up, differences, misplaced, overcommitted, unaccounted, verify
from bayplan.state.view import LiveView
from bayplan.testing import make_cluster, make_node, make_pod

TRUTH = make_cluster(
    ["a", "b"],
    [
        make_pod("placed", uid="1", node="a", annotations={ALLOCATION: '{"x/y":{"0":1}}'}),
        make_pod("waiting", uid="2"),
    ],
)

GPU = Units("x/gpu", capacity=NodeAnnotation("gpus"))
MEMORY = Units("x/memory", capacity=NodeAnnotation("memory"))


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
    assert misplaced(view, TRUTH) == said


def as_of(version: str, node: Node | NodeObject) -> NodeObject:
    """The node at this version."""
    known = node if isinstance(node, NodeObject) else node.object
    metadata = msgspec.structs.replace(known.metadata or NO_META, resource_version=version)
    return msgspec.structs.replace(known, metadata=metadata)


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param(make_node("a", labels={"rack": "r1"}), "", id="as it is"),
        pytest.param(make_node("a", labels={"rack": "r2"}), "metadata.labels", id="in another rack"),
        pytest.param(
            make_node("a", labels={"rack": "r1"}, annotations={"gpus": "2x100"}),
            "metadata.annotations",
            id="with other devices",
        ),
        pytest.param(
            make_node("a", labels={"rack": "r1"}, unschedulable=True), "spec.unschedulable", id="cordoned"
        ),
        pytest.param(
            make_node("a", labels={"rack": "r1"}, cpu=8),
            "status.allocatable, status.capacity",
            id="of another size",
        ),
    ],
)
@pytest.mark.parametrize("pods_known", [True, False], ids=["", "nodes only"])
def test_a_node_of_which_the_view_has_another_state_is_named(seen: Node, said: str, pods_known: bool) -> None:
    """Versions alone say nothing: the view does not keep those of heartbeats."""
    pods = TRUTH.pods if pods_known else None
    truth = Snapshot.build([as_of("7", make_node("a", labels={"rack": "r1"}))], pods)
    view = Snapshot.build([as_of("5", seen)], pods)

    found = differences(view, truth)

    assert found == ([f"node a has other {said} than in view: version 7, in view 5"] if said else [])
    assert misplaced(view, truth) == []


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        pytest.param(make_pod("p", uid="1", node="a", labels={"app": "db"}, cpu=1), "", id="as it is"),
        pytest.param(
            make_pod("p", uid="1", node="a", labels={"app": "web"}, cpu=1), "metadata.labels", id="labels"
        ),
        pytest.param(
            make_pod("p", uid="1", node="a", labels={"app": "db"}, cpu=2), "spec.containers", id="requests"
        ),
    ],
)
def test_a_pod_of_which_the_view_has_another_state_is_named(seen: Pod, said: str) -> None:
    truth = make_cluster(["a"], [make_pod("p", uid="1", node="a", labels={"app": "db"}, cpu=1)])
    view = make_cluster(["a"], [seen])

    found = differences(view, truth)

    assert found == ([f"pod default/p has other {said} than in view: version ?, in view ?"] if said else [])
    assert differences(view, truth, assumed={"1"}) == []


def test_images_are_read_for_one_rule_and_are_not_compared() -> None:
    body = {"metadata": {"name": "a"}, "status": {"images": [{"names": ["web:1"], "sizeBytes": 7}]}}
    view = Snapshot.build([msgspec.convert(body, NodeWithImages)], None)

    assert differences(view, Snapshot.build([msgspec.convert(body, NodeObject)], None)) == []


async def test_a_node_that_changes_all_the_time_is_no_drift() -> None:
    """The view is one version behind at each look, and never the same one."""
    version = 0

    def node(number: int) -> NodeObject:
        return as_of(str(number), make_node("a", labels={"load": str(number)}))

    async def fresh() -> Snapshot:
        nonlocal version
        version += 1
        return Snapshot.build([node(version)], [])

    found = await verify(lambda: Snapshot.build([node(version - 1)], []), fresh, pause_seconds=0)
    assert found.drift == []


async def test_whoever_takes_over_waits_for_binds_and_for_nothing_else() -> None:
    view = make_cluster([make_node("a", labels={"rack": "r2"}), "b"], TRUTH.pods)
    seeing = Seeing(view)

    async with asyncio.timeout(5):
        await caught_up(cast("LiveView", seeing), truth, since=1.0)

    assert seeing.listed_again == 0


@pytest.mark.parametrize(
    ("note", "known"),
    [
        pytest.param({}, False, id="bound by somebody else"),
        pytest.param({ALLOCATION: '{"x/gpu":{"0":5},"x/memory":{"0":7}}'}, True, id="given all of it"),
        pytest.param({ALLOCATION: '{"x/gpu":{"0":5}}'}, False, id="given one resource of two"),
        pytest.param({ALLOCATION: "nonsense"}, False, id="nobody can read what it was given"),
        pytest.param(
            {ALLOCATION: '{"x/gpu":{"0":1},"x/memory":{"0":7}}'}, False, id="a claim that is too small"
        ),
    ],
)
def test_a_pod_that_was_not_given_what_it_asks_for_is_unaccounted(note: dict[str, str], known: bool) -> None:
    holder = make_pod("holder", node="a", requests={"x/gpu": 5, "x/memory": 7}, annotations=note)
    cluster = make_cluster(["a"], [holder, make_pod("other", node="a"), make_pod(requests={"x/gpu": 5})])

    assert unaccounted(cluster, [GPU, MEMORY]) == ([] if known else ["default/holder"])


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


async def test_pods_are_not_looked_at_where_nodes_alone_are_followed() -> None:
    nodes = [make_node("a").object, make_node("b").object]

    async def fresh() -> Snapshot:
        return Snapshot.build(nodes, None)

    true = await verify(looking_at(Snapshot.build(nodes, None)), fresh, pause_seconds=0)
    wrong = await verify(looking_at(Snapshot.build(nodes[:1], None)), fresh, pause_seconds=0)

    assert (true.nodes, true.pods, true.drift) == (2, None, [])
    assert wrong.drift == ["node b is there and not in view"]


async def test_a_view_without_anything_is_said_so() -> None:
    assert (await verify(looking_at(None), truth, pause_seconds=0)).drift == ["nothing is listed yet"]


@pytest.mark.parametrize(
    ("notes", "said"),
    [
        pytest.param(['{"x/gpu": {"0": 50}}', '{"x/gpu": {"0": 50}}'], [], id="a full device"),
        pytest.param(['{"x/gpu": {"0": 60}}', '{"x/gpu": {"1": 60}}'], [], id="two devices"),
        pytest.param(
            ['{"x/gpu": {"0": 60}}', '{"x/gpu": {"0": 60}}'],
            ["node n: device 0 has 100 of x/gpu, 120 was given: default/p0, default/p1"],
            id="one device twice",
        ),
        pytest.param(
            ['{"x/gpu": {"7": 50}}'],
            ["node n: device 7 has 0 of x/gpu, 50 was given: default/p0"],
            id="a device that is not there",
        ),
    ],
)
def test_a_device_of_which_more_was_given_than_there_is_is_named(notes: list[str], said: list[str]) -> None:
    node = make_node("n", annotations={"gpus": "2x100"})
    pods = [
        make_pod(
            f"p{i}", node="n", requests={"x/gpu": 60 if "60" in note else 50}, annotations={ALLOCATION: note}
        )
        for i, note in enumerate(notes)
    ]

    assert overcommitted(make_cluster([node], pods), [GPU]) == said


async def test_a_pod_that_is_being_bound_is_no_drift() -> None:
    """Else a server with a bind of unknown outcome could never take its Lease again."""
    view = TRUTH.placed(TRUTH.pods_by_uid["2"], "b")

    assert differences(view, TRUTH) != []
    assert differences(view, TRUTH, assumed={"2"}) == []


class Seeing:
    """A view that is wrong until it is made anew, or until the watch has told."""

    def __init__(self, *views: Snapshot) -> None:
        self._views = list(views)
        self.cache = Cache()
        self.listed_again = 0

    async def listed(self) -> float:
        return 0.0

    @property
    def current(self) -> Snapshot:
        return self._views.pop(0) if len(self._views) > 1 else self._views[0]

    def list_again(self) -> None:
        self.listed_again += 1
        self._views = [TRUTH]


WRONG = make_cluster(["a", "b", "never-was"], TRUTH.pods)


@pytest.mark.parametrize(
    ("views", "patience", "again"),
    [
        pytest.param([WRONG], 0.0, 1, id="a difference that stays"),
        pytest.param([*[WRONG] * 8, TRUTH], 60.0, 0, id="a watch that is late"),
    ],
)
async def test_catching_up_gives_a_watch_up_that_does_not_tell(
    views: list[Snapshot], patience: float, again: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify_module, "_PAUSE_SECONDS", 0.0)
    monkeypatch.setattr(verify_module, "_CATCH_UP_SECONDS", 0.0)
    monkeypatch.setattr(verify_module, "_LISTED_AGAIN_SECONDS", patience)
    seeing = Seeing(*views)

    async def fresh() -> Snapshot:
        return TRUTH

    async with asyncio.timeout(5):
        await caught_up(cast("LiveView", seeing), fresh, since=1.0)

    assert seeing.listed_again == again
