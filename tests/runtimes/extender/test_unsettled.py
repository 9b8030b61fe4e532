"""A pod whose bind may yet land is offered that node alone, and is not in its own way there."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from bayplan.authoring.load import Definition
from bayplan.authoring.registry import Policy
from bayplan.authoring.scope import Scope
from bayplan.engine.guard import Attempt
from bayplan.kube.pod import Pod
from bayplan.ops.metrics import Metrics
from bayplan.policies.shared_resource import SharedResource
from bayplan.recording.clusters import ClusterReader, ClusterWriter
from bayplan.runtimes.extender.rejudge import Call
from bayplan.runtimes.extender.verbs import Answer, Verbs
from bayplan.runtimes.rejudge import judge_again
from bayplan.snapshot.cluster import Snapshot
from bayplan.snapshot.sources import NO_READINGS
from bayplan.snapshot.units import ALLOCATION
from bayplan.state.cache import Cache
from bayplan.testing import make_node, make_pod

MEMORY = "example.com/gpu-memory"
NAMES = ["going", "free"]
MAY_YET = "pod may yet be bound to another node"
SLICE = {ALLOCATION: json.dumps({MEMORY: {"0": 500}})}
MINE, OTHER = (make_pod(name, uid=name, requests={MEMORY: 500}) for name in ("mine", "other"))


def nodes_with(device: int) -> Cache:
    """Both nodes, with one device each."""
    cache = Cache()
    for name in NAMES:
        cache.put_node(make_node(name, annotations={"example.com/gpus": str(device)}).object)
    return cache


def doubted(cache: Cache) -> Cache:
    """Nobody knows whether ``mine`` was bound to ``going``."""
    cache.put_pod(MINE)
    cache.assume(MINE, "going", SLICE)
    cache.doubt(MINE.uid, "going")
    return cache


@pytest.fixture
def cache() -> Cache:
    """One slice on each node, and that of ``going`` is kept for ``mine``."""
    return doubted(nodes_with(500))


def slices(**changes: Any) -> Policy:
    args = {"resource": MEMORY, "capacity": "example.com/gpus"}
    return Definition("slices", (), SharedResource, ()).make(args=args, **changes)


def verbs(*policies: Policy, observe: bool = False) -> Verbs:
    return Verbs(policies or [slices()], Metrics(version="0"), observe=observe)


def ask(verb: str, pod: Pod, cluster: Snapshot, *, of: Verbs | None = None, **body: Any) -> Any:
    request = {"Pod": pod, "Nodes": None, "NodeNames": NAMES, **body}
    said: Answer = getattr(of or verbs(), verb)(msgspec.json.encode(request), cluster, Attempt())
    said.write_down()
    return json.loads(said.body)


def test_it_passes_where_it_may_be_and_nowhere_else(cache: Cache) -> None:
    said = ask("filter", MINE, cache.snapshot())

    assert said["NodeNames"] == ["going"], "its own slice is not in its way"
    assert said["FailedAndUnresolvableNodes"] == {"free": MAY_YET}


def test_the_record_says_where_it_may_be(cache: Cache) -> None:
    asked = verbs()

    ask("filter", MINE, cache.snapshot(), of=asked)

    (entry,) = asked.journal.entries()
    ((_, reason, _),) = entry.groups()
    assert reason.text == MAY_YET
    assert [detail for voice in entry.voices for _, _, detail in voice.refusals()] == [
        "going: the API server has not said"
    ]


def test_others_are_judged_with_it_in_place(cache: Cache) -> None:
    said = ask("filter", OTHER, cache.snapshot())

    assert said["NodeNames"] == ["free"]
    assert said["FailedAndUnresolvableNodes"] == {"going": "no device has enough left"}


def test_its_score_is_that_of_a_pod_that_is_not_there() -> None:
    before = ask("prioritize", MINE, nodes_with(1000).snapshot())

    said = ask("prioritize", MINE, doubted(nodes_with(1000)).snapshot())

    assert said == before, "half a device is as good as the other"


def test_nobody_is_evicted_for_it_elsewhere(cache: Cache) -> None:
    cache.put_pod(make_pod("victim", uid="victim", node="free", requests={MEMORY: 500}, annotations=SLICE))
    candidates = {"free": {"Pods": [{"UID": "victim"}], "NumPDBViolations": 0}}

    said = ask("preempt", MINE, cache.snapshot(), NodeNameToMetaVictims=candidates)

    assert said == {"NodeNameToMetaVictims": {}}


def test_a_pod_that_no_policy_is_for_is_offered_no_other_node_either(cache: Cache) -> None:
    nobody = slices(scope=Scope(namespaces=("elsewhere",)))

    assert ask("filter", MINE, cache.snapshot(), of=verbs(nobody))["NodeNames"] == ["going"]
    assert ask("filter", OTHER, cache.snapshot(), of=verbs(nobody))["NodeNames"] == NAMES


def test_who_only_looks_on_refuses_nothing(cache: Cache) -> None:
    assert ask("filter", MINE, cache.snapshot(), of=verbs(observe=True))["NodeNames"] == NAMES


def test_a_bind_that_failed_after_all_leaves_it_free_to_go(cache: Cache) -> None:
    before = cache.snapshot()
    cache.forget(MINE)
    cache.settle(MINE.uid)

    assert ask("filter", MINE, cache.snapshot())["NodeNames"] == NAMES
    assert ask("filter", MINE, before)["NodeNames"] == ["going"], "who holds the old view keeps it"


def test_nodes_that_came_with_the_request_are_judged_alike(cache: Cache) -> None:
    nodes = [make_node(name, annotations={"example.com/gpus": "500"}).object for name in NAMES]

    said = ask("filter", MINE, cache.snapshot(), Nodes={"items": nodes}, NodeNames=None)

    assert [node["metadata"]["name"] for node in said["Nodes"]["items"]] == ["going"]


def test_a_recording_tells_it(cache: Cache) -> None:
    writer, reader = ClusterWriter(), ClusterReader()
    for line in writer.lines(cache.snapshot()):
        reader.apply(line)
    assert ask("filter", MINE, reader.snapshot())["NodeNames"] == ["going"]

    cache.put_pod(OTHER)
    for line in writer.lines(cache.snapshot()):
        assert getattr(line, "unsettled", None) is None, "only what changed is written"
        reader.apply(line)
    assert ask("filter", MINE, reader.snapshot())["NodeNames"] == ["going"]

    cache.forget(MINE)
    cache.settle(MINE.uid)
    for line in writer.lines(cache.snapshot()):
        reader.apply(line)
    assert ask("filter", MINE, reader.snapshot())["NodeNames"] == NAMES


def test_a_candidate_of_the_same_policies_agrees_about_it(cache: Cache) -> None:
    cluster, now = cache.snapshot(), datetime(2026, 11, 15, tzinfo=UTC)
    request = msgspec.json.encode({"Pod": MINE, "Nodes": None, "NodeNames": NAMES})
    said = verbs().filter(request, cluster, Attempt())
    call = Call("filter", request, said, cluster, NO_READINGS, now)
    assert said.judged is not None

    difference, _ = judge_again([slices()], call, said.judged.question, NO_READINGS, Attempt())

    assert difference.result == "same"
