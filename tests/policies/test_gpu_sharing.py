"""SharedResource for GPUs: compute and memory of the same devices, and several devices for a pod."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from bayplan.authoring.load import load
from bayplan.engine.cycle import Question
from bayplan.engine.preempt import Candidate, choose_candidates
from bayplan.policies.shared_resource import SharedResource
from bayplan.snapshot.columns import NodeAnnotation
from bayplan.snapshot.units import ALLOCATION, Units, taken
from bayplan.testing import bind, make_cluster, make_node, make_pod, run_policy

MILLI, MEMORY, COUNT = "example.com/gpu-milli", "example.com/gpu-memory", "example.com/gpu-count"
INDEX = "example.com/gpu-index"
BY_RESOURCE: dict[str, Any] = {
    "resource": MILLI,
    "capacity": MILLI,
    "also": [{"resource": MEMORY, "capacity": MEMORY}],
    "deviceCount": {"resource": COUNT},
    "indexAnnotation": INDEX,
}
BY_ANNOTATION = BY_RESOURCE | {"deviceCount": {"annotation": COUNT}}
UNITS = {name: Units(name, capacity=NodeAnnotation(name)) for name in (MILLI, MEMORY)}


def gpus(name: str, milli: str, memory: str) -> Any:
    return make_node(name, annotations={MILLI: milli, MEMORY: memory})


def asks(milli: int = 0, memory: int = 0, *, devices: int = 0, notes: dict[str, str] | None = None) -> Any:
    wanted = {MILLI: milli, MEMORY: memory, COUNT: devices}
    return make_pod(requests={name: amount for name, amount in wanted.items() if amount}, annotations=notes)


CLUSTER = make_cluster(
    [
        gpus("four", "4x1000", "4x16000"),
        gpus("lopsided", "200,1000", "16000,4000"),
        gpus("large", "1000", "80000"),
        make_node("no-gpu"),
    ]
)


@pytest.mark.parametrize(
    ("pod", "passed"),
    [
        pytest.param(make_pod(), ["four", "lopsided", "large", "no-gpu"], id="who asks for none"),
        pytest.param(asks(500), ["four", "lopsided", "large"], id="compute alone"),
        pytest.param(asks(0, 16000), ["four", "lopsided", "large"], id="memory alone"),
        pytest.param(asks(500, 8000), ["four", "large"], id="both, of one device"),
        pytest.param(asks(500, 4000), ["four", "lopsided", "large"], id="both, just there"),
        pytest.param(asks(100, 4000, devices=2), ["four", "lopsided"], id="of each of two devices"),
        pytest.param(asks(500, 4000, devices=2), ["four"], id="two devices, of which one is too full"),
        pytest.param(asks(1000, devices=4), ["four"], id="four whole devices"),
        pytest.param(asks(1000, devices=5), [], id="more devices than any node has"),
        pytest.param(asks(1001), [], id="more than any device has"),
    ],
)
def test_filter(pod: Any, passed: list[str]) -> None:
    assert run_policy(SharedResource, pod, CLUSTER, args=BY_RESOURCE).passed == passed


@pytest.mark.parametrize(
    ("pod", "node", "text", "detail"),
    [
        pytest.param(
            asks(1001), "large", "no device is that large", "1000 at most, 1001 asked for", id="too large"
        ),
        pytest.param(
            asks(10), "no-gpu", "node has no such device", f"it has no annotation {MILLI}", id="no device"
        ),
        pytest.param(
            asks(500, 8000),
            "lopsided",
            "no device has enough of everything left",
            f"needed of one device: 500 {MILLI}, 8000 {MEMORY}",
            id="not together",
        ),
        pytest.param(
            asks(500, devices=3),
            "lopsided",
            "too few devices have enough left",
            "1 with room, 3 needed",
            id="too few devices",
        ),
    ],
)
def test_the_reason_says_what_is_missing(pod: Any, node: str, text: str, detail: str) -> None:
    result = run_policy(SharedResource, pod, CLUSTER, args=BY_RESOURCE)

    assert (result.refused[node], result.details[node]) == (text, detail)


def test_sizes_that_cannot_be_read_are_no_silent_lack_of_devices() -> None:
    cluster = make_cluster([gpus("mistyped", "4x1000", "4x16Gi"), make_node("no-gpu")])

    result = run_policy(SharedResource, asks(0, 100), cluster, args=BY_RESOURCE)

    assert result.refused["mistyped"] == "sizes of the node's devices cannot be read"
    assert result.details["mistyped"] == f"{MEMORY}: '4x16Gi'"
    assert result.refused["no-gpu"] == "node has no such device"


@pytest.mark.parametrize(
    ("pod", "reason"),
    [
        pytest.param(
            asks(500, notes={COUNT: "two"}), f"pod's annotation {COUNT} is no number of devices", id="a word"
        ),
        pytest.param(
            asks(500, notes={COUNT: "0"}), f"pod's annotation {COUNT} is no number of devices", id="none"
        ),
        pytest.param(
            asks(500, notes={COUNT: "-1"}), f"pod's annotation {COUNT} is no number of devices", id="less"
        ),
        pytest.param(
            asks(500, notes={COUNT: "²"}), f"pod's annotation {COUNT} is no number of devices", id="a square"
        ),
        pytest.param(
            asks(500, notes={"example.com/gpu-cuont": "2"}),
            f"pod has no annotation {COUNT}, but one that is nearly it",
            id="a mistyped key",
        ),
        pytest.param(
            asks(notes={COUNT: "2"}), "pod asks for devices, but not how much of each", id="nothing of them"
        ),
    ],
)
def test_an_annotation_that_cannot_be_understood_is_refused_with_a_reason(pod: Any, reason: str) -> None:
    result = run_policy(SharedResource, pod, CLUSTER, args=BY_ANNOTATION)

    assert set(result.refused.values()) == {reason}
    assert result.passed == []
    assert bind(SharedResource, pod, "four", CLUSTER, args=BY_ANNOTATION).refusal.startswith(
        f"node four: {reason}"
    )


def test_devices_without_an_amount_are_refused_by_resource_too() -> None:
    result = run_policy(SharedResource, asks(devices=2), CLUSTER, args=BY_RESOURCE)

    assert set(result.refused.values()) == {"pod asks for devices, but not how much of each"}


def test_annotations_of_pods_that_want_no_device_are_nobodys_business() -> None:
    pod = make_pod(annotations={"example.com/gpu-cuont": "two"})

    assert len(run_policy(SharedResource, pod, CLUSTER, args=BY_ANNOTATION).passed) == 4


@pytest.mark.parametrize(
    ("pod", "args"),
    [
        pytest.param(asks(500, 8000, devices=2), BY_RESOURCE, id="by a resource"),
        pytest.param(asks(500, 8000, notes={COUNT: "2"}), BY_ANNOTATION, id="by an annotation"),
    ],
)
def test_a_pod_gets_all_that_it_asks_for_from_the_same_devices(pod: Any, args: dict[str, Any]) -> None:
    busy = bind(SharedResource, asks(700, 1000), "four", CLUSTER, args=args).cluster

    bound = bind(SharedResource, pod, "four", busy, args=args)

    assert taken(bound.annotations[ALLOCATION]) == {MILLI: {1: 500, 2: 500}, MEMORY: {1: 8000, 2: 8000}}
    assert bound.annotations[INDEX] == "1,2"
    row = bound.cluster.nodes.row("four")
    assert row[UNITS[MILLI]].tolist() == [300, 500, 500, 1000]
    assert row[UNITS[MEMORY]].tolist() == [15000, 8000, 8000, 16000]


@pytest.mark.parametrize(
    ("device", "index"),
    [
        pytest.param("best-fit", "1,2", id="best-fit takes the fullest devices with room"),
        pytest.param("first-fit", "0,1", id="first-fit takes the first ones"),
    ],
)
def test_which_devices(device: str, index: str) -> None:
    cluster = make_cluster([gpus("n", "1000,500,400,100", "4x100")])

    bound = bind(SharedResource, asks(300, devices=2), "n", cluster, args=BY_RESOURCE | {"device": device})

    assert bound.annotations[INDEX] == index


def test_best_fit_weighs_each_resource_by_what_the_pod_asks_for() -> None:
    # In plain numbers the first device looks fuller; it has room for nine more pods' compute.
    cluster = make_cluster([gpus("n", "100,10", "11000,12000")])

    bound = bind(SharedResource, asks(10, 10000), "n", cluster, args=BY_RESOURCE)

    assert bound.annotations[INDEX] == "1"


@pytest.mark.parametrize(
    ("nodes", "best"),
    [pytest.param("pack", "busy", id="pack"), pytest.param("spread", "idle", id="spread")],
)
def test_score(nodes: str, best: str) -> None:
    cluster = make_cluster([gpus("busy", "2x600", "2x900"), gpus("idle", "2x1000", "2x900")])

    result = run_policy(
        SharedResource, asks(500, 800, devices=2), cluster, args=BY_RESOURCE | {"nodes": nodes}
    )

    assert result.best == best


def test_a_pod_of_before_the_second_resource_counts_on_every_device() -> None:
    notes = {ALLOCATION: f'{{"{MILLI}":{{"1":500}}}}'}
    old = make_pod("old", node="n", requests={MILLI: 500, MEMORY: 7000}, annotations=notes)

    row = make_cluster([gpus("n", "2x1000", "2x16000")], [old]).nodes.row("n")

    assert row[UNITS[MILLI]].tolist() == [1000, 500]
    assert row[UNITS[MEMORY]].tolist() == [9000, 9000]


def test_pods_are_evicted_only_where_that_frees_enough_devices() -> None:
    cluster = make_cluster([gpus("helps", "2x1000", "2x1000"), gpus("does-not", "2x1000", "2x1000")])
    holders = {}
    for node, name in [("helps", "goes"), ("helps", "stays"), ("does-not", "goes"), ("does-not", "stays")]:
        amount = 400 if (node, name) == ("helps", "stays") else 800
        holder = asks(amount, 100)
        cluster = bind(SharedResource, holder, node, cluster, args=BY_RESOURCE).cluster
        holders[node, name] = holder
    (found,) = load("SharedResource")
    candidates = [Candidate(node, (holders[node, "goes"].uid,)) for node in ("helps", "does-not")]
    question = Question(asks(600, devices=2), cluster.nodes, cluster, datetime.now(UTC))

    decision = choose_candidates([found.make(args=BY_RESOURCE)], question, candidates, victims={})

    assert [candidate.node for candidate in decision.kept] == ["helps"]
    assert [dropped.text for dropped in decision.dropped] == ["too few devices have enough left"]


def test_every_resource_is_known_to_the_server() -> None:
    (found,) = load("SharedResource")

    columns = found.make(args=BY_RESOURCE).columns

    assert {column.resource for column in columns if isinstance(column, Units)} == {MILLI, MEMORY}


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        pytest.param({"also": [{"resource": MILLI, "capacity": "x"}]}, "is there twice", id="one twice"),
        pytest.param({"deviceCount": {"resource": MILLI}}, "is there twice", id="the count is an amount"),
        pytest.param({"deviceCount": {}}, "give either `resource` or `annotation`", id="no count"),
        pytest.param(
            {"deviceCount": {"resource": COUNT, "annotation": COUNT}}, "give either", id="two counts"
        ),
        pytest.param({"deviceCount": {"resource": "gpus"}}, "matching regex", id="no extended resource"),
        pytest.param({"indexAnnotation": "gpu index"}, "matching regex", id="no key of an annotation"),
        pytest.param({"indexAnnotation": ALLOCATION}, "is Bayplan's own", id="our own annotation"),
        pytest.param({"also": [{"resource": MEMORY}]}, "missing required field", id="no capacity"),
    ],
)
def test_mistaken_arguments_are_refused(args: dict[str, Any], complaint: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=complaint):
        run_policy(SharedResource, make_pod(), CLUSTER, args=BY_RESOURCE | args)


SIZES = {
    "even": {MILLI: [1000, 1000, 1000], MEMORY: [900, 900, 900]},
    "odd": {MILLI: [1000, 300], MEMORY: [400, 2000]},
}


class Sharing(RuleBasedStateMachine):
    """Pods come and go on two nodes; a model keeps its own books."""

    def __init__(self) -> None:
        super().__init__()
        texts = {
            node: {name: ",".join(map(str, sizes)) for name, sizes in there.items()}
            for node, there in SIZES.items()
        }
        self.cluster = make_cluster(
            [gpus(node, there[MILLI], there[MEMORY]) for node, there in texts.items()]
        )
        self.owned: dict[str, tuple[str, dict[str, dict[int, int]]]] = {}

    @rule(
        node=st.sampled_from(["even", "odd"]),
        milli=st.integers(0, 700),
        memory=st.integers(0, 1000),
        devices=st.integers(0, 3),
        device=st.sampled_from(["best-fit", "first-fit"]),
    )
    def binds(self, node: str, milli: int, memory: int, devices: int, device: str) -> None:
        pod = asks(milli, memory, devices=devices)
        args = BY_RESOURCE | {"device": device}
        fits = node in run_policy(SharedResource, pod, self.cluster, args=args).passed

        bound = bind(SharedResource, pod, node, self.cluster, args=args)

        assert (not bound.refusal) == fits
        got = taken(bound.annotations.get(ALLOCATION, "{}"))
        if bound.refusal or not got:
            assert bound.refusal or not (milli or memory)
            return
        wanted = {name: amount for name, amount in ((MILLI, milli), (MEMORY, memory)) if amount}
        assert set(got) == set(wanted)
        for name, amounts in got.items():
            assert set(amounts.values()) == {wanted[name]}
            assert len(amounts) == max(devices, 1)
            assert ",".join(map(str, sorted(amounts))) == bound.annotations[INDEX]
        self.owned[pod.uid] = (node, got)
        self.cluster = bound.cluster

    @rule(which=st.integers(0, 50))
    def leaves(self, which: int) -> None:
        if self.owned:
            uid = sorted(self.owned)[which % len(self.owned)]
            del self.owned[uid]
            self.cluster = self.cluster.without({uid})

    @invariant()
    def no_device_is_given_out_beyond_its_size(self) -> None:
        for node, there in SIZES.items():
            for name, sizes in there.items():
                used = [
                    sum(got.get(name, {}).get(d, 0) for where, got in self.owned.values() if where == node)
                    for d in range(len(sizes))
                ]
                left = [size - u for size, u in zip(sizes, used, strict=True)]
                assert min(left) >= 0
                assert self.cluster.nodes.row(node)[UNITS[name]].tolist()[: len(left)] == left


TestSharing = Sharing.TestCase
TestSharing.settings = settings(deadline=None, max_examples=40, stateful_step_count=25)
