"""Scopes, observing, bind: what the verbs do beside filtering and scoring."""

import asyncio
import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bayplan.runtimes.extender.serve import Server
from bayplan.runtimes.limits import Limits
from tests.runtimes.extender.caller import (
    ask,
    look,
    make_node,
    make_pod,
    metric,
    names_request,
    nodes_request,
)
from tests.runtimes.extender.obedient import make_options, serving

NODES = ["node-0", "node-1", "node-2"]
ONLY_BATCH = {"for": {"namespaces": ["batch-*"]}}
REFUSE = json.dumps(dict.fromkeys(NODES[:2], "no"))
VICTIMS = {"node-0": {"Pods": [{"UID": "a"}], "NumPDBViolations": 1}}


async def test_pods_out_of_scope_pass_untouched_byte_for_byte(tmp_path: Path) -> None:
    # Written as no encoder of ours would: a copy would be found out.
    node = b'{ "metadata" : {"name":"a","x":1.50}, "status":{"deep":[[ ]]} ,"unknown":"\\u00e4" }'
    twin = b'{"metadata":{"name":"b"}}'
    pod = json.dumps(make_pod(do="raise", text="never asked")).encode()
    body = b'{"Pod":%s,"Nodes":{"metadata":{"resourceVersion":"7"},"items":[%s, %s]},"NodeNames":null}'
    everybody = {"for": {"namespaces": ["nobody"]}}
    async with Server(_without_other(make_options(tmp_path, view=None, entry=everybody))).running() as server:
        answer = await ask(server, "filter", body % (pod, node, twin))

    assert b'"Nodes":{"metadata":{"resourceVersion":"7"},"items":[%s,%s]}' % (node, twin) in answer.body
    assert answer.json["FailedNodes"] == answer.json["FailedAndUnresolvableNodes"] == {}


async def test_full_nodes_that_pass_a_policy_are_echoed_byte_for_byte(tmp_path: Path) -> None:
    node = b'{ "metadata" : {"name":"a","x":1.50}, "unknown":"\\u00e4" }'
    refused = b'{"metadata":{"name":"b"}}'
    pod = json.dumps(make_pod(refuse='{"b": "no"}')).encode()
    body = b'{"Pod":%s,"Nodes":{"metadata":{},"items":[%s, %s]},"NodeNames":null}'
    async with serving(tmp_path, view=None) as server:
        answer = await ask(server, "filter", body % (pod, node, refused))

    assert b'"items":[%s]' % node in answer.body
    assert answer.json["FailedAndUnresolvableNodes"] == {"b": "no"}


async def test_a_scope_is_by_namespace(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES, entry=ONLY_BATCH) as server:
        inside = names_request(NODES, pod=make_pod(namespace="batch-1", refuse=REFUSE))
        outside = names_request(NODES, pod=make_pod(namespace="default", refuse=REFUSE))

        assert (await ask(server, "filter", inside)).json["NodeNames"] == ["node-2"]
        assert (await ask(server, "filter", outside)).json["NodeNames"] == NODES


async def test_candidates_of_pods_out_of_scope_are_kept(tmp_path: Path) -> None:
    options = _without_other(make_options(tmp_path, view=NODES, entry=ONLY_BATCH))
    async with Server(options).running() as server:
        answer = await ask(server, "preempt", {"Pod": make_pod(), "NodeNameToMetaVictims": VICTIMS})

    assert answer.json == {"NodeNameToMetaVictims": VICTIMS}


def _without_other(options: Any) -> Any:
    return replace(options, policies=[p for p in options.policies if p.name == "obedient"])


async def test_observing_changes_nothing_and_records_everything(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    pod = make_pod(refuse=REFUSE, score='{"node-1": 90}')
    async with serving(tmp_path, view=NODES, observe=True) as server:
        filtered = await ask(server, "filter", names_request(NODES, pod=pod))
        scored = await ask(server, "prioritize", names_request(NODES, pod=pod))
        preempted = await ask(server, "preempt", {"Pod": pod, "NodeNameToMetaVictims": VICTIMS})
        counted = await metric(
            server, "bayplan_rejections_total", policy="obedient", reason="no", mode="observe"
        )

    assert (filtered.json["NodeNames"], filtered.json["FailedAndUnresolvableNodes"]) == (NODES, {})
    assert [line["Score"] for line in scored.json] == [0, 0, 0]
    assert preempted.json == {"NodeNameToMetaVictims": VICTIMS}
    assert counted == 2
    assert "observe: filter default/web-1: would refuse 2 of 3 nodes (2 no)" in caplog.text
    assert "observe: prioritize default/web-1: would prefer node-1" in caplog.text
    assert "would drop node node-0" in caplog.text


@pytest.mark.parametrize(
    "pod",
    [
        pytest.param(make_pod(do="raise", text="broken"), id="raises"),
        pytest.param(make_pod(do="panic"), id="panics"),
        pytest.param(make_pod(do="sleep", seconds="2"), id="overruns"),
    ],
)
async def test_whoever_only_looks_on_fails_no_pod(tmp_path: Path, pod: dict[str, Any]) -> None:
    limits = {"policyTimeout": "200ms", "requestTimeout": "300ms"}
    async with serving(tmp_path, view=NODES, observe=True, limits=limits) as server:
        filtered = await ask(server, "filter", names_request(NODES, pod=pod))
        scored = await ask(server, "prioritize", names_request(NODES, pod=pod))

    assert (filtered.json["NodeNames"], filtered.json["Error"]) == (NODES, "")
    assert [line["Score"] for line in scored.json] == [0, 0, 0]


async def test_looking_on_without_a_cluster_passes_names_on_and_says_what_is_missing(tmp_path: Path) -> None:
    async with serving(tmp_path, view=None, observe=True) as server:
        filtered = await ask(server, "filter", names_request(NODES))

    assert (filtered.json["NodeNames"], filtered.json["Error"]) == (NODES, "")
    assert "--kubeconfig" in filtered.headers["bayplan-error"]


async def test_nodes_outside_the_view_are_refused_one_by_one(tmp_path: Path) -> None:
    async with serving(tmp_path, view=NODES) as server:
        filtered = await ask(server, "filter", names_request(["node-0", "new"]))
        scored = await ask(server, "prioritize", names_request(["node-0", "new"]))

        assert await metric(server, "bayplan_nodes_total", verb="filter", verdict="not-in-view") == 1
    assert filtered.json["NodeNames"] == ["node-0"]
    assert filtered.json["FailedAndUnresolvableNodes"] == {"new": "node is not in Bayplan's view"}
    assert [line["Host"] for line in scored.json] == ["node-0", "new"]


async def test_a_quantity_that_is_none_fails_the_pod_and_not_the_server(tmp_path: Path) -> None:
    node = make_node("a")
    node["status"]["allocatable"]["cpu"] = "plenty"
    async with serving(tmp_path, view=None) as server:
        answer = await ask(server, "filter", nodes_request([node]))
        again = await ask(server, "filter", nodes_request([make_node("b")]))

    assert answer.status == 200
    assert again.json["Error"] == ""


@pytest.mark.parametrize("verb", ["filter", "prioritize"])
@pytest.mark.parametrize("what", ["uid", "name", "namespace", "resourceVersion"])
async def test_what_is_far_too_long_is_not_remembered(tmp_path: Path, verb: str, what: str) -> None:
    """A pod that is refused waits to be nudged, by its name; the view remembers its version."""
    pod = make_pod(filter=REFUSE)
    pod["metadata"][what] = "u" * 254
    async with serving(tmp_path, view=NODES) as server:
        answer = await ask(server, verb, names_request(NODES, pod=pod))
        turns = server.app.generation.verbs.turns

    assert answer.status == 200
    assert f"{'UID' if what == 'uid' else what} is longer than 253" in answer.headers["bayplan-error"]
    assert len(turns) == 0


class Notes:
    """A binder that writes down what it was asked, and fails on demand."""

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error
        self.bound: list[tuple[str, str, str, str]] = []

    async def bind(self, *, namespace: str, name: str, uid: str, node: str) -> None:
        if self.error:
            raise self.error
        self.bound.append((namespace, name, uid, node))


BIND = {"PodName": "web-1", "PodNamespace": "default", "PodUID": "u", "Node": "node-0"}


async def test_bind_asks_the_binder_in_any_spelling(tmp_path: Path) -> None:
    notes = Notes()
    async with Server(replace(make_options(tmp_path), binder=notes)).running() as server:
        for body in (BIND, {name.lower(): value for name, value in BIND.items()}):
            assert (await ask(server, "bind", body)).json == {"Error": ""}

        assert await metric(server, "bayplan_requests_total", verb="bind", result="ok") == 2
    assert notes.bound == [("default", "web-1", "u", "node-0")] * 2


async def test_a_bind_that_fails_says_why(tmp_path: Path) -> None:
    notes = Notes(ConnectionError("the cable is out"))
    async with Server(replace(make_options(tmp_path), binder=notes)).running() as server:
        answer = await ask(server, "bind", BIND)

        assert await metric(server, "bayplan_requests_total", verb="bind", result="error") == 1
    assert answer.json == {"Error": "the cable is out"}


@pytest.mark.parametrize("missing", list(BIND))
async def test_a_bind_without_a_part_is_refused(tmp_path: Path, missing: str) -> None:
    notes = Notes()
    async with Server(replace(make_options(tmp_path), binder=notes)).running() as server:
        answer = await ask(server, "bind", {**BIND, missing: ""})

    assert missing in answer.json["Error"]
    assert notes.bound == []


async def test_more_binds_than_requests_may_be_in_flight_leave_room_for_a_filter(tmp_path: Path) -> None:
    many = Limits().max_in_flight + 10
    waiting = 0

    class Slow(Notes):
        async def bind(self, **_: str) -> None:
            nonlocal waiting
            waiting += 1
            if waiting == many:
                all_wait.set()
            await gate.wait()

    all_wait, gate = asyncio.Event(), asyncio.Event()
    async with Server(replace(make_options(tmp_path, view=NODES), binder=Slow())).running() as server:
        binds = [asyncio.create_task(ask(server, "bind", BIND)) for _ in range(many)]
        await asyncio.wait_for(all_wait.wait(), 20)
        assert (await ask(server, "filter", names_request(NODES))).json["NodeNames"] == NODES
        assert (await look(server, "/readyz")).status == 200
        gate.set()
        assert all(answer.json == {"Error": ""} for answer in await asyncio.gather(*binds))
