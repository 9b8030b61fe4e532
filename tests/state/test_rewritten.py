"""A pod's owner writes another allocation on it after the bind: nothing that the pod was given gets free."""

import json

import pytest

from bayplan import NodeAnnotation
from bayplan.kube.pod import Pod
from bayplan.snapshot.units import ALLOCATION, Units
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod

GPU = Units("x/gpu", capacity=NodeAnnotation("gpus"))
GIVEN = '{"x/gpu":{"0":10}}'
OTHER = '{"x/gpu":{"2":10}}'


def holder(text: str | None, *, uid: str = "1", node: str = "a", phase: str = "Running") -> Pod:
    notes = {"other": "x"} if text is None else {"other": "x", ALLOCATION: text}
    return make_pod("holder", uid=uid, node=node, phase=phase, annotations=notes, requests={"x/gpu": 10})


def cache_of(*reports: Pod) -> Cache:
    cache = Cache()
    for name in ("a", "b"):
        cache.put_node(make_node(name, annotations={"gpus": "4x10"}).object)
    for pod in reports:
        cache.put_pod(pod)
    return cache


def free(cache: Cache, row: int = 0) -> list[int]:
    return list(cache.snapshot().nodes[GPU][row])


@pytest.mark.parametrize(
    ("says", "left"),
    [
        pytest.param(OTHER, [0, 10, 0, 10], id="another device"),
        pytest.param(None, [0, 10, 10, 10], id="nothing"),
        pytest.param("{", [0, 10, 10, 10], id="nothing that can be read"),
        pytest.param('{"x/gpu":{"0":0}}', [0, 10, 10, 10], id="less"),
        pytest.param('{"x/gpu":{"1":5}}', [0, 5, 10, 10], id="a part of another device"),
        pytest.param('{"x/other":{"1":10}}', [0, 10, 10, 10], id="another resource"),
        pytest.param(
            '{"x/gpu":{"9999999999999999999":9999999999999999999}}', [0, 10, 10, 10], id="no device at all"
        ),
    ],
)
def test_what_a_pod_was_given_stays_taken(
    says: str | None, left: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    cache = cache_of(holder(GIVEN), holder(says))

    assert free(cache) == left
    assert cache.rewritten.keys == ["default/holder"]
    assert f"pod default/holder was given {GIVEN}, and somebody wrote" in caplog.text


def test_step_by_step_nothing_gets_free_either(caplog: pytest.LogCaptureFixture) -> None:
    cache = cache_of(holder(GIVEN), holder(None), holder(OTHER), holder('{"x/gpu":{"3":10}}'))

    assert free(cache) == [0, 10, 10, 0]
    assert len(caplog.records) == 1

    # Also in a new list of everything.
    cache.replace_pods([holder(OTHER)])
    assert free(cache) == [0, 10, 0, 10]


def test_of_long_texts_only_the_beginning_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    cache_of(holder("x" * 100_000), holder("y" * 100_000))

    assert len(caplog.text) < 1000


def test_who_writes_back_what_was_there_is_as_before() -> None:
    cache = cache_of(holder(GIVEN), holder(OTHER), holder(GIVEN))

    assert free(cache) == [0, 10, 10, 10]
    assert cache.rewritten.keys == []


@pytest.mark.parametrize(
    ("last", "left"),
    [
        pytest.param(holder(OTHER, uid="2"), [10, 10, 0, 10], id="another pod of that name"),
        pytest.param(holder(OTHER, phase="Succeeded"), [10, 10, 10, 10], id="finished"),
    ],
)
def test_a_pod_that_has_ended_holds_nothing(last: Pod, left: list[int]) -> None:
    cache = cache_of(holder(GIVEN), holder('{"x/gpu":{"1":10}}'), last)

    assert free(cache) == left
    assert cache.rewritten.keys == []


def test_a_deleted_pod_is_forgotten() -> None:
    cache = cache_of(holder(GIVEN), holder(OTHER))
    cache.drop_pod("default/holder", "1")

    assert free(cache) == [10, 10, 10, 10]
    assert cache.rewritten.keys == []


def test_after_a_restore_the_pod_is_where_it_was_bound_anew() -> None:
    moved = cache_of(holder(GIVEN), holder(OTHER), holder(OTHER, node="b"))
    assert (free(moved), free(moved, 1)) == ([10, 10, 10, 10], [10, 10, 0, 10])

    waited = cache_of(holder(GIVEN), holder(None, node=""), holder(OTHER))
    assert free(waited) == [10, 10, 0, 10]
    assert waited.rewritten.keys == []


def test_an_allocation_that_was_never_there_may_be_written() -> None:
    """Somebody else bound the pod, and a person looked up what it uses."""
    cache = cache_of(holder(None), holder(OTHER))

    assert free(cache) == [10, 10, 0, 10]
    assert cache.rewritten.keys == []


def test_what_we_are_binding_is_what_the_api_server_says() -> None:
    """A bind of an earlier term may win, with another allocation than the one that we assume now."""
    cache = cache_of(waiting := holder(None, node=""))
    cache.assume(waiting, "a", {ALLOCATION: GIVEN})
    cache.put_pod(holder(OTHER))

    assert free(cache) == [10, 10, 0, 10]
    assert cache.rewritten.keys == []


def test_a_fresh_list_shows_it_as_the_view_does() -> None:
    cache = cache_of(holder(GIVEN), holder(OTHER))

    (seen,), (told,) = cache.pods, cache.rewritten.shown([holder(OTHER)])

    assert json.loads(told.annotations[ALLOCATION]) == {"x/gpu": {"0": 10, "2": 10}}
    assert (seen.annotations, told.annotations["other"]) == (told.annotations, "x")
    assert cache.rewritten.shown([holder(GIVEN)])[0].annotations[ALLOCATION] == GIVEN
