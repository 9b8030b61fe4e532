"""What real kube-schedulers of five versions sent is read; what they accepted is written again."""

import json
from pathlib import Path

import pytest

from bayplan.kube.pod import Pod
from bayplan.wire import v1
from bayplan.wire.codec import decode, decode_nodes, encode

CAPTURES = Path(__file__).parent / "captures"
VERSIONS = ["v1.25.16", "v1.31.14", "v1.34.11", "v1.36.4", "v1.37.0-rc.1"]
NODES = ["node-0", "node-1", "node-2"]
PODS = {
    "filter-names": "web-1",
    "filter-nodes": "web-1",
    "filter-names-refused": "none-1",
    "filter-managed-resource": "res-1",
    "prioritize-names": "web-1",
    "prioritize-nodes": "web-1",
    "preempt-names": "urgent",
    "preempt-nodes": "urgent",
}

every_version = pytest.mark.parametrize("version", VERSIONS)


def request(version: str, name: str) -> bytes:
    return (CAPTURES / version / f"{name}.request.json").read_bytes()


def response(version: str, name: str) -> bytes:
    return (CAPTURES / version / f"{name}.response.json").read_bytes()


def test_every_version_recorded_the_same_story() -> None:
    recorded = {
        folder.name: sorted(file.name for file in folder.iterdir())
        for folder in CAPTURES.iterdir()
        if folder.is_dir()
    }
    story = [f"{name}.{part}.json" for name in [*PODS, "bind"] for part in ("request", "response")]

    assert recorded == dict.fromkeys(VERSIONS, sorted(story))


@every_version
@pytest.mark.parametrize("name", [name for name in PODS if not name.startswith("preempt")])
def test_arguments_say_the_pod_and_the_nodes(version: str, name: str) -> None:
    sent = decode(request(version, name), v1.ExtenderArgs)

    assert sent.pod is not None
    assert (sent.pod.key, sent.pod.phase) == (f"default/{PODS[name]}", "Pending")
    names = sent.node_names
    if names is None:
        assert sent.nodes is not None
        names = [node.name for node in decode_nodes(sent.nodes.items or [])]
    assert sorted(names) == NODES


@every_version
def test_the_pod_asks_for_what_its_manifest_said(version: str) -> None:
    web = decode(request(version, "filter-names"), v1.ExtenderArgs).pod
    managed = decode(request(version, "filter-managed-resource"), v1.ExtenderArgs).pod

    assert web is not None
    assert managed is not None
    assert web.requests == {"cpu": 1000, "memory": 128 * 2**20}
    assert managed.requests == {"cpu": 100, "example.com/custom-resource": 1}


@every_version
def test_full_nodes_offer_what_they_were_made_with(version: str) -> None:
    sent = decode(request(version, "filter-nodes"), v1.ExtenderArgs)

    assert sent.nodes is not None
    for node in decode_nodes(sent.nodes.items or []):
        assert node.ready
        assert node.allocatable == {
            "cpu": 4000,
            "memory": 8 * 2**30,
            "pods": 110,
            "example.com/custom-resource": 2,
        }


@every_version
@pytest.mark.parametrize("name", ["filter-names", "filter-managed-resource", "filter-nodes"])
def test_passing_everything_is_the_recorded_answer(version: str, name: str) -> None:
    sent = decode(request(version, name), v1.ExtenderArgs)

    answer = v1.FilterResult(sent.nodes, sent.node_names, failed_nodes={}, failed_and_unresolvable_nodes={})

    assert encode(answer) == response(version, name)


@every_version
def test_full_nodes_come_back_byte_for_byte(version: str) -> None:
    sent = decode(request(version, "filter-nodes"), v1.ExtenderArgs)

    assert sent.nodes is not None
    items = [bytes(item) for item in sent.nodes.items or []]
    assert len(items) == len(NODES)
    assert b'"items":[' + b",".join(items) + b"]" in request(version, "filter-nodes")


@every_version
def test_a_refusal_is_the_recorded_answer(version: str) -> None:
    first, *others = decode(request(version, "filter-names-refused"), v1.ExtenderArgs).node_names or []

    answer = v1.FilterResult(
        nodes=None,
        node_names=[],
        failed_nodes={first: "no room for none"},
        failed_and_unresolvable_nodes=dict.fromkeys(others, "never for none"),
    )

    assert encode(answer) == response(version, "filter-names-refused")


@every_version
@pytest.mark.parametrize("name", ["prioritize-names", "prioritize-nodes"])
def test_the_recorded_scores_are_the_recorded_answer(version: str, name: str) -> None:
    recorded = json.loads(response(version, name))

    answer = [v1.HostPriority(line["Host"], line["Score"]) for line in recorded]

    assert len(answer) == len(NODES)
    assert encode(answer) == response(version, name)


@every_version
def test_keeping_every_candidate_by_name_is_the_recorded_answer(version: str) -> None:
    sent = decode(request(version, "preempt-names"), v1.ExtenderPreemptionArgs)

    assert sent.node_name_to_victims is None
    kept = {
        node: v1.MetaVictims([pod for pod in victims.pods or [] if pod], victims.num_pdb_violations or 0)
        for node, victims in (sent.node_name_to_meta_victims or {}).items()
        if victims
    }

    assert encode(v1.ExtenderPreemptionResult(kept)) == response(version, "preempt-names")


@every_version
def test_keeping_every_candidate_with_full_pods_is_the_recorded_answer(version: str) -> None:
    sent = decode(request(version, "preempt-nodes"), v1.ExtenderPreemptionArgs)

    assert sent.node_name_to_meta_victims is None
    kept = {
        node: v1.MetaVictims(_by_uid(victims.pods or []), victims.num_pdb_violations or 0)
        for node, victims in (sent.node_name_to_victims or {}).items()
        if victims
    }

    assert encode(v1.ExtenderPreemptionResult(kept)) == response(version, "preempt-nodes")


def _by_uid(pods: list[Pod | None]) -> list[v1.MetaPod]:
    return [v1.MetaPod(pod.uid) for pod in pods if pod]


@every_version
def test_a_bind_names_pod_and_node(version: str) -> None:
    sent = decode(request(version, "bind"), v1.ExtenderBindingArgs)

    assert (sent.pod_namespace, sent.pod_name) == ("default", "web-1")
    assert sent.node in NODES
    assert encode(v1.ExtenderBindingResult()) == response(version, "bind")


@every_version
def test_the_bound_pod_is_the_one_that_was_filtered(version: str) -> None:
    bound = decode(request(version, "bind"), v1.ExtenderBindingArgs)
    filtered = decode(request(version, "filter-names"), v1.ExtenderArgs)

    assert filtered.pod is not None
    assert bound.pod_uid == filtered.pod.uid
