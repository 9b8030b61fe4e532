"""SharedResource: slices of devices, never more than there are."""

import json
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bayplan.policies.shared_resource import NONE_AT_ALL, SharedResource, SharedResourceArgs, _Ask
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.columns import NodeAnnotation
from bayplan.snapshot.units import ALLOCATION, Units, device_sizes, taken
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy

MEMORY = "example.com/gpu-memory"
ARGS: dict[str, Any] = {"resource": MEMORY, "capacity": "example.com/gpus"}
UNITS = Units(MEMORY, capacity=NodeAnnotation("example.com/gpus"))


def held(device: int, amount: int, node: str = "half-full") -> Any:
    """A pod that holds a slice."""
    note = json.dumps({MEMORY: {str(device): amount}})
    return make_pod("holder", node=node, requests={MEMORY: amount}, annotations={ALLOCATION: note})


def gpu_node(name: str, gpus: str) -> Any:
    return make_node(name, annotations={"example.com/gpus": gpus})


CLUSTER = make_cluster(
    [gpu_node("half-full", "1000,1000"), gpu_node("small", "500"), make_node("no-gpu")], [held(0, 600)]
)


@pytest.mark.parametrize(
    ("asked", "passed"),
    [
        pytest.param(None, ["half-full", "small", "no-gpu"], id="who asks for none may go anywhere"),
        pytest.param(500, ["half-full", "small"], id="an exact fit is a fit"),
        pytest.param(501, ["half-full"], id="one too many"),
        pytest.param(1000, ["half-full"], id="a whole device"),
        pytest.param(1400, [], id="two devices together are not one"),
    ],
)
def test_filter(asked: int | None, passed: list[str]) -> None:
    pod = make_pod(requests={MEMORY: asked} if asked else {})

    result = run_policy(SharedResource, pod, CLUSTER, args=ARGS)

    assert result.passed == passed
    assert result.errors == []


def test_the_reason_has_its_numbers() -> None:
    result = run_policy(SharedResource, make_pod(requests={MEMORY: 700}), CLUSTER, args=ARGS)

    assert result.refused["small"] == "no device is that large"
    assert result.details["small"] == "500 at most, 700 asked for"
    assert result.refused["no-gpu"] == "node has no such device"
    assert result.details["no-gpu"] == "it has no annotation example.com/gpus"


def test_a_node_that_has_no_device_is_not_said_to_be_full() -> None:
    pod = make_pod(requests={MEMORY: 1})
    by_label = {**ARGS, "capacityFrom": "label"}

    result = run_policy(SharedResource, pod, CLUSTER, args=by_label)

    assert set(result.refused.values()) == {"node has no such device"}
    assert result.details["no-gpu"] == "it has no label example.com/gpus"
    # Nobody can leave room where there is none.
    assert not NONE_AT_ALL.preemptible
    assert NONE_AT_ALL.helped_by == {"nodes"}


@pytest.mark.parametrize(
    ("settings_", "best"),
    [
        pytest.param({}, "small", id="pack: where it fills a device"),
        pytest.param({"nodes": "spread"}, "half-full", id="spread: where most stays free"),
    ],
)
def test_score(settings_: dict[str, str], best: str) -> None:
    cluster = make_cluster([gpu_node("half-full", "1000,1000"), gpu_node("small", "500")])

    result = run_policy(SharedResource, make_pod(requests={MEMORY: 400}), cluster, args=ARGS | settings_)

    assert result.best == best


@pytest.mark.parametrize(
    ("settings_", "device"),
    [
        pytest.param({}, 0, id="best-fit takes what is left of the used one"),
        pytest.param({"device": "first-fit"}, 0, id="first-fit takes the first"),
    ],
)
def test_allocate(settings_: dict[str, str], device: int) -> None:
    args = ARGS | settings_ | {"indexAnnotation": "example.com/gpu-index"}

    bound = bind(SharedResource, make_pod(requests={MEMORY: 400}), "half-full", CLUSTER, args=args)

    assert bound.refusal == ""
    assert bound.annotations == {
        ALLOCATION: f'{{"{MEMORY}":{{"{device}":400}}}}',
        "example.com/gpu-index": str(device),
    }
    assert bound.cluster.nodes.row("half-full")[UNITS].tolist() == [0, 1000]


def test_first_fit_passes_by_a_device_that_is_too_full() -> None:
    args = ARGS | {"device": "first-fit"}

    bound = bind(SharedResource, make_pod(requests={MEMORY: 500}), "half-full", CLUSTER, args=args)

    assert taken(bound.annotations[ALLOCATION]) == {MEMORY: {1: 500}}


def test_who_comes_too_late_is_refused_at_bind_in_the_filters_words() -> None:
    cluster = make_cluster([gpu_node("small", "500")], [held(0, 200, "small")])

    bound = bind(SharedResource, make_pod(requests={MEMORY: 400}), "small", cluster, args=ARGS)

    assert bound.refusal == "node small: no device has enough left, just now"
    assert bound.cluster is cluster


def test_a_pod_that_holds_the_resource_without_us_may_be_on_any_device() -> None:
    stranger = make_pod("stranger", node="n", requests={MEMORY: 300})

    table = make_cluster([gpu_node("n", "1000,1000")], [stranger]).nodes

    assert table[UNITS].tolist() == [[700, 700]]


def test_mistyped_arguments_are_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match="resuorce"):
        run_policy(SharedResource, make_pod(), CLUSTER, args={"resuorce": MEMORY, "capacity": "x"})


@pytest.mark.parametrize(
    ("text", "sizes"),
    [
        pytest.param("1000,1000,500", (1000, 1000, 500), id="one by one"),
        pytest.param("2x1000", (1000, 1000), id="so many alike, as a label can say it"),
        pytest.param("2x1000, 500", (1000, 1000, 500), id="both"),
        pytest.param("0", (0,), id="a device of nothing"),
        pytest.param(None, (), id="missing"),
        pytest.param("", (), id="empty"),
        pytest.param("16Gi", (), id="nonsense is no device"),
        pytest.param("9999x1", (), id="more devices than any node has"),
        pytest.param("-5", (), id="less than nothing"),
    ],
)
def test_device_sizes(text: str | None, sizes: tuple[int, ...]) -> None:
    assert device_sizes(text) == sizes


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("not json", id="not JSON"),
        pytest.param('{"example.com/gpu-memory":{"-1":5}}', id="a device below zero"),
        pytest.param('{"example.com/gpu-memory":{"0":-5}}', id="an amount below zero"),
        pytest.param('{"example.com/gpu-memory":7}', id="another form"),
    ],
)
def test_nonsense_in_the_annotation_takes_nothing_and_gives_nothing(text: str) -> None:
    pod = make_pod("odd", node="n", annotations={ALLOCATION: text})

    assert make_cluster([gpu_node("n", "1000")], [pod]).nodes[UNITS].tolist() == [[1000]]


@pytest.mark.parametrize(
    ("requests", "claims", "free"),
    [
        pytest.param(0, {"0": 1000, "1": 1000}, [1000, 1000], id="a claim of who asks for nothing"),
        pytest.param(300, {"0": 1000}, [700, 1000], id="more than it asks for"),
        pytest.param(300, {"0": 300, "1": 300}, [700, 700], id="what it asks for, of each of two"),
        pytest.param(300, {"0": 150, "1": 150}, [850, 850], id="two halves"),
        pytest.param(300, {"0": 1}, [700, 700], id="less than it asks for: nobody knows where the rest is"),
        pytest.param(300, {"7": 300}, [700, 700], id="a device that is not there"),
        pytest.param(300, {"0": -300}, [700, 700], id="an amount below zero"),
        pytest.param(300, {}, [700, 700], id="no device"),
    ],
)
def test_a_claim_counts_as_far_as_the_pod_asks_for_it(
    requests: int, claims: dict[str, int], free: list[int]
) -> None:
    """Whoever may write annotations of a pod may write anything there."""
    pod = make_pod(
        node="n",
        requests={MEMORY: requests} if requests else {},
        annotations={ALLOCATION: json.dumps({MEMORY: claims})},
    )

    assert make_cluster([gpu_node("n", "1000,1000")], [pod]).nodes[UNITS].tolist() == [free]


_REQUESTS = st.lists(st.integers(1, 700), max_size=25)


@given(_REQUESTS, st.lists(st.integers(100, 1000), min_size=1, max_size=4), st.randoms())
@settings(deadline=None, max_examples=60)
def test_no_device_is_ever_given_out_beyond_its_size(
    requests: list[int], sizes: list[int], dice: Any
) -> None:
    cluster: Snapshot = make_cluster([gpu_node("n", ",".join(map(str, sizes)))])
    owned: dict[str, tuple[int, int]] = {}

    for number, amount in enumerate(requests):
        pod = make_pod(f"p{number}", requests={MEMORY: amount})
        bound = bind(SharedResource, pod, "n", cluster, args=ARGS)
        if not bound.refusal:
            ((device, got),) = taken(bound.annotations[ALLOCATION])[MEMORY].items()
            owned[pod.uid] = (device, got)
            cluster = bound.cluster
        if owned and dice.random() < 0.3:
            gone = dice.choice(sorted(owned))
            del owned[gone]
            cluster = cluster.without({gone})

        used = [sum(a for d, a in owned.values() if d == device) for device in range(len(sizes))]
        free = [size - u for size, u in zip(sizes, used, strict=True)]
        assert min(free) >= 0
        assert cluster.nodes[UNITS].tolist() == [free]


@given(
    sizes=st.lists(st.lists(st.integers(0, 50), min_size=1, max_size=4), min_size=1, max_size=5),
    needs=st.lists(st.integers(1, 40), min_size=1, max_size=3),
)
@settings(max_examples=100, deadline=None)
def test_the_score_is_what_the_device_that_the_pod_would_get_has_left(
    sizes: list[list[int]], needs: list[int]
) -> None:
    policy = SharedResource(SharedResourceArgs(**ARGS))
    ask = _Ask(tuple((UNITS, need) for need in needs), 1)
    free = [np.array([size + [-1] * (4 - len(size)) for size in sizes])] * len(needs)

    _, left = policy._choose(free, ask)

    np.testing.assert_array_equal(policy._left(free, ask), left[:, 0])
